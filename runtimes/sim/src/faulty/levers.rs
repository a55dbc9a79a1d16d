//! Levers: the fields of a message that are worth lying about.
//!
//! A protocol-aware crate implements [`Levers`] for a message type and wraps it in [`Opened`]; strategies then see
//! a [`Mutator`] that turns frame bodies into other frame bodies, signed with keys of corrupted nodes.

use core::marker::PhantomData;

use synod_crypto::Keys;
use synod_machine::Message;
use synod_wire::{Bytes, Limits, Writer};

use crate::draw::Stream;

/// What a lever moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeverKind {
    /// A view, height, sequence or slot.
    Place,
    /// A digest.
    Digest,
    /// A parent or predecessor.
    Parent,
    /// A set of signers.
    Signers,
    /// An amount.
    Amount,
    /// A counter or acknowledgement.
    Counter,
    /// An epoch.
    Epoch,
    /// An identifier.
    Id,
}

/// One movable field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lever {
    /// What it moves.
    pub kind: LeverKind,
    /// Which of several of its kind.
    pub index: u8,
}

/// How a lever is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// One more.
    More,
    /// One less.
    Less,
    /// A value of that kind seen lately.
    Recent(u64),
    /// Any value.
    Any(u64),
    /// A value this far ahead.
    Future(u64),
}

impl Pull {
    /// 80 % small (one more, one less, a recent value), 10 % any, 10 % future.
    pub fn drawn(draws: &mut Stream) -> Self {
        let (choice, value) = (draws.below(100), draws.draw());
        match choice {
            0..30 => Self::More,
            30..60 => Self::Less,
            60..80 => Self::Recent(value),
            80..90 => Self::Any(value),
            _ => Self::Future(1 + value % 1_000),
        }
    }

    /// The number a numeric field that holds `value` gets. `recent` holds values of that kind seen lately.
    #[must_use]
    pub fn apply(self, value: u64, recent: &[u64]) -> u64 {
        match self {
            Self::More => value.saturating_add(1),
            Self::Less => value.saturating_sub(1),
            Self::Recent(choice) => {
                let at = usize::try_from(choice % (recent.len().max(1) as u64)).unwrap_or(0);
                recent.get(at).copied().unwrap_or(value)
            }
            Self::Any(other) => other,
            Self::Future(ahead) => value.saturating_add(ahead),
        }
    }
}

/// A message whose fields can be moved and which can be signed again.
pub trait Levers: Message {
    /// Its levers; may be none.
    fn levers(&self) -> Vec<Lever>;
    /// Moves one.
    fn pull(&mut self, lever: Lever, how: Pull);
    /// Signs what the message claims its sender said, with the sender's keys.
    fn resign(&mut self, _keys: &Keys) {}
}

/// A mutation of frame bodies, without the message type.
pub trait Mutator {
    /// The levers of a body; none when it does not decode.
    fn levers(&self, body: &Bytes) -> Vec<Lever>;
    /// The body with one lever moved, signed again with `keys`; `None` when it does not decode.
    fn pull(&self, body: &Bytes, lever: Lever, how: Pull, keys: Option<&Keys>) -> Option<Bytes>;
}

/// The mutator of message type `M`.
pub struct Opened<M>(PhantomData<fn() -> M>);

impl<M> Default for Opened<M> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

fn open<M: Levers>(body: &Bytes) -> Option<M> {
    let limits = Limits { frame_max: 16 << 20 };
    (body.first() == Some(&M::VERSION)).then(|| M::decode(body.slice(1..), &limits).ok()).flatten()
}

impl<M: Levers> Mutator for Opened<M> {
    fn levers(&self, body: &Bytes) -> Vec<Lever> {
        open::<M>(body).map_or_else(Vec::new, |message| message.levers())
    }

    fn pull(&self, body: &Bytes, lever: Lever, how: Pull, keys: Option<&Keys>) -> Option<Bytes> {
        let mut message = open::<M>(body)?;
        message.pull(lever, how);
        if let Some(keys) = keys {
            message.resign(keys);
        }
        let mut out = Writer::with_capacity(1 + message.size_hint());
        out.byte(M::VERSION);
        message.write(&mut out);
        Some(out.freeze())
    }
}

#[cfg(test)]
mod tests {
    use synod_machine::Queue;
    use synod_wire::{Wire, wire};

    use super::*;
    use crate::draw::Draws;

    wire! {
        /// A vote.
        #[derive(Clone, Debug, PartialEq)]
        struct Vote(u64);
    }

    impl Message for Vote {
        fn queue(&self) -> Queue {
            Queue::CONTROL
        }
    }

    impl Levers for Vote {
        fn levers(&self) -> Vec<Lever> {
            vec![Lever { kind: LeverKind::Place, index: 0 }]
        }
        fn pull(&mut self, _: Lever, how: Pull) {
            self.0 = how.apply(self.0, &[40]);
        }
    }

    #[test]
    fn a_pulled_lever_changes_the_decoded_field_and_stays_canonical() {
        let body = |vote: &Vote| Bytes::from([&[1_u8][..], &vote.encode()].concat());
        let mutator = Opened::<Vote>::default();
        let lever = mutator.levers(&body(&Vote(7)))[0];
        for (how, expected) in [
            (Pull::More, 8),
            (Pull::Less, 6),
            (Pull::Recent(3), 40),
            (Pull::Any(1), 1),
            (Pull::Future(9), 16),
        ] {
            let mutated = mutator.pull(&body(&Vote(7)), lever, how, None);
            assert_eq!(mutated, Some(body(&Vote(expected))), "{how:?}");
        }
        assert!(mutator.levers(&Bytes::from_static(&[1, 0xff])).is_empty());
        assert_eq!(mutator.pull(&Bytes::from_static(&[9]), lever, Pull::More, None), None);
    }

    #[test]
    fn four_fifths_of_the_pulls_are_small() {
        let mut draws = Draws::new(1).stream("pull", 0);
        let small = (0..10_000)
            .filter(|_| matches!(Pull::drawn(&mut draws), Pull::More | Pull::Less | Pull::Recent(_)))
            .count();
        assert!((7_800..8_200).contains(&small), "{small} of 10,000 were small");
    }
}
