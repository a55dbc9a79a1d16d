//! Which links a split cuts.

use crate::Draw;

/// How the members are parted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Two groups; every size of the first is equally likely.
    Sizes,
    /// Two groups; every member draws its own.
    Members,
    /// One member is alone.
    Alone,
    /// Two groups that only one member reaches both of.
    Bridge,
    /// Every member reaches its two neighbours on a ring only.
    Ring,
    /// One member hears nobody, though all hear it.
    Deaf,
    /// Nobody hears one member, though it hears all.
    Mute,
}

impl Shape {
    /// All.
    pub const ALL: [Self; 7] =
        [Self::Sizes, Self::Members, Self::Alone, Self::Bridge, Self::Ring, Self::Deaf, Self::Mute];

    /// The word of reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sizes => "sizes",
            Self::Members => "members",
            Self::Alone => "alone",
            Self::Bridge => "bridge",
            Self::Ring => "ring",
            Self::Deaf => "deaf",
            Self::Mute => "mute",
        }
    }

    /// The directed links that are cut among `members`; never none from three members on, save in a ring of three.
    #[must_use]
    pub fn cut(self, members: usize, draw: &mut Draw) -> Vec<(usize, usize)> {
        let order = shuffled(members, draw);
        let rank = |member: usize| order.iter().position(|other| *other == member).unwrap_or(0);
        let size = match self {
            Self::Sizes => 1 + draw.below(members.saturating_sub(1)),
            // Neither of the groups is empty.
            Self::Members => 1 + (0..members.saturating_sub(2)).filter(|_| draw.coin()).count(),
            _ => members / 2,
        };
        let is_cut = |from: usize, to: usize| {
            let (a, b) = (rank(from), rank(to));
            match self {
                Self::Sizes | Self::Members => (a < size) != (b < size),
                Self::Alone => a == 0 || b == 0,
                // The first is the bridge.
                Self::Bridge => a != 0 && b != 0 && (a <= size) != (b <= size),
                Self::Ring => !matches!(a.abs_diff(b), 1) && a.abs_diff(b) != members - 1,
                Self::Deaf => b == 0,
                Self::Mute => a == 0,
            }
        };
        let all = (0..members).flat_map(|from| (0..members).map(move |to| (from, to)));
        all.filter(|(from, to)| from != to && is_cut(*from, *to)).collect()
    }
}

fn shuffled(members: usize, draw: &mut Draw) -> Vec<usize> {
    let mut order: Vec<usize> = (0..members).collect();
    for at in (1..members).rev() {
        order.swap(at, draw.below(at + 1));
    }
    order
}
