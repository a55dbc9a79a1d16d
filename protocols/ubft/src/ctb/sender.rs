//! The broadcaster (Alg. 1, lines 1 to 4): a number for each message, LOCK at once, SIGNED when it is wanted.
//!
//! *Bounds.* The last t messages, and [`WAITING_MAX`] that wait for a summary.

use std::collections::VecDeque;

use synod_crypto::{Claim, Hash, Signature, Verified};
use synod_machine::{Time, Turn};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes};

use super::CtBroadcast;
use super::words::{Message, Output, SIGNED_BODY_MAX, Told};
use crate::config::Config;
use crate::job::Job;
use crate::statement::Statement;
use crate::trace::Rule;

/// Messages that wait for a summary at most.
pub const WAITING_MAX: usize = 1_024;

/// A message that may be asked for again.
#[derive(Clone, Debug)]
struct Kept {
    k: u64,
    body: Bytes,
    digest: Option<Hash>,
    is_signing: bool,
    signature: Option<Signature>,
    /// When SIGNED went to one replica alone, by member.
    resent: Vec<(NodeId, Time)>,
    /// Receivers that promised something about it (4.18).
    promised: NodeSet,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    last: u64,
    summarized: u64,
    is_slow: bool,
    /// Not sent, with whether they are signed at once.
    waiting: VecDeque<(Bytes, bool)>,
    /// Oldest first.
    kept: VecDeque<Kept>,
}

impl Sender {
    pub(super) fn new() -> Self {
        Self { last: 0, summarized: 0, is_slow: false, waiting: VecDeque::new(), kept: VecDeque::new() }
    }

    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn room(&self) -> usize {
        WAITING_MAX.saturating_sub(self.waiting.len())
    }

    pub(super) fn is_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        let waiting: usize = self.waiting.iter().map(|(body, _)| body.len()).sum();
        let kept: usize = self.kept.iter().map(|kept| kept.body.len() + size_of::<Kept>()).sum();
        (waiting + kept) as u64
    }

    fn kept(&mut self, k: u64) -> Option<&mut Kept> {
        let first = self.kept.front()?.k;
        self.kept.get_mut(usize::try_from(k.checked_sub(first)?).ok()?)
    }

    pub(super) const fn slow(&mut self, is_slow: bool) {
        self.is_slow = is_slow;
    }
}

fn signed(config: &Config, kept: &Kept) -> Option<Message> {
    let broadcaster = config.me.member()?;
    let body = (kept.body.len() <= SIGNED_BODY_MAX).then(|| Blob::try_from(kept.body.clone()).ok()).flatten();
    Some(Message::Signed {
        broadcaster,
        k: kept.k,
        digest: kept.digest?,
        signature: Box::new(kept.signature?),
        body,
    })
}

/// What the broadcaster does with one event.
pub(super) struct Sending<'a> {
    pub(super) sender: &'a mut Sender,
    pub(super) config: &'a Config,
    pub(super) receivers: NodeSet,
}

impl Sending<'_> {
    pub(super) fn broadcast(&mut self, body: Bytes, is_signed: bool, turn: &mut Turn<'_, CtBroadcast>) {
        if body.len() > self.config.body_max() || self.sender.room() == 0 {
            turn.output(Output::Refused(body));
            return;
        }
        self.sender.waiting.push_back((body, is_signed));
        self.advance(turn);
    }

    pub(super) fn summarized(&mut self, k: u64, turn: &mut Turn<'_, CtBroadcast>) {
        self.sender.summarized = self.sender.summarized.max(k.min(self.sender.last));
        self.advance(turn);
    }

    /// Sends what waits, up to t beyond the last summary (E23).
    fn advance(&mut self, turn: &mut Turn<'_, CtBroadcast>) {
        let tail = u64::from(self.config.parameters.tail);
        while self.sender.last < self.sender.summarized.saturating_add(tail) {
            let Some((body, is_signed)) = self.sender.waiting.pop_front() else { return };
            self.send(body, is_signed, turn);
        }
        if !self.sender.waiting.is_empty() {
            turn.applied(Rule::Blocked);
        }
    }

    fn send(&mut self, body: Bytes, is_signed: bool, turn: &mut Turn<'_, CtBroadcast>) {
        self.sender.last += 1;
        let k = self.sender.last;
        if let Ok(body) = Blob::try_from(body.clone()) {
            turn.applied(Rule::A1Lock);
            turn.send(self.receivers, Message::Lock { k, body });
        }
        let tail = usize::try_from(self.config.parameters.tail).unwrap_or(0);
        if self.sender.kept.len() >= tail {
            self.sender.kept.pop_front();
        }
        let kept = Kept {
            k,
            body: body.clone(),
            digest: None,
            is_signing: false,
            signature: None,
            resent: Vec::new(),
            promised: NodeSet::EMPTY,
        };
        self.sender.kept.push_back(kept);
        if is_signed || self.sender.is_slow {
            self.sign(k, turn);
        }
        turn.output(Output::Delivered { k, body });
    }

    pub(super) fn sign(&mut self, k: u64, turn: &mut Turn<'_, CtBroadcast>) {
        let (scope, signer) = (self.config.scope(), self.config.me.member());
        let Some((kept, signer)) = self.sender.kept(k).filter(|kept| !kept.is_signing).zip(signer) else {
            return;
        };
        kept.is_signing = true;
        let digest = *kept.digest.get_or_insert_with(|| Hash::of(&kept.body));
        turn.compute(Job::Sign { scope, statement: Statement::Broadcast { signer, k, digest } });
    }

    pub(super) fn on_signed(&mut self, claim: &Verified<Claim<Statement>>, turn: &mut Turn<'_, CtBroadcast>) {
        let Statement::Broadcast { k, .. } = claim.statement else { return };
        let config = self.config;
        let Some(kept) = self.sender.kept(k) else { return };
        kept.signature = Some(claim.signature);
        if let Some(message) = signed(config, kept) {
            turn.applied(Rule::A1Signed);
            turn.send(self.receivers, message);
        }
    }

    /// The last messages, to a receiver that may have missed them.
    pub(super) fn greet(&self, peer: NodeId, turn: &mut Turn<'_, CtBroadcast>) {
        for kept in self.sender.kept.iter().filter(|_| self.receivers.contains(peer)) {
            if let Ok(body) = Blob::try_from(kept.body.clone()) {
                turn.send(peer, Message::Lock { k: kept.k, body });
            }
            signed(self.config, kept).into_iter().for_each(|message| turn.send(peer, message));
        }
    }

    /// A receiver promises something with what it locked: it counts where that is what was said.
    pub(super) fn on_promised(
        &mut self,
        from: NodeId,
        k: u64,
        told: &Told,
        turn: &mut Turn<'_, CtBroadcast>,
    ) {
        let Some(kept) = self.sender.kept(k).filter(|kept| !kept.promised.contains(from)) else { return };
        let is_it = match told {
            Told::Raw(body) => *body.bytes() == kept.body,
            Told::Digest(digest) => *kept.digest.get_or_insert_with(|| Hash::of(&kept.body)) == *digest,
        };
        if is_it {
            kept.promised.insert(from);
            turn.output(Output::Promised { k, by: from });
        }
    }

    /// Somebody misses message `k`: it is signed once, and sent again to one who asks again, at most once per T_fast.
    pub(super) fn on_nack(&mut self, from: NodeId, k: u64, turn: &mut Turn<'_, CtBroadcast>) {
        let (config, now) = (self.config, turn.now());
        let Some(kept) = self.sender.kept(k) else { return };
        if !kept.is_signing {
            self.sign(k, turn);
            return;
        }
        let Some(message) = signed(config, kept) else { return };
        match kept.resent.iter_mut().find(|(peer, _)| *peer == from) {
            Some((_, at)) if now.since(*at) < config.parameters.fast => return,
            Some((_, at)) => *at = now,
            None => kept.resent.push((from, now)),
        }
        if kept.body.len() > SIGNED_BODY_MAX
            && let Ok(body) = Blob::try_from(kept.body.clone())
        {
            turn.send(from, Message::Lock { k, body });
        }
        turn.send(from, message);
    }
}
