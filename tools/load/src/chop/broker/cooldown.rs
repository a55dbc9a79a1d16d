//! Which members are in a batch on its way.

use synod_machine::Rng;

/// A bit per id, set while a batch with it is on its way.
pub struct Cooldown {
    words: Vec<u64>,
    space: u32,
    busy: u32,
}

impl Cooldown {
    /// Nobody of `space` ids is in a batch.
    #[must_use]
    pub fn new(space: u32) -> Self {
        Self { words: vec![0; space.div_ceil(64) as usize], space, busy: 0 }
    }

    fn is_busy(&self, id: u32) -> bool {
        id >= self.space || self.words.get((id / 64) as usize).is_none_or(|word| word >> (id % 64) & 1 == 1)
    }

    fn set(&mut self, id: u32) {
        if let Some(word) = self.words.get_mut((id / 64) as usize) {
            *word |= 1 << (id % 64);
        }
        self.busy += 1;
    }

    /// Ids that are in no batch.
    #[must_use]
    pub const fn free(&self) -> u32 {
        self.space.saturating_sub(self.busy)
    }

    /// Takes these ids, which are distinct; takes none and gives false if one of them is taken.
    pub fn claim(&mut self, ids: &[u32]) -> bool {
        if ids.iter().any(|id| self.is_busy(*id)) {
            return false;
        }
        ids.iter().for_each(|id| self.set(*id));
        true
    }

    /// Takes `count` ids, each set of free ones as likely as any other, and gives them in rising order; none if too few are
    /// free.
    pub fn draw(&mut self, count: u32, rng: &mut Rng) -> Option<Vec<u32>> {
        if count > self.free() {
            return None;
        }
        let mut ids = Vec::with_capacity(count as usize);
        while ids.len() < count as usize {
            let id = u32::try_from(rng.below(u64::from(self.space))).unwrap_or(0);
            if !self.is_busy(id) {
                self.set(id);
                ids.push(id);
            }
        }
        ids.sort_unstable();
        Some(ids)
    }

    /// Gives ids back.
    pub fn release(&mut self, ids: &[u32]) {
        for id in ids {
            if *id < self.space
                && self.is_busy(*id)
                && let Some(word) = self.words.get_mut((id / 64) as usize)
            {
                *word &= !(1 << (id % 64));
                self.busy -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cooldown;
    use std::collections::BTreeSet;
    use synod_machine::Rng;
    use synod_quorum::NodeId;

    #[test]
    fn no_id_is_drawn_while_it_is_taken_and_all_are_there_again_afterwards() {
        let (mut cooldown, mut rng) = (Cooldown::new(100), Rng::new(1, NodeId(0), 0));
        let first = cooldown.draw(60, &mut rng).expect("enough");
        let second = cooldown.draw(40, &mut rng).expect("the rest");
        let both: BTreeSet<u32> = first.iter().chain(&second).copied().collect();
        assert_eq!((both.len(), cooldown.free()), (100, 0), "nobody twice");
        assert!(first.is_sorted() && second.is_sorted());
        assert!(cooldown.draw(1, &mut rng).is_none());
        cooldown.release(&first);
        assert_eq!(cooldown.free(), 60);
        assert!(cooldown.claim(&first[..10]) && !cooldown.claim(&first[5..20]));
        assert_eq!(cooldown.free(), 50, "who cannot have all takes none");
        cooldown.release(&second);
        cooldown.release(&second);
        assert_eq!(cooldown.free(), 90, "giving back twice gives nothing twice");
        assert!(!cooldown.claim(&[100]), "beyond the ids");
    }
}
