//! What a replica says, and who waits for it.

use super::{KNOCK, Teller};
use crate::pay::cutting::Certified;
use crate::pay::index::Kept;
use crate::pay::keeper::News;
use crate::pay::orders::Open;
use crate::pay::proofs::Shown;
use crate::pay::words::{Denied, Transfer};
use std::sync::{Arc, PoisonError};
use synod_astro::{Input, Level, Output, Refusal};
use synod_crypto::Hash;
use synod_ledger::{Entry, EntryId};

impl Teller {
    /// A word of the replica.
    pub(crate) fn hear(&self, output: Output) {
        match output {
            Output::Accepted { ticket, entry, digest } => self.on_accepted(ticket, entry, digest),
            Output::Refused { ticket, why } => self.on_refused(ticket, why),
            Output::Progress { level, entries } => {
                entries.into_iter().for_each(|(id, name)| self.on_progress(id, name, level));
            }
            Output::Settled { first, entries } => {
                for (position, (entry, digest)) in (first..).zip(entries) {
                    self.on_settled(position, entry, digest);
                }
            }
            Output::Imported { first, entries } => {
                for (position, (entry, _)) in (first..).zip(entries) {
                    self.tell_keeper(Kept::Settled(position, entry));
                }
            }
            Output::Numbered { ticket, account } => {
                let mut state = self.state();
                if let Some(Open::Account(opener)) = state.answered(ticket) {
                    state.opening.insert(account, opener);
                }
                drop(state);
                self.give_queued();
            }
            Output::Opened(account) => {
                if let Some(opener) = self.state().opening.remove(&account) {
                    opener.send(Ok(account));
                }
            }
            Output::Certified { opened, proofs } => {
                self.tell_keeper(Kept::Certified(Shown::new(opened, proofs, self.own)));
            }
            Output::Receipted(receipt) => self.tell_keeper(Kept::Word(receipt)),
            Output::Looked { ticket: KNOCK, .. } => self.on_told(),
            Output::Looked { ticket, accounts } => {
                if let Some(Open::Look(reply)) = self.state().answered(ticket) {
                    let _ = reply.send(Ok(accounts));
                }
            }
            Output::Checked { ticket, why } => self.on_looked_at(ticket, why),
            Output::Log { ticket, log } => {
                if let Some(Open::Log(reply)) = self.state().answered(ticket) {
                    let _ = reply.send(Ok(log));
                }
            }
            Output::Conflict { id, .. } => self.torn.tear(id),
            Output::TwoBatches { lane, sequence, .. } => self.torn.tear_lane(lane.0, sequence),
            Output::Lanes { ticket, lanes } => self.on_lanes(ticket, lanes),
            Output::Bundles { ticket, bundles } => self.on_bundles(ticket, bundles),
            Output::Queued { .. } | Output::Rejected { .. } | Output::Invited(_) => {
                unreachable!(
                    "nodes run profile II-F, in which nothing is endorsed without its money, and owners sign alone"
                )
            }
            Output::CutCertified { record, certificate, accounts } => {
                tracing::info!(number = record.number, root = %record.digest(), "a cut is certified");
                if let Some((cutting, accounts)) = self.cutting.get().zip(accounts) {
                    cutting.tell(Certified { record: *record, certificate: *certificate, accounts });
                }
            }
            told @ (Output::Contradiction { .. }
            | Output::FalseWitness { .. }
            | Output::TwoRoots { .. }
            | Output::CaughtUp { .. }
            | Output::Proof { .. }) => log(&told),
        }
    }

    fn on_accepted(&self, ticket: u64, entry: Arc<Entry>, digest: Hash) {
        let mut state = self.state();
        state.answered(ticket);
        if let Some(under) = state.orders.get_mut(&(entry.transfer, entry.id.spender)) {
            under.place = Some(entry.id);
            under.known = Some((entry, digest));
            under.tell();
        }
        drop(state);
        self.give_queued();
    }

    fn on_refused(&self, ticket: u64, why: Refusal) {
        let denied = match why {
            Refusal::Ledger(code) => Denied::Ledger(code),
            Refusal::Busy(_) if self.state().hold(ticket) => return self.give_queued(),
            Refusal::Busy(ms) => Denied::Busy(ms),
            Refusal::Exists(at) => return self.on_exists(ticket, at),
        };
        self.refuse(ticket, denied);
        self.give_queued();
    }

    /// Its payer has an order of this name under way, from before a restart: what becomes of that is the answer, unless this one was
    /// signed for another place.
    fn on_exists(&self, ticket: u64, at: EntryId) {
        let mut state = self.state();
        let Some(Open::Order(name)) = state.asked.get(&ticket) else {
            drop(state);
            return self.refuse(ticket, Denied::Different("n"));
        };
        let name = *name;
        assert_eq!(name.1, at.spender, "names of others are theirs");
        state.answered(ticket);
        let under = state.orders.get_mut(&name);
        let is_elsewhere =
            under.as_ref().is_some_and(|under| under.order.place().is_some_and(|place| place != at));
        if let Some(under) = under.filter(|_| !is_elsewhere) {
            under.place = Some(at);
        } else if let Some(under) = state.orders.remove(&name) {
            drop(state);
            for (_, waiter) in under.waiting {
                waiter.send(Err(Denied::Different("n")));
            }
        }
    }

    fn on_progress(&self, id: EntryId, name: u128, level: Level) {
        if level > Level::Certified {
            self.tell_keeper(Kept::Level(id, name, level));
        }
        self.state().raise(id, name, level);
    }

    fn on_settled(&self, position: u64, entry: Arc<Entry>, digest: Hash) {
        let payer = entry.id.spender;
        self.torn.settled(entry.id);
        let is_ours = self.own.owns(payer);
        // What owners elsewhere signed may have been given to this node.
        if is_ours || self.state().orders.contains_key(&(entry.transfer, payer)) {
            let known = Transfer { entry: Arc::clone(&entry), digest, level: Level::Certified, position };
            let mut state = self.state();
            if is_ours {
                state.settled.insert(known.name(), known.clone());
            }
            state.meet(known);
            state.release(payer);
            drop(state);
            self.give_queued();
        }
        self.tell_keeper(Kept::Settled(position, entry));
    }

    pub(super) fn tell_keeper(&self, news: impl Into<News>) {
        let told = news.into();
        if let Some(news) = self.news.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            // The keeper hears as long as there is a sender.
            let _ = news.send(told);
        }
    }

    /// The index holds everything up to this position, and these.
    pub(in crate::pay) fn on_kept(&self, position: u64, kept: &[(EntryId, u128, Level)]) {
        // Without room the next group says it.
        self.give(Input::Kept(position));
        let mut state = self.state();
        for (id, name, level) in kept {
            let known = (*name, id.spender);
            // Most are of other institutions' customers, whom nobody asks for here.
            if !self.own.owns(id.spender) && !state.orders.contains_key(&known) {
                continue;
            }
            if state.settled.get(&known).is_some_and(|settled| settled.position <= position) {
                state.settled.remove(&known);
            }
            // Who read the index before it had this level waits for it.
            state.raise(*id, *name, *level);
        }
        state.release_each();
        drop(state);
        self.give_queued();
    }
}

/// What a node tells nobody but its log.
fn log(output: &Output) {
    match output {
        Output::Contradiction { id, .. } => {
            let place = (id.spender, id.n);
            tracing::error!(?place, "certificates contradict each other: more members lie than may");
        }
        Output::FalseWitness { member, lot, .. } => {
            tracing::error!(member = member.0, ?lot, "a member signed of owners' signatures what is not so");
        }
        Output::TwoRoots { member, number, .. } => {
            tracing::error!(member = member.0, number, "a member signed two states behind one cut");
        }
        Output::CaughtUp { number, position } => {
            tracing::warn!(
                number,
                position,
                "went on from a certified cut: what settled in between is in no index"
            );
        }
        // Nobody asks for proofs here yet; whatever else a replica tells is taken by its own name.
        _ => {}
    }
}
