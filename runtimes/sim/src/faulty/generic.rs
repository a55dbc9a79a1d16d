//! Strategies that need no protocol: silence, delay, replay, mutation, flooding, and crashes at bad moments.

use synod_machine::{Queue, Span, Time, To};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use super::asking::{Again, Burst};
use super::levers::{Mutator, Pull};
use super::strategy::{Act, Kept, Strategy};
use crate::deed::{Deed, Seen};
use crate::draw::PPM;
use crate::scenario::{Family, Incident};

/// The strategy of an incident, if it is one that needs no protocol: B1, B2, B3, B6, B10, B13, and what clients do.
/// Of a client every frame counts as a request.
#[must_use]
pub fn generic(incident: &Incident) -> Option<Box<dyn Strategy>> {
    let amount = incident.amount.unsigned_abs();
    Some(match incident.family {
        Family::ByzSilent => Box::new(Silent::drawn(amount)),
        Family::ByzDelay => Box::new(Delay { longest: Span::micros(amount), share_ppm: PPM / 4 }),
        Family::ByzReplay => Box::new(Replay { share_ppm: PPM / 5 }),
        Family::ByzMutate => Box::new(Mutate { share_ppm: PPM / 10, mutator: None }),
        Family::ByzFlood => Box::new(Flood::new(u32::try_from(amount.min(100)).unwrap_or(100))),
        Family::ClientRetry | Family::ClientDup => Box::new(Again {
            others: incident.family == Family::ClientDup,
            share_ppm: PPM / 2,
            longest: Span::micros(amount),
            is_request: |_| true,
        }),
        Family::ClientBurst => Box::new(Burst { period: Span::micros(amount) }),
        Family::ByzCrash => Box::new(WorstCrash { share_ppm: 20_000 }),
        _ => return None,
    })
}

/// Withholds frames by queue and target (B1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent {
    /// Withholds only frames of this queue; all when `None`.
    pub queue: Option<Queue>,
    /// Withholds towards peers whose number modulo the second is below the first; (1, 1) is all.
    pub targets: (u32, u32),
    /// Withholds this share of what is left, in parts per million.
    pub share_ppm: u32,
}

impl Silent {
    /// Says nothing to anybody.
    pub const ALL: Self = Self { queue: None, targets: (1, 1), share_ppm: PPM };

    /// One of several shapes of silence, chosen by a number.
    #[must_use]
    pub fn drawn(choice: u64) -> Self {
        let queue = match choice % 5 {
            0 => Some(Queue::CONTROL),
            1 => Some(Queue::PROPOSAL),
            _ => None,
        };
        let targets = [(1, 1), (1, 2), (1, 3), (2, 3)][usize::try_from(choice / 5 % 4).unwrap_or(0)];
        let share_ppm = if (choice / 20).is_multiple_of(2) { PPM } else { PPM / 2 };
        Self { queue, targets, share_ppm }
    }

    fn withholds(&self, to: NodeId, queue: Queue) -> bool {
        self.queue.is_none_or(|only| only == queue) && to.0 % self.targets.1.max(1) < self.targets.0
    }
}

impl Strategy for Silent {
    fn name(&self) -> &'static str {
        "byz.B1"
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        act.split_sends();
        let before = act.deeds.len();
        let draws = &mut *act.draws;
        act.deeds.retain(|deed| match deed {
            Deed::Send { to: To::Node(to), queue, .. } => {
                !self.withholds(*to, *queue) || !draws.chance(self.share_ppm)
            }
            _ => true,
        });
        act.deeds.len() < before
    }
}

/// Holds frames back, each for itself (B2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The longest delay.
    pub longest: Span,
    /// The share of recipients, in parts per million.
    pub share_ppm: u32,
}

impl Strategy for Delay {
    fn name(&self) -> &'static str {
        "byz.B2"
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        act.split_sends();
        let mut kept = Vec::with_capacity(act.deeds.len());
        let before = act.later.len();
        for deed in act.deeds.drain(..) {
            if matches!(deed, Deed::Send { .. }) && act.draws.chance(self.share_ppm) {
                let after = Span(act.draws.below(self.longest.0.max(1)));
                act.later.push((after, deed));
            } else {
                kept.push(deed);
            }
        }
        *act.deeds = kept;
        act.later.len() > before
    }
}

/// Remembers what it sent and received, and says it again to somebody (B3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// In which share of events it repeats something, in parts per million.
    pub share_ppm: u32,
}

impl Strategy for Replay {
    fn name(&self) -> &'static str {
        "byz.B3"
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        remember(act);
        if !act.draws.chance(self.share_ppm) {
            return false;
        }
        let machine = act.machine;
        let kept: Vec<Kept> = act.board.frames().iter().filter(|k| k.machine == machine).cloned().collect();
        let (Some(frame), Some(to)) = (act.draws.pick(&kept).cloned(), act.draws.pick(act.peers).copied())
        else {
            return false;
        };
        act.inject(to, frame.queue, frame.body);
        true
    }
}

/// Puts the frames of this call on the blackboard.
fn remember(act: &mut Act<'_>) {
    let machine = act.machine;
    if let Seen::Frame(frame) = act.seen {
        act.board.keep(Kept { machine, queue: frame.queue, body: frame.body.clone() });
    }
    for deed in act.deeds.iter() {
        if let Deed::Send { queue, body, .. } = deed {
            act.board.keep(Kept { machine, queue: *queue, body: body.clone() });
        }
    }
}

/// Changes frames (B6): by a lever where the protocol gives them, else by one bit.
pub struct Mutate {
    /// The share of recipients, in parts per million.
    pub share_ppm: u32,
    /// The protocol's levers.
    pub mutator: Option<Box<dyn Mutator>>,
}

impl Mutate {
    fn mutated(&self, act: &mut Act<'_>, body: &Bytes) -> Option<Bytes> {
        let Some(mutator) = &self.mutator else { return flip(body, act.draws.draw()) };
        let levers = mutator.levers(body);
        let lever = *act.draws.pick(&levers)?;
        let how = Pull::drawn(act.draws);
        mutator.pull(body, lever, how, act.keys.get(&act.node))
    }
}

fn flip(body: &Bytes, choice: u64) -> Option<Bytes> {
    let bits = body.len() as u64 * 8;
    let at = choice.checked_rem(bits)?;
    let mut bytes = body.to_vec();
    bytes[usize::try_from(at / 8).ok()?] ^= 1 << (at % 8);
    Some(Bytes::from(bytes))
}

impl Strategy for Mutate {
    fn name(&self) -> &'static str {
        "byz.B6"
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        act.split_sends();
        let mut changed = false;
        let mut deeds = core::mem::take(act.deeds);
        for deed in &mut deeds {
            if let Deed::Send { body, .. } = deed
                && act.draws.chance(self.share_ppm)
                && let Some(other) = self.mutated(act, body)
            {
                *body = other;
                changed = true;
            }
        }
        *act.deeds = deeds;
        changed
    }
}

/// Frames a flooding member adds in a second of virtual time, as many as a link of the network runtime takes from one
/// peer. Without a rate, two members that flood each other would feed each other without end.
const FLOOD_RATE: u64 = 20_000;

/// Frames it may add at once.
const FLOOD_BURST: u64 = 2_000;

/// Sends more than anybody asked for: repeated frames and noise, at most 20,000 a second (B10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flood {
    frames: u32,
    /// Nanoseconds of its rate that it has not used.
    saved: u64,
    /// When it last flooded.
    last: Time,
}

impl Flood {
    /// Adds so many frames per event, as long as its rate lasts.
    #[must_use]
    pub const fn new(frames: u32) -> Self {
        Self { frames, saved: FLOOD_BURST * Self::PRICE, last: Time(0) }
    }

    /// Nanoseconds that one frame takes of the rate.
    const PRICE: u64 = 1_000_000_000 / FLOOD_RATE;

    /// How many frames it may add now.
    fn allowed(&mut self, now: Time) -> u32 {
        let gained = now.since(self.last).0;
        self.last = now;
        self.saved = self.saved.saturating_add(gained).min(FLOOD_BURST * Self::PRICE);
        let frames = self.frames.min(u32::try_from(self.saved / Self::PRICE).unwrap_or(u32::MAX));
        self.saved -= u64::from(frames) * Self::PRICE;
        frames
    }
}

impl Strategy for Flood {
    fn name(&self) -> &'static str {
        "byz.B10"
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        remember(act);
        let machine = act.machine;
        let kept: Vec<Kept> = act.board.frames().iter().filter(|k| k.machine == machine).cloned().collect();
        let frames = self.allowed(act.now);
        for _ in 0..frames {
            let Some(to) = act.draws.pick(act.peers).copied() else { return false };
            let Some(frame) = act.draws.pick(&kept).cloned() else { return false };
            let noise = act.draws.draw();
            let body = if noise.is_multiple_of(4) { flip(&frame.body, noise / 4) } else { None };
            act.inject(to, frame.queue, body.unwrap_or(frame.body));
        }
        frames > 0
    }
}

/// Follows the protocol and crashes behind a write or between two recipients (B13).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorstCrash {
    /// The share of calls with such a moment, in parts per million.
    pub share_ppm: u32,
}

impl Strategy for WorstCrash {
    fn name(&self) -> &'static str {
        "byz.B13"
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        let mut units = 0;
        let mut moments = Vec::new();
        for deed in act.deeds.iter() {
            match deed {
                Deed::Append { .. } | Deed::Store { .. } => moments.push(units + 1),
                Deed::Send { to: To::Set(set), .. } => {
                    moments.extend((1..u64::from(set.count())).map(|served| units + served));
                }
                _ => {}
            }
            units += deed.units();
        }
        let moment = act.draws.pick(&moments).copied();
        if act.draws.chance(self.share_ppm) && moment.is_some() {
            *act.crash_after = moment;
            return true;
        }
        false
    }

    fn keeps_faith(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_keeps_to_its_rate_however_many_events_feed_it() {
        let mut flood = Flood::new(100);
        let mut second = |start: u64| -> u64 {
            (0..100_000).map(|event| u64::from(flood.allowed(Time(start + event * 10_000)))).sum()
        };
        assert_eq!(second(0), FLOOD_BURST + FLOOD_RATE - 1, "what it had saved, and a second of its rate");
        assert_eq!(second(1_000_000_000), FLOOD_RATE);
    }
}
