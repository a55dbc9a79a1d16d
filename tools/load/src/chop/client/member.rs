//! One member: what it has in flight, and under which roots it was shown.

use synod_chopchop::message::Inclusion;
use synod_crypto::Signature;
use synod_machine::Time;

use super::config::Conduct;

/// Roots that a member remembers.
const SHOWN_MAX: usize = 4;

/// The first half of a root's commitment, by which messages name it.
pub(super) type Half = [u8; 16];

/// A root under which a member's message stands.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) half: Half,
    pub(super) index: u32,
    /// Whether a share for it was asked for or sent.
    pub(super) signed: bool,
    /// Whether its share is being made.
    pub(super) waits: bool,
    /// What a receipt needs, when receipts are given.
    pub(super) proof: Option<Box<Inclusion>>,
}

/// What a member does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has no id.
    Stranger,
    /// Its card is being made or is on its way.
    Enrolling,
    /// Nothing is in flight.
    Idle,
    /// Its message waits for its turn or its signature.
    Beginning,
    /// Its message is on its way.
    Flying,
    /// It asked where it stands.
    Asking,
}

/// A member.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) id: u32,
    pub(super) conduct: Conduct,
    pub(super) stage: Stage,
    pub(super) k0: u64,
    pub(super) next_k: u64,
    pub(super) parity: bool,
    pub(super) t: Signature,
    pub(super) broker: u32,
    pub(super) rounds: u32,
    pub(super) attempts: u32,
    /// Whether the broker of the turn showed a root.
    pub(super) included: bool,
    /// Whether it counts among those that no broker showed a root for their message.
    pub(super) unshown: bool,
    /// Whether the broker asked why the number is legitimate.
    pub(super) explain: bool,
    pub(super) since: Time,
    /// When the next broker is asked.
    pub(super) patience: Time,
    pub(super) nonce: u64,
    pub(super) shown: Vec<Shown>,
    /// Messages begun and messages known to be delivered.
    pub(super) begun: u32,
    pub(super) confirmed: u32,
    /// The root of the last delivery, whose repetition is acknowledged again.
    pub(super) last: Half,
}

impl Member {
    pub(super) const fn new(id: Option<u32>, conduct: Conduct) -> Self {
        let (id, stage) = match id {
            Some(id) => (id, Stage::Idle),
            None => (u32::MAX, Stage::Stranger),
        };
        Self {
            id,
            conduct,
            stage,
            k0: 0,
            next_k: 0,
            parity: false,
            t: Signature([0; 64]),
            broker: 0,
            rounds: 0,
            attempts: 0,
            included: false,
            unshown: false,
            explain: false,
            since: Time::ZERO,
            patience: Time::ZERO,
            nonce: 0,
            shown: Vec::new(),
            begun: 0,
            confirmed: 0,
            last: [0; 16],
        }
    }

    /// The root of this name, from now on remembered; the oldest gives way.
    pub(super) fn remember(&mut self, shown: Shown) -> &mut Shown {
        let at = self.shown.iter().position(|known| known.half == shown.half);
        let at = at.unwrap_or_else(|| {
            if self.shown.len() >= SHOWN_MAX {
                self.shown.remove(0);
            }
            self.shown.push(shown);
            self.shown.len() - 1
        });
        &mut self.shown[at]
    }

    /// Whether the share under a root, which was being made, is still wanted.
    pub(super) fn signs_now(&mut self, half: &Half) -> bool {
        let shown = self.shown.iter_mut().find(|shown| shown.half == *half);
        shown.is_some_and(|shown| core::mem::take(&mut shown.waits))
    }

    pub(super) fn named(&self, half: &Half) -> Option<&Shown> {
        self.shown.iter().find(|shown| shown.half == *half)
    }
}
