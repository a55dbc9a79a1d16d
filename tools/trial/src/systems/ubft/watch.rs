//! The checker of a run: shows every moment to every oracle.

use synod_machine::Time;
use synod_machine::register::RegisterOp;
use synod_sim::{Checker, Deed, Moment, Seen, Violation};
use synod_ubft::client;
use synod_ubft::replica::Output;
use synod_wire::Bytes;

use super::book::Shared;
use super::ledger::{COUNT, Ledgers, counted};
use super::plan::Roles;
use super::{sight, workload};
use crate::oracle::ubft::{Executed, Gaps, Order, Promises, RowSeen, Shares, Spoken, Written, same_state};
use crate::oracle::{Verdict, breach};

/// All oracles of one run.
pub struct Watch {
    roles: Roles,
    order: Order,
    promises: Promises,
    shares: Shares,
    written: Written,
    gaps: Gaps,
    ledgers: Ledgers,
    book: Shared,
}

impl Watch {
    /// Watches replicas with windows of so many slots, and their applications.
    #[must_use]
    pub fn new(roles: Roles, window: u32, ledgers: Ledgers, book: Shared) -> Self {
        Self {
            roles,
            order: Order::default(),
            promises: Promises::new(u64::from(window)),
            shares: Shares::new(roles.replicas),
            written: Written::default(),
            gaps: Gaps::new(roles.replicas),
            ledgers,
            book,
        }
    }

    fn replica(&mut self, moment: &Moment<'_>) -> Verdict {
        let life = (moment.node.0, moment.incarnation);
        if matches!(moment.seen, Seen::Opened { .. }) {
            self.order.open(life.0);
            self.promises.open(life);
            let mut book = self.book.borrow_mut();
            book.executed.insert(life.0, 0);
            book.detectors.open(life.0);
        }
        if let Seen::Frame(frame) = moment.seen
            && let Some(message) = sight::opened(&frame.body)
        {
            let heard = sight::heard(frame.from.0, &message);
            heard.iter().for_each(|heard| self.promises.hear(life, heard));
            sight::missed(&mut self.gaps, life, frame.from.0, &message);
        }
        for deed in moment.deeds {
            match deed {
                Deed::Send { body, .. } => self.says(life, body)?,
                Deed::Register { op: RegisterOp::Write { place, held, .. }, .. } => {
                    self.promises.say(life, &Spoken::Registered(place.region.epoch.0))?;
                    self.written.write(life, *place, *held)?;
                }
                Deed::Output(output) => {
                    if let Some(output) = output.downcast_ref::<Output>() {
                        self.tells(life.0, output)?;
                    }
                }
                Deed::Applied(rule) => self.applies(life.0, rule.name),
                _ => {}
            }
        }
        Ok(())
    }

    fn applies(&self, node: u32, rule: &str) {
        let mut book = self.book.borrow_mut();
        match rule {
            "A2.31_decide_fast" => book.decided.0 += 1,
            "A2.41_decide_slow" => book.decided.1 += 1,
            "A5_halt" | "A1.33_two_messages" => book.detectors.find(node),
            _ => {}
        }
    }

    fn says(&mut self, life: (u32, u32), body: &Bytes) -> Verdict {
        let Some(message) = sight::opened(body) else { return Ok(()) };
        for spoken in sight::spoken(life.0, &message) {
            match &spoken {
                Spoken::Share(about, value) => {
                    self.gaps.sign(life, *about, *value)?;
                    self.shares.sign(life.0, *about, *value)?;
                }
                Spoken::Certificate(about, value, signers) => {
                    self.shares.show(life.0, *about, *value, signers)?;
                }
                _ => {}
            }
            self.promises.say(life, &spoken)?;
        }
        Ok(())
    }

    fn tells(&mut self, node: u32, output: &Output) -> Verdict {
        match output {
            Output::Execute { slot, time, draw, requests } => {
                self.compare(node, slot.0)?;
                let row = |of: &synod_ubft::replica::Requested| RowSeen {
                    session: of.session,
                    id: of.id,
                    op: of.op.clone(),
                };
                let rows = requests.iter().map(row).collect();
                self.execute(node, Executed { slot: slot.0, time: time.0, digest: *draw, rows })
            }
            Output::Install { low, index, count, .. } if index.saturating_add(1) >= *count => {
                self.order.install(node, low.0);
                self.book.borrow_mut().add("installed", 1);
                Ok(())
            }
            Output::Broken(slot) => {
                breach("U-S7", format!("replica {node} decided two batches in slot {}", slot.0))
            }
            Output::Irreparable { low } => breach(
                "U-S12",
                format!("replica {node} executes other things than were certified up to {}", low.0),
            ),
            Output::Diverged { .. } => {
                self.book.borrow_mut().add("diverged", 1);
                Ok(())
            }
            Output::Ready(_)
            | Output::Stranded { .. }
            | Output::Query { .. }
            | Output::TakeSnapshot { .. }
            | Output::DropSnapshot { .. }
            | Output::NeedChunk { .. }
            | Output::Install { .. } => Ok(()),
        }
    }

    /// The application's state is the one that follows from the order.
    fn compare(&self, node: u32, slot: u64) -> Verdict {
        let ledgers = self.ledgers.borrow();
        let Some(ledger) = ledgers.get(&synod_quorum::NodeId(node)) else { return Ok(()) };
        let seen =
            |row: &super::ledger::Row| RowSeen { session: row.session, id: row.id, op: row.op.clone() };
        let last = ledger.rows().last().map(seen);
        same_state(&self.order, node, slot, (ledger.rows().len(), last.as_ref()))
    }

    fn execute(&mut self, node: u32, executed: Executed) -> Verdict {
        let (slot, digest, rows) = (executed.slot, executed.digest, executed.rows.clone());
        if self.order.execute(node, executed)? {
            self.promises.executed(slot, digest);
            for row in &rows {
                self.asked(row)?;
            }
        }
        let count = self.order.below(slot + 1) as u64;
        let mut book = self.book.borrow_mut();
        book.executed.insert(node, count);
        book.highest = book.highest.max(count);
        book.slot = book.slot.max(slot);
        Ok(())
    }

    /// B.2: somebody asked for what takes effect.
    fn asked(&self, row: &RowSeen) -> Verdict {
        let book = self.book.borrow();
        let is_wanted = match workload::named(&row.op) {
            _ if row.op.as_ref() == COUNT => book.asked.iter().any(|asked| asked.op.is_none()),
            Some(ticket) => book.get(ticket).is_some_and(|asked| asked.op.as_ref() == Some(&row.op)),
            None => false,
        };
        if is_wanted {
            return Ok(());
        }
        breach(
            "U-S2",
            format!("request {} of session {} takes effect, and nobody made it", row.id, row.session),
        )
    }

    fn client(&self, moment: &Moment<'_>) -> Verdict {
        for deed in moment.deeds {
            let Deed::Output(output) = deed else { continue };
            if let Some(client::Output::Done { ticket, result }) = output.downcast_ref() {
                self.believes(*ticket, result)?;
            }
        }
        Ok(())
    }

    /// What a client believes is what happened, and not what had happened before it asked.
    fn believes(&self, ticket: u64, result: &Bytes) -> Verdict {
        let mut book = self.book.borrow_mut();
        let Some(asked) = book.get(ticket).cloned() else { return Ok(()) };
        let Some((count, rest)) = counted(result) else {
            return breach("U-S7", format!("request {ticket} has a result of {} bytes", result.len()));
        };
        let is_read = asked.op.is_none() && rest.is_empty();
        let wanted = asked.op.as_deref().unwrap_or(COUNT);
        let is_there = self.order.row(count).is_some_and(|row| row.op.as_ref() == wanted && rest == wanted);
        if is_read {
            book.add("unanimous_reads", 1);
        }
        if !is_read && !is_there {
            breach(
                "U-S7",
                format!("the result of request {ticket} is that it was the {count}th, which it was not"),
            )?;
        }
        let is_late = count < asked.known || (is_read && count > self.order.count());
        if is_late {
            let known = asked.known;
            breach(
                "U-S7",
                format!(
                    "request {ticket} finds {count} requests, and {known} had results before it was made"
                ),
            )?;
        }
        book.known = book.known.max(count);
        book.add("accepted", 1);
        Ok(())
    }
}

impl Checker for Watch {
    fn see(&mut self, moment: &Moment<'_>) -> Result<(), Violation> {
        let is_replica = self.roles.is_replica(moment.node);
        if !moment.honest {
            self.shares.fault(moment.node.0);
            self.gaps.fault(moment.node.0);
            return Ok(());
        }
        let verdict = match moment.node {
            _ if is_replica => self.replica(moment),
            node if self.roles.is_memory(node) => Ok(()),
            _ => self.client(moment),
        };
        verdict.map_err(|breach| Violation::new(breach.checker, breach.what))
    }

    fn finish(&mut self, _: Time) -> Result<(), Violation> {
        let mut book = self.book.borrow_mut();
        for (name, value) in [
            ("certified", self.shares.certified()),
            ("registers_written", self.written.count()),
            ("requests", self.order.count()),
            ("stream_steps", self.gaps.counts().0),
            ("stream_gaps", self.gaps.counts().1),
        ] {
            book.counts.insert(name, value);
        }
        Ok(())
    }
}
