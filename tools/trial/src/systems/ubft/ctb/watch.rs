//! The checker of a run of broadcasts: shows every moment to every oracle.

use std::collections::BTreeSet;

use synod_crypto::Hash;
use synod_machine::Time;
use synod_sim::{Checker, Deed, Moment, Seen, Violation};
use synod_ubft::ctb;

use super::book::Shared;
use super::machine::Of;
use crate::oracle::Verdict;
use crate::oracle::ubft::{Deliveries, Promises, Reads, Spoken, Written};
use crate::systems::ubft::plan::Roles;
use crate::systems::ubft::sight;

/// The rule by which a replica says that f_m + 1 memory nodes have answered.
const COMPLETE: &str = "S6.1_register_quorum";

/// All oracles of one run.
pub struct Watch {
    roles: Roles,
    liars: BTreeSet<u32>,
    promises: Promises,
    deliveries: Deliveries,
    written: Written,
    reads: Reads,
    book: Shared,
}

impl Watch {
    /// Watches the broadcasts of a run.
    #[must_use]
    pub fn new(roles: Roles, book: Shared) -> Self {
        Self {
            roles,
            liars: BTreeSet::new(),
            promises: Promises::new(u64::MAX / 2),
            deliveries: Deliveries::default(),
            written: Written::default(),
            reads: Reads::default(),
            book,
        }
    }

    /// Whoever lied once is believed nothing any more: what it wrote and locked meanwhile was not what its machine thinks.
    fn fault(&mut self, node: u32) {
        if self.liars.insert(node) {
            self.deliveries.fault(node);
            self.reads.fault(node);
            self.book.borrow_mut().liars.insert(node);
        }
    }

    fn replica(&mut self, moment: &Moment<'_>) -> Verdict {
        let life = (moment.node.0, moment.incarnation);
        if let Seen::Registered { reply, .. } = moment.seen {
            let is_complete =
                moment.deeds.iter().any(|deed| matches!(deed, Deed::Applied(rule) if rule.name == COMPLETE));
            self.reads.answer(life.0, reply, is_complete)?;
        }
        for deed in moment.deeds {
            match deed {
                Deed::Send { body, .. } => {
                    let Some(message) = sight::opened(body) else { continue };
                    let spoken = sight::spoken(life.0, &message);
                    let locks = |one: &&Spoken| matches!(one, Spoken::Locked(..) | Spoken::Signed(..));
                    spoken.iter().filter(locks).try_for_each(|one| self.promises.say(life, one))?;
                }
                Deed::Register { op, .. } => {
                    if let synod_machine::register::RegisterOp::Write { place, held, .. } = op {
                        self.written.write(life, *place, *held)?;
                    }
                    self.reads.begin(life.0, op);
                }
                Deed::Output(output) => {
                    if let Some(Of { broadcaster, what }) = output.downcast_ref::<Of<ctb::Output>>() {
                        self.tells(life.0, broadcaster.0, what)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn tells(&mut self, node: u32, broadcaster: u32, what: &ctb::Output) -> Verdict {
        match what {
            ctb::Output::Delivered { k, body } => {
                let digest = Hash::of(body);
                if node == broadcaster {
                    let is_asked =
                        self.book.borrow().asked.get(&node).is_some_and(|of| of.contains_key(&digest));
                    is_asked.then(|| self.deliveries.ask(node, digest));
                }
                self.deliveries.deliver(node, (broadcaster, *k), digest)
            }
            ctb::Output::Equivocated(_) => {
                self.book.borrow_mut().add("proofs", 1);
                Ok(())
            }
            ctb::Output::Missing { .. } => {
                self.book.borrow_mut().add("missing", 1);
                Ok(())
            }
            ctb::Output::Promised { .. }
            | ctb::Output::Refused(_)
            | ctb::Output::Retired { .. }
            | ctb::Output::Reborn { .. } => Ok(()),
        }
    }
}

impl Checker for Watch {
    fn see(&mut self, moment: &Moment<'_>) -> Result<(), Violation> {
        if !self.roles.is_replica(moment.node) {
            return Ok(());
        }
        if !moment.honest {
            self.fault(moment.node.0);
        }
        if self.liars.contains(&moment.node.0) {
            return Ok(());
        }
        self.replica(moment).map_err(|breach| Violation::new(breach.checker, breach.what))
    }

    fn finish(&mut self, _: Time) -> Result<(), Violation> {
        let mut book = self.book.borrow_mut();
        for (name, value) in [
            ("registers_written", self.written.count()),
            ("registers_read", self.reads.count()),
            ("delivered", self.deliveries.count()),
        ] {
            book.counts.insert(name, value);
        }
        Ok(())
    }
}
