//! What this replica vouches for (specification, 4.8, E29): requests that it heard itself, that their clients signed, or that are certain
//! to do nothing.

use std::sync::Arc;

use synod_crypto::{Hash, PublicKey, Signature};
use synod_machine::Turn;
use synod_wire::Bytes;

use super::admit::{batch_bytes, inline, read_registration};
use super::state::Replica;
use super::vocabulary::ClientFor;
use super::words::Ask;
use crate::batch::{Auth, Batch, REQUESTS_MAX, Request, Slot, View};
use crate::message::{CHANGES, ClientStatement, Registration, SYSTEM};
use crate::sessions::Fate;
use crate::trace::Rule;

/// A proposal's time is at most so far ahead of the own clock, and so far behind it, or as far as the leader may take, which is longer where
/// links are slow.
const SKEW_MS: u64 = 500;

/// A proposal that this replica is asked to vouch for.
#[derive(Debug)]
pub(super) struct Judging {
    view: View,
    digest: Hash,
    batch: Arc<Batch>,
    /// Requests that this replica vouches for, and those whose signature is being checked: a bit for each.
    good: u64,
    asked: u64,
}

// A bit for each request of a batch.
const _: () = assert!(REQUESTS_MAX <= u64::BITS as usize);

impl Judging {
    pub(super) fn bytes(&self) -> u64 {
        (batch_bytes(&self.batch) + size_of::<Self>()) as u64
    }

    /// The signature of a request is good.
    pub(super) fn vouch(&mut self, at: usize) {
        self.good |= bit(at);
    }
}

/// Whether the time of a batch is about the own one, of one that may be so late.
fn is_timely(batch: &Batch, now: u64, late_ms: u64) -> bool {
    let time = batch.time_ms;
    // Time never goes back, so where nothing is executed one that has passed changes nothing: a slot that is filled late is filled.
    let is_late = time.saturating_add(late_ms) < now && !batch.requests.is_empty();
    time <= now.saturating_add(SKEW_MS) && !is_late
}

/// Of the request at a place of its batch.
const fn bit(at: usize) -> u64 {
    if at < REQUESTS_MAX { 1 << at } else { 0 }
}

impl Replica {
    /// Consensus asks whether this replica vouches for a proposal.
    pub(super) fn judge(
        &mut self,
        slot: Slot,
        (view, digest): (View, Hash),
        batch: Arc<Batch>,
        turn: &mut Turn<'_, Self>,
    ) {
        self.judging.insert(slot, Judging { view, digest, batch, good: 0, asked: 0 });
        self.judge_one(slot, turn);
    }

    pub(super) fn judge_again(&mut self, turn: &mut Turn<'_, Self>) {
        let slots: Vec<Slot> = self.judging.keys().copied().collect();
        slots.into_iter().for_each(|slot| self.judge_one(slot, turn));
    }

    /// Each request was heard here with the same bytes, or is signed, or is certain to do nothing (E29).
    fn judge_one(&mut self, slot: Slot, turn: &mut Turn<'_, Self>) {
        let Some(mut judging) = self.judging.remove(&slot) else { return };
        let mut is_good = is_timely(&judging.batch, turn.wall().0, self.late_ms());
        for (at, request) in judging.batch.requests.iter().enumerate() {
            if judging.good & bit(at) > 0 {
                continue;
            }
            let was_asked = judging.asked & bit(at) > 0;
            let is_vouched = if request.session == CHANGES {
                judging.asked |= bit(at);
                inline(request).is_some_and(|op| self.is_change_good((slot, at), op, was_asked, turn))
            } else {
                self.is_endorsed(request)
            };
            if is_vouched {
                judging.good |= bit(at);
            } else if judging.asked & bit(at) == 0
                && let Some((statement, key, signature, op)) = self.signed_request(request)
            {
                judging.asked |= bit(at);
                self.check_client(ClientFor::Batch(slot, at), op, (statement, key, signature), turn);
            }
            is_good &= is_vouched;
        }
        if is_good {
            turn.applied(Rule::Endorse);
            self.ask(Ask::Endorse { view: judging.view, slot, digest: judging.digest }, turn);
        } else {
            self.judging.insert(slot, judging);
        }
    }

    /// How old a proposal may be: what is sent takes its time, and a leader that has longer may be as late. With each one that is given up in vain it
    /// is longer, so what correct leaders propose is vouched for in the end however slow links are.
    fn late_ms(&self) -> u64 {
        let wait = self.consensus().map_or(0, |consensus| consensus.suspicion.wait.0 / 1_000_000);
        wait.max(SKEW_MS)
    }

    /// Whether this replica vouches for a batch already, with nothing to be checked for it.
    pub(super) fn vouches(&self, batch: &Batch, turn: &mut Turn<'_, Self>) -> bool {
        let is_good = |request: &Request| match inline(request) {
            Some(op) if request.session == CHANGES => self.is_change_known(op),
            _ => self.is_endorsed(request),
        };
        let is_vouched =
            is_timely(batch, turn.wall().0, self.late_ms()) && batch.requests.iter().all(is_good);
        if is_vouched {
            turn.applied(Rule::Endorse);
        }
        is_vouched
    }

    fn is_endorsed(&self, request: &Request) -> bool {
        let Some(op) = inline(request) else { return false };
        if request.session == SYSTEM {
            return false;
        }
        match self.fate(request.session, request.id) {
            // Such bytes may have been dropped here: they do nothing.
            Fate::Done(_) | Fate::Below | Fate::Gone => return true,
            Fate::Fresh | Fate::Ahead | Fate::Beyond | Fate::Unknown => {}
        }
        self.pending.get(&(request.session, request.id)).is_some_and(|pending| pending.is_of(op))
    }

    /// What a client is said to have signed of a request in a batch.
    fn signed_request(&self, request: &Request) -> Option<(ClientStatement, PublicKey, Signature, Bytes)> {
        let (Auth::Signed(signature), Some(op)) = (request.auth, inline(request)) else { return None };
        if request.session == CHANGES {
            return None;
        }
        if request.session == SYSTEM {
            let Registration { key, nonce } = read_registration(op)?;
            let is_same = nonce == request.id;
            return is_same.then(|| (ClientStatement::Register { nonce }, key, signature, op.clone()));
        }
        let key = self.sessions.key(request.session)?;
        let statement = ClientStatement::Asked { session: request.session, id: request.id, op: Hash::of(op) };
        Some((statement, key, signature, op.clone()))
    }
}
