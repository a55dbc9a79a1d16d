//! From an order to the one entry that is signed for its place.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_ledger::{Code, Digests, Entry};
use synod_machine::{Span, Turn, planted};
use synod_quorum::{NodeId, NodeSet};

use super::{Answer, Job, OPEN_MAX, ORDERS_MAX, Output, Record, Refusal, Signed, Stage, Timer, Wallet, Word};
use crate::batch::Line;
use crate::trace::Rule;
use crate::words::{Draft, Level};

/// An order that has no entry yet.
#[derive(Clone, Debug)]
pub(super) struct Order {
    ticket: u64,
    draft: Draft,
    until: Level,
}

/// The order whose entry comes next.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    ticket: u64,
    until: Level,
    entry: Arc<Entry>,
    digest: Hash,
    /// Replicas that would endorse it.
    yes: NodeSet,
    /// Replicas that would not, and why.
    no: BTreeMap<NodeId, u16>,
    /// Enough would: nothing else gets this place.
    is_signing: bool,
    /// The caller's deadline passed meanwhile.
    is_late: bool,
}

impl Asked {
    /// The reason that most replicas give, the least number of several.
    fn reason(&self) -> Option<u16> {
        let mut counts: BTreeMap<u16, u32> = BTreeMap::new();
        for code in self.no.values() {
            let count = counts.entry(*code).or_default();
            *count = count.saturating_add(1);
        }
        counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(code, _)| code)
    }
}

fn refuse(ticket: u64, why: Refusal, turn: &mut Turn<'_, Wallet>) {
    turn.disarm(Timer::Deadline(ticket));
    turn.output(Output::Refused { ticket, why });
}

impl Wallet {
    /// Listing 1: pay.
    pub(super) fn on_pay(
        &mut self,
        ticket: u64,
        draft: Draft,
        (until, within): (Level, Span),
        turn: &mut Turn<'_, Self>,
    ) {
        let why = match self.stage {
            Stage::Stopped(why) => Some(Refusal::Stopped(why)),
            _ if draft.spender != self.config.account => Some(Refusal::Denied(Code::Unauthorized.number())),
            _ if self.orders.len() >= ORDERS_MAX || self.open.len() >= OPEN_MAX => Some(Refusal::Busy),
            _ if self.is_rekeyed() => Some(Refusal::Rekeyed),
            Stage::Reading | Stage::Ready => None,
        };
        if let Some(why) = why {
            return refuse(ticket, why, turn);
        }
        turn.arm(Timer::Deadline(ticket), within);
        self.orders.push_back(Order { ticket, draft, until });
        self.next_order(turn);
    }

    /// Asks about the next order's entry, unless that of another is under way.
    pub(super) fn next_order(&mut self, turn: &mut Turn<'_, Self>) {
        if self.stage != Stage::Ready || self.asked.is_some() || self.open.len() >= OPEN_MAX {
            return;
        }
        while let Some(Order { ticket, draft, until }) = self.orders.pop_front() {
            if self.is_rekeyed() {
                refuse(ticket, Refusal::Rekeyed, turn);
                continue;
            }
            let entry = self.entry(draft);
            let digest = Digests::default().entry(&entry);
            self.asked = Some(Asked {
                ticket,
                until,
                entry: entry.into(),
                digest,
                yes: NodeSet::default(),
                no: BTreeMap::new(),
                is_signing: false,
                is_late: false,
            });
            return self.ask(turn);
        }
    }

    /// Asks all replicas whether they would endorse the entry: those again that would not or did not answer.
    pub(super) fn ask(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(asked) = self.asked.as_ref().filter(|asked| !asked.is_signing) else { return };
        let word = Word::Check { entry: Arc::clone(&asked.entry), key: self.config.key };
        turn.send(self.all().minus(asked.yes), word);
        turn.arm(Timer::Check, self.config.resend);
    }

    /// Whether a replica would endorse the entry.
    pub(super) fn on_answer(
        &mut self,
        from: NodeId,
        digest: Hash,
        answer: Answer,
        turn: &mut Turn<'_, Self>,
    ) {
        let is_first = self.open.is_empty();
        let Some(asked) = self.asked.as_mut().filter(|asked| asked.digest == digest && !asked.is_signing)
        else {
            return;
        };
        match answer {
            Answer::Yes => {
                asked.no.remove(&from);
                asked.yes.insert(from);
            }
            // It does not know the entries before this one yet.
            Answer::No(code) if code == Code::SequenceGap.number() && !is_first => {}
            Answer::No(code) => drop(asked.no.insert(from, code)),
            Answer::Busy(_) => {}
        }
        if self.quorums.has_correct(asked.yes) {
            asked.is_signing = true;
            let entry = Arc::clone(&asked.entry);
            turn.disarm(Timer::Check);
            turn.applied(Rule::Check);
            return turn.compute(Job::Sign { view: Arc::clone(&self.config.view), entry });
        }
        let no: NodeSet = asked.no.keys().copied().collect();
        if !self.quorums.has_correct(self.all().minus(no)) {
            self.give_up(turn);
        }
    }

    /// Lets go of an order whose entry was not signed.
    fn give_up(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(asked) = self.asked.take() else { return };
        assert!(!asked.is_signing, "what is being signed has its place");
        turn.disarm(Timer::Check);
        refuse(asked.ticket, asked.reason().map_or(Refusal::Unanswered, Refusal::Denied), turn);
        self.next_order(turn);
    }

    /// The entry is signed: it is kept, and then given away.
    pub(super) fn on_signed(&mut self, line: Line, turn: &mut Turn<'_, Self>) {
        let digest = Digests::default().entry(&line.entry);
        let Some(asked) = self.asked.take_if(|asked| asked.digest == digest && asked.is_signing) else {
            return;
        };
        // It stopped meanwhile: what is signed has not left this process, and does not.
        if let Stage::Stopped(why) = self.stage {
            return refuse(asked.ticket, Refusal::Stopped(why), turn);
        }
        turn.persist(Record::Signed(line.clone()));
        turn.applied(Rule::Sign);
        let Asked { ticket, until, is_late, .. } = asked;
        turn.output(Output::Signed { ticket, line: line.clone() });
        let caller = (!is_late).then_some((ticket, until));
        if is_late {
            turn.output(Output::Unknown { ticket, line: line.clone(), why: None });
        }
        let n = line.entry.id.n;
        let before = self.open.insert(n, Signed::new(line, digest, caller));
        assert!(before.is_none() || planted!(A32), "a place has one entry");
        self.submit(n, turn);
        self.next_order(turn);
    }

    /// A caller waits no longer: of an order that is not signed nothing becomes, and of one that is, whatever becomes of it.
    pub(super) fn on_deadline(&mut self, ticket: u64, turn: &mut Turn<'_, Self>) {
        if let Some(at) = self.orders.iter().position(|order| order.ticket == ticket) {
            self.orders.remove(at);
            return refuse(ticket, Refusal::Unanswered, turn);
        }
        if let Some(asked) = self.asked.as_mut().filter(|asked| asked.ticket == ticket) {
            if asked.is_signing {
                asked.is_late = true;
            } else {
                self.give_up(turn);
            }
            return;
        }
        let signed = self.open.values_mut().find(|signed| signed.caller.is_some_and(|(of, _)| of == ticket));
        if let Some(signed) = signed {
            signed.caller = None;
            let (line, why) = (signed.line.clone(), signed.why);
            let n = line.entry.id.n;
            turn.output(Output::Unknown { ticket, line, why });
            self.open.retain(|at, _| *at < n || !planted!(A32));
        }
    }

    /// Refuses all that is not signed.
    pub(super) fn refuse_all(&mut self, why: Refusal, turn: &mut Turn<'_, Self>) {
        for order in std::mem::take(&mut self.orders) {
            refuse(order.ticket, why, turn);
        }
        if let Some(asked) = self.asked.take_if(|asked| !asked.is_signing) {
            turn.disarm(Timer::Check);
            refuse(asked.ticket, why, turn);
        }
    }
}
