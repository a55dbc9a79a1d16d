//! Which ids a batch has.

use super::Unfit;
use std::fmt;
use std::str::FromStr;
use synod_machine::Rng;
use synod_quorum::NodeId;

/// How the ids of each batch are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdDraw {
    /// Anew for each batch, every set of ids as likely as any other.
    Uniform,
    /// The ids of the batch before, this percentage of them exchanged for others.
    Cohort(u8),
    /// Neighbours, each batch where the one before ended.
    Block,
}

impl fmt::Display for IdDraw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Cohort(churn) => write!(f, "cohort:{churn}"),
            Self::Block => f.write_str("block"),
        }
    }
}

impl FromStr for IdDraw {
    type Err = &'static str;

    /// `uniform`, `cohort` (nobody exchanged), `cohort:PERCENT` or `block`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.strip_prefix("cohort:")) {
            ("uniform", _) => Ok(Self::Uniform),
            ("block", _) => Ok(Self::Block),
            ("cohort", _) => Ok(Self::Cohort(0)),
            (_, Some(churn)) => match churn.parse() {
                Ok(churn @ 0..=100) => Ok(Self::Cohort(churn)),
                _ => Err("the churn of a cohort is 0 to 100 percent"),
            },
            _ => Err("one of uniform, cohort[:PERCENT], block"),
        }
    }
}

/// Sets of ids, one after another.
pub(super) struct Sets {
    draw: IdDraw,
    space: u32,
    count: u32,
    rng: Rng,
    last: Vec<u32>,
    base: u32,
}

impl Sets {
    /// Sets of `count` ids below `space`.
    ///
    /// # Errors
    /// [`Unfit::Space`].
    pub(super) fn new(draw: IdDraw, count: u32, space: u32) -> Result<Self, Unfit> {
        if count == 0 || count > space {
            return Err(Unfit::Space);
        }
        let rng = Rng::new(u64::from(space), NodeId(count), 1);
        let mut sets = Self { draw, space, count, rng, last: Vec::new(), base: 0 };
        sets.last = sets.uniform();
        Ok(sets)
    }

    /// The next set, rising strictly.
    pub(super) fn next(&mut self) -> Vec<u32> {
        match self.draw {
            IdDraw::Uniform => self.uniform(),
            IdDraw::Cohort(churn) => self.exchanged(churn),
            IdDraw::Block => self.block(),
        }
    }

    fn uniform(&mut self) -> Vec<u32> {
        // Where ids are sparse, drawing again what was drawn twice is cheap; where they are dense, every id is asked.
        if self.space / 4 >= self.count {
            self.filled(Vec::new())
        } else {
            pick(&mut self.rng, self.count, self.space)
        }
    }

    /// `ids`, which rise, and drawn ones until there are enough.
    fn filled(&mut self, mut ids: Vec<u32>) -> Vec<u32> {
        while ids.len() < self.count as usize {
            let missing = self.count as usize - ids.len();
            ids.extend((0..missing).map(|_| below(&mut self.rng, self.space)));
            ids.sort_unstable();
            ids.dedup();
        }
        ids
    }

    fn exchanged(&mut self, churn: u8) -> Vec<u32> {
        let leave = u64::from(self.count) * u64::from(churn) / 100;
        let leave = u32::try_from(leave).unwrap_or(self.count);
        let mut leaving = pick(&mut self.rng, leave, self.count).into_iter().peekable();
        let stays = (0_u32..).zip(&self.last).filter(|(at, _)| leaving.next_if_eq(at).is_none());
        let stay: Vec<u32> = stays.map(|(_, id)| *id).collect();
        // Who left may be drawn again: by chance in a large space, and for want of others in a small one.
        self.last = self.filled(stay);
        self.last.clone()
    }

    fn block(&mut self) -> Vec<u32> {
        if self.space - self.base < self.count {
            self.base = 0;
        }
        let ids = (self.base..self.base + self.count).collect();
        self.base += self.count;
        ids
    }
}

/// A number below `bound`, which is above 0.
fn below(rng: &mut Rng, bound: u32) -> u32 {
    u32::try_from(rng.below(u64::from(bound))).unwrap_or(0)
}

/// `count` of the numbers below `of`, rising, every set as likely as any other.
pub(super) fn pick(rng: &mut Rng, count: u32, of: u32) -> Vec<u32> {
    let mut wanted = count.min(of);
    let mut picked = Vec::with_capacity(wanted as usize);
    for (at, left) in (0..of).zip((1..=of).rev()) {
        if wanted > 0 && below(rng, left) < wanted {
            picked.push(at);
            wanted -= 1;
        }
    }
    picked
}

#[cfg(test)]
mod tests {
    use super::{IdDraw, Sets};
    use std::collections::BTreeSet;

    fn sets(draw: IdDraw, count: u32, space: u32) -> Vec<Vec<u32>> {
        let mut sets = Sets::new(draw, count, space).expect("enough ids");
        (0..4).map(|_| sets.next()).collect()
    }

    #[test]
    fn every_set_rises_below_the_space_and_is_full() {
        for draw in
            [IdDraw::Uniform, IdDraw::Cohort(0), IdDraw::Cohort(5), IdDraw::Cohort(100), IdDraw::Block]
        {
            for (count, space) in [(1, 1), (1, 9), (100, 100), (100, 101), (100, 350), (100, 1_000_000)] {
                for ids in sets(draw, count, space) {
                    assert_eq!(ids.len(), count as usize, "{draw} {count} of {space}");
                    assert!(
                        ids.is_sorted_by(|a, b| a < b) && ids.iter().all(|id| *id < space),
                        "{draw}: {ids:?}"
                    );
                }
            }
        }
        assert!(Sets::new(IdDraw::Uniform, 11, 10).is_err() && Sets::new(IdDraw::Block, 0, 10).is_err());
    }

    #[test]
    fn cohorts_share_what_they_are_told_to_and_others_do_not() {
        let shared = |draw, space| {
            let all = sets(draw, 1_000, space);
            let first: BTreeSet<u32> = all[0].iter().copied().collect();
            all[1].iter().filter(|id| first.contains(id)).count()
        };
        assert_eq!(shared(IdDraw::Cohort(0), 1_000_000), 1_000);
        assert!((950..960).contains(&shared(IdDraw::Cohort(5), 1_000_000)));
        assert!(shared(IdDraw::Uniform, 1_000_000) < 50 && shared(IdDraw::Cohort(100), 1_000_000) < 50);
        assert_eq!(shared(IdDraw::Block, 1_000_000), 0);
        assert_eq!(sets(IdDraw::Block, 3, 7), [[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5]]);
    }

    #[test]
    fn the_words_of_the_command_line_are_read_and_shown() {
        for word in ["uniform", "block", "cohort:0", "cohort:5", "cohort:100"] {
            assert_eq!(word.parse::<IdDraw>().map(|draw| draw.to_string()).as_deref(), Ok(word));
        }
        assert_eq!("cohort".parse(), Ok(IdDraw::Cohort(0)));
        for wrong in ["", "cohort:", "cohort:101", "cohort:-1", "even", "uniform:5"] {
            assert!(wrong.parse::<IdDraw>().is_err(), "{wrong}");
        }
    }
}
