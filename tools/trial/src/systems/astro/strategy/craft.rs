//! Messages as a member can make them that keeps to no rule but those of form, signed with its own key.

use synod_astro::{
    Credited, CutSign, CutSigned, Line, Looked, Opened, Profile, Receipt, Settled, Vouch, With, Witnessed,
};
use synod_broadcast::Lot;
use synod_broadcast::bracha;
use synod_broadcast::signed::{Acked, Certificate, Except, Message, Said, View};
use synod_crypto::{Hash, Keys, Signature};
use synod_ledger::Opening;
use synod_quorum::NodeId;
use synod_sim::Act;
use synod_wire::{Blob, Bytes, Writer};

use super::super::sight::{Spoken, Voted};

/// A frame as it travels: the version, then the message.
pub(super) fn sealed<M: Sent>(message: &M) -> Bytes {
    let mut out = Writer::with_capacity(1 + message.size_hint());
    out.byte(M::VERSION);
    message.write(&mut out);
    out.freeze()
}

/// What members of one profile or another say.
pub(super) trait Sent: synod_machine::Message {}
impl Sent for Spoken {}
impl Sent for Voted {}

/// Says something to a peer.
pub(super) fn say<M: Sent>(act: &mut Act<'_>, to: NodeId, message: &M) {
    act.inject(to, message.queue(), sealed(message));
}

/// A batch that a lying member proposes, in the words of its profile.
pub(super) enum Proposal {
    Signed(Spoken),
    Votes(Voted),
}

impl Proposal {
    /// Says it to a peer.
    pub(super) fn say(&self, act: &mut Act<'_>, to: NodeId) {
        match self {
            Self::Signed(message) => say(act, to, message),
            Self::Votes(message) => say(act, to, message),
        }
    }
}

/// A member with its key.
#[derive(Clone, Copy)]
pub(super) struct Hand<'a> {
    pub(super) view: &'a View,
    pub(super) me: NodeId,
    pub(super) keys: &'a Keys,
    pub(super) profile: Profile,
}

impl Hand<'_> {
    pub(super) fn lane(&self) -> u8 {
        self.me.member().unwrap_or(0)
    }

    pub(super) fn acked(&self, lot: Lot, digest: Hash, except: &Except) -> Signature {
        let statement =
            Acked { context: self.view.context, lot, digest, except: except.digest(), authorized: true };
        self.keys.sign(self.view.scope(), self.me, statement).signature
    }

    /// Its own part of a certificate.
    pub(super) fn said(&self, lot: Lot, digest: Hash, except: Except) -> Said {
        let signature = self.acked(lot, digest, &except);
        Said { member: self.lane(), except, authorized: true, signature }
    }

    /// A batch in its lane.
    pub(super) fn batch(&self, at: (u64, Hash), openings: Vec<Opening>, lines: Vec<Line>) -> Opened {
        let withs = lines.iter().map(|_| None).collect();
        self.backed_batch(at, openings, (lines, withs))
    }

    /// A batch in its lane of entries that spend what they are backed with, where that is how money is spent.
    pub(super) fn backed_batch(
        &self,
        at: (u64, Hash),
        openings: Vec<Opening>,
        (lines, withs): (Vec<Line>, Vec<Option<With>>),
    ) -> Opened {
        let lot = Lot { source: self.lane(), sequence: at.0 };
        let shard = self.view.context.shard;
        match self.profile {
            Profile::II => Opened::new_backed(shard, lot, at.1, openings, (lines, withs)),
            Profile::I | Profile::Funded => Opened::new(shard, lot, at.1, openings, lines),
        }
    }

    /// A batch as it is broadcast, in either broadcast.
    pub(super) fn propose(&self, batch: &Opened) -> Option<Proposal> {
        if self.profile != Profile::I {
            return self.prepare(batch).map(Proposal::Signed);
        }
        let payload = Blob::try_from(batch.payload()).ok()?;
        let sequence = batch.lot().sequence;
        Some(Proposal::Votes(Voted::Broadcast(bracha::Message::Prepare { sequence, payload })))
    }

    /// Its word on payments.
    pub(super) fn vouch(&self, root: Hash, open: Except) -> Vouch {
        let statement = Credited { context: self.view.context, root, open: open.digest() };
        let signature = self.keys.sign(self.view.scope(), self.me, statement).signature;
        Vouch { member: self.lane(), open, signature }
    }

    /// A batch as it is broadcast.
    pub(super) fn prepare(&self, batch: &Opened) -> Option<Spoken> {
        let signature = self.acked(batch.lot(), batch.digest, &Except::default());
        let payload = Blob::try_from(batch.payload()).ok()?;
        Some(Spoken::Broadcast(Message::Prepare { lot: batch.lot(), payload, signature }))
    }

    /// A certificate of whatever these said.
    pub(super) fn commit(&self, lot: Lot, digest: Hash, mut said: Vec<Said>) -> Option<Spoken> {
        said.sort_by_key(|one| one.member);
        let said = said.try_into().ok()?;
        let (context, epoch) = (self.view.context, self.view.roster.epoch());
        Some(Spoken::Broadcast(Message::Commit(Certificate { context, epoch, lot, digest, said })))
    }

    /// A receipt.
    pub(super) fn receipt(&self, lot: Lot, digest: Hash, open: Except) -> Receipt {
        let statement = Settled { context: self.view.context, lot, digest, open: open.digest() };
        let signature = self.keys.sign(self.view.scope(), self.me, statement).signature;
        Receipt { lot, digest, open, member: self.lane(), signature }
    }

    /// Its word on whether the owners' signatures of a batch are good.
    pub(super) fn witnessed(&self, word: Witnessed) -> Witnessed {
        let Witnessed { lot, digest, keys, is_good, .. } = word;
        let statement = Looked { context: self.view.context, lot, digest, keys, is_good };
        let signature = self.keys.sign(self.view.scope(), self.me, statement).signature;
        Witnessed { member: self.lane(), signature, ..word }
    }

    /// A signature on the state behind a cut.
    pub(super) fn cut_sign(&self, number: u64, proposer: u8, root: Hash) -> CutSign {
        let statement = CutSigned { context: self.view.context, number, proposer, root };
        let signature = self.keys.sign(self.view.scope(), self.me, statement).signature;
        CutSign { number, proposer, root, member: self.lane(), signature }
    }
}
