//! Clients that keep to their protocol and still make it hard for others: repeats, copies, bursts.

use synod_machine::{Span, To};
use synod_wire::Bytes;

use super::strategy::{Act, Strategy};
use crate::deed::Deed;

/// Sends requests again: to the same node, or to others too.
#[derive(Clone, Debug)]
pub struct Again {
    /// Whether copies go to other nodes; else to the same.
    pub others: bool,
    /// The share of requests, in parts per million.
    pub share_ppm: u32,
    /// The longest time until the repetition.
    pub longest: Span,
    /// What is a request; nothing else is repeated.
    pub is_request: fn(&Bytes) -> bool,
}

impl Strategy for Again {
    fn name(&self) -> &'static str {
        if self.others { "client.dup" } else { "client.retry" }
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        act.split_sends();
        let before = act.later.len();
        for deed in act.deeds.iter() {
            let Deed::Send { to: To::Node(to), queue, body } = deed else { continue };
            if !(self.is_request)(body) || !act.draws.chance(self.share_ppm) {
                continue;
            }
            let after = Span(act.draws.below(self.longest.0.max(1)));
            let members = act.peers.iter().filter(|peer| peer.is_member() && (**peer != *to) == self.others);
            for peer in members {
                let again = Deed::Send { to: To::Node(*peer), queue: *queue, body: body.clone() };
                act.later.push((after, again));
            }
        }
        act.later.len() > before
    }

    fn keeps_faith(&self) -> bool {
        true
    }
}

/// Holds everything back and lets it go at once, then is idle until the next time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Burst {
    /// From one burst to the next.
    pub period: Span,
}

impl Strategy for Burst {
    fn name(&self) -> &'static str {
        "client.burst"
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        let period = self.period.0.max(1);
        let wait = Span(period - act.now.0 % period);
        let (held, kept) = act.deeds.drain(..).partition(|deed| matches!(deed, Deed::Send { .. }));
        *act.deeds = kept;
        let held: Vec<Deed> = held;
        let any = !held.is_empty();
        act.later.extend(held.into_iter().map(|deed| (wait, deed)));
        any
    }

    fn keeps_faith(&self) -> bool {
        true
    }
}
