//! Asking f + 1 servers where this client stands: after STALE, on request, and without a journal (4.2).

use std::collections::BTreeSet;

use synod_machine::Span;
use synod_quorum::NodeId;

use super::job::Standing;
use super::{Client, Output, Step, Task, Timer};
use crate::dedup::tag;
use crate::fault::Fault;
use crate::message::{ClientMessage, StateAnswer};
use crate::statement::State;

/// A question that is open.
#[derive(Clone, Debug)]
pub(super) struct Sync {
    nonce: u64,
    serial: u64,
    /// Without a journal every broker is asked, and the answers of one T_submit count together.
    everyone: bool,
    /// Brokers whose certified answer came.
    answered: BTreeSet<NodeId>,
    /// The state that is furthest ahead.
    best: Option<State>,
}

impl Client {
    /// Asks the broker whose turn it is.
    pub(super) fn ask_one(&mut self, turn: &mut Step<'_>) {
        if self.sync.is_none() {
            self.ask(self.lost, turn);
        }
    }

    /// Asks every broker: nothing is signed before.
    pub(super) fn ask_everyone(&mut self, turn: &mut Step<'_>) {
        self.ask(true, turn);
    }

    fn ask(&mut self, everyone: bool, turn: &mut Step<'_>) {
        let nonce = turn.rng().draw();
        self.ask_under(nonce, everyone, turn);
    }

    /// Asks under a number, which stays the same until there is an answer: a server answers each broker about a client once
    /// in ten seconds, at a time of its own, and answers under different numbers never add up.
    fn ask_under(&mut self, nonce: u64, everyone: bool, turn: &mut Step<'_>) {
        let Some(id) = self.id else { return };
        self.asked += 1;
        let serial = self.asked;
        self.sync = Some(Sync { nonce, serial, everyone, answered: BTreeSet::new(), best: None });
        let all = self.config.brokers.clone();
        let asked = if everyone { all } else { vec![self.broker()] };
        for broker in asked {
            Self::say(broker, ClientMessage::Query { nonce, id }, turn);
        }
        turn.arm(Timer::Resync(serial), self.silence().max(Span::millis(50)));
    }

    pub(super) fn resync_silent(&mut self, serial: u64, turn: &mut Step<'_>) {
        let Some(sync) = self.sync.take_if(|sync| sync.serial == serial) else { return };
        match sync.best {
            Some(state) => self.resynced(&state, turn),
            None => {
                self.next_broker();
                self.ask_under(sync.nonce, sync.everyone, turn);
            }
        }
    }

    pub(super) fn on_state(&mut self, from: NodeId, answer: Box<StateAnswer>, turn: &mut Step<'_>) {
        let (Some(sync), Some(id)) = (&self.sync, self.id) else { return };
        let said = State { nonce: sync.nonce, id, next_k: answer.next_k, tag: answer.tag };
        if self.checking.insert(from) {
            self.compute(turn, Task::State(from, answer, said));
        }
    }

    pub(super) fn state_checked(
        &mut self,
        from: NodeId,
        _: Box<StateAnswer>,
        proven: Option<Standing>,
        turn: &mut Step<'_>,
    ) {
        self.checking.remove(&from);
        let Some((state, height)) = proven else {
            turn.blame(from, Fault::FalseState);
            return;
        };
        self.raise(&height);
        let Some(sync) = self.sync.as_mut().filter(|sync| sync.nonce == state.statement.nonce) else {
            return;
        };
        let further = sync.best.as_ref().is_none_or(|best| best.next_k < state.statement.next_k);
        if further {
            sync.best = Some(state.statement.clone());
        }
        sync.answered.insert(from);
        // Whoever could say more has spoken.
        let all = self.config.brokers.iter().all(|broker| sync.answered.contains(broker));
        if (!sync.everyone || all)
            && let Some(best) = self.sync.take().and_then(|sync| sync.best)
        {
            self.resynced(&best, turn);
        }
    }

    /// A state may lag, so it counts only if it is ahead.
    fn resynced(&mut self, state: &State, turn: &mut Step<'_>) {
        let reported = state.next_k;
        let height = self.height();
        let is_lost = core::mem::take(&mut self.lost);
        let floor = if is_lost { height } else { 0 };
        let ahead = self.flight.as_ref().map(|flight| {
            let tags_equal = tag(&flight.message, flight.parity) == state.tag;
            (reported > flight.k0, tags_equal)
        });
        if ahead.is_none() && reported > self.next_k {
            self.parity = state.tag & 1 == 0;
        }
        let free = self.next_k.max(reported).max(floor);
        self.next_k = free;
        turn.output(Output::Resynced { next_k: free });
        match ahead {
            Some((true, true)) => self.finish(None, None, turn),
            Some((true, false)) if free < u64::MAX - 1 => {
                self.next_k = free + 1;
                if let Some(flight) = &mut self.flight {
                    flight.renumber(free);
                }
                self.rest(turn);
                self.sign_submission(turn);
            }
            Some(_) => {
                self.persist(turn);
                if self.flight.as_ref().is_some_and(|flight| flight.t.is_none()) {
                    self.sign_submission(turn);
                }
            }
            None => {
                self.persist(turn);
                self.launch(turn);
            }
        }
    }
}
