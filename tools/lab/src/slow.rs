//! A node whose every frame leaves later than it is sent: `tc netem delay` on its interface.

use synod_machine::Span;
use synod_sim::{Act, Deed, Strategy};

/// Holds back what a node sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slow {
    /// How long.
    pub by: Span,
}

impl Strategy for Slow {
    fn name(&self) -> &'static str {
        "lab.delay"
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        let before = act.later.len();
        let (sends, rest): (Vec<Deed>, Vec<Deed>) =
            act.deeds.drain(..).partition(|deed| matches!(deed, Deed::Send { .. }));
        act.later.extend(sends.into_iter().map(|deed| (self.by, deed)));
        *act.deeds = rest;
        act.later.len() > before
    }

    fn keeps_faith(&self) -> bool {
        true
    }
}
