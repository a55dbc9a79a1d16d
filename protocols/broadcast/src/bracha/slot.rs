//! One slot before it is delivered: what was proposed, what was promised, who said what.

use synod_crypto::Hash;
use synod_machine::Span;
use synod_wire::Bytes;

use crate::patience::Waiting;
use crate::slots::Tally;

/// An undelivered slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Open {
    /// The first payload that its source sent here, under its digest.
    pub(super) proposed: Option<(Hash, Bytes)>,
    /// The payload that votes decided on, where it is another than was proposed.
    pub(super) pulled: Option<(Hash, Bytes)>,
    /// What of these is on the disk.
    pub(super) stored: Option<Hash>,
    /// Promised in ECHO.
    pub(super) echoed: Option<Hash>,
    /// Promised in READY.
    pub(super) readied: Option<Hash>,
    pub(super) echoes: Tally,
    pub(super) readies: Tally,
    /// 2f + 1 are ready for it.
    pub(super) decided: Option<Hash>,
    /// The wait before votes are said again; none before somebody spoke of the slot.
    pub(super) resend: Option<Waiting>,
    /// The wait before the next peer is asked for the payload, and how many were.
    pub(super) pull: Option<(Span, u32)>,
}

impl Open {
    /// The payload of a digest, if it is here.
    pub(super) fn payload(&self, digest: Hash) -> Option<&Bytes> {
        let both = [self.proposed.as_ref(), self.pulled.as_ref()];
        both.into_iter().flatten().find(|(of, _)| *of == digest).map(|(_, payload)| payload)
    }

    /// What can be delivered: decided on, and here.
    pub(super) fn deliverable(&self) -> Option<(Hash, &Bytes)> {
        let decided = self.decided?;
        self.payload(decided).map(|payload| (decided, payload))
    }

    pub(super) fn bytes(&self) -> u64 {
        let payloads = [self.proposed.as_ref(), self.pulled.as_ref()];
        let long: usize = payloads.into_iter().flatten().map(|(_, payload)| payload.len()).sum();
        size_of::<Self>() as u64 + long as u64 + self.echoes.bytes() + self.readies.bytes()
    }

    /// Asserts that promises and decisions agree with what was counted.
    pub(super) fn assert_sound(&self) {
        if let Some((digest, _)) = &self.pulled {
            assert!(self.decided == Some(*digest), "a payload is pulled for what was decided on");
        }
        if self.pull.is_some() {
            assert!(self.decided.is_some(), "nothing is pulled before a decision");
        }
    }
}
