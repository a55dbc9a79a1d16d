//! What members tell their users, as the oracles see it.

use synod_astro::{Level, Output, Profile, Refusal};
use synod_crypto::Hash;
use synod_ledger::{AccountId, Entry, EntryId};

use super::Watch;
use crate::oracle::astro::quorum;
use crate::oracle::{Verdict, breach, weak};

impl Watch {
    pub(super) fn told(&mut self, node: u32, output: &Output) -> Verdict {
        match output {
            Output::Settled { first, entries } => {
                (*first..).zip(entries).try_for_each(|(position, (entry, digest))| {
                    self.settled(node, position, (entry, *digest), true)
                })
            }
            Output::Rejected { position, entry, digest } => {
                self.settled(node, *position, (entry, *digest), false)
            }
            Output::Accepted { entry, digest, .. } => {
                self.accepted(node, entry)?;
                self.learn_entry(*digest, entry);
                self.acks.hold(node, *digest);
                Ok(())
            }
            Output::Opened(id) => {
                let opening = self.opening(*id)?;
                let mut book = self.book.borrow_mut();
                if let Some(reckoning) = book.reckonings.get_mut(&node) {
                    if reckoning.purse(*id).is_some() {
                        return breach("A-S2", format!("{id} opens twice at member {node}"));
                    }
                    reckoning.open(&opening);
                }
                book.opened.entry(*id).or_default().insert(node);
                Ok(())
            }
            Output::Progress { level, entries } => {
                entries.iter().try_for_each(|(id, _)| self.progress(*id, *level))
            }
            Output::Conflict { id, .. } => self.blamed(id.spender),
            Output::Refused { why: Refusal::Exists(id), .. } => self.exists(*id),
            Output::CutCertified { record, .. } => {
                let is_first = self.cuts.certify(record)?;
                self.book.borrow_mut().add("cuts", u64::from(is_first));
                Ok(())
            }
            Output::Proof { proof, .. } => {
                proof.as_ref().map_or(Ok(()), |proof| self.cuts.prove(node, proof))
            }
            Output::Imported { .. } => {
                breach("A-S2", format!("member {node} credits from another shard, and there is one"))
            }
            Output::TwoBatches { .. }
            | Output::CaughtUp { .. }
            | Output::TwoRoots { .. }
            | Output::FalseWitness { .. }
            | Output::Contradiction { .. } => self.shown(node, output),
            Output::Refused { .. }
            | Output::Queued { .. }
            | Output::Numbered { .. }
            | Output::Looked { .. }
            | Output::Checked { .. }
            | Output::Log { .. }
            | Output::Lanes { .. }
            | Output::Bundles { .. }
            | Output::Certified { .. }
            | Output::Invited(_)
            | Output::Receipted(_) => Ok(()),
        }
    }

    /// An entry has its place for good, and did what it says or nothing.
    fn settled(
        &mut self,
        node: u32,
        position: u64,
        (entry, digest): (&Entry, Hash),
        is_paid: bool,
    ) -> Verdict {
        let mut book = self.book.borrow_mut();
        let known = book.reckonings.get_mut(&node);
        let is_news = known.map_or(Ok(true), |known| known.is_news(position, entry.id, digest))?;
        drop(book);
        if !is_news {
            return Ok(());
        }
        if self.profile == Profile::II {
            self.outcome(node, (entry, digest), is_paid)?;
        } else if is_paid {
            self.texts.entry(digest, entry);
        } else {
            return breach(
                "A-S2",
                format!("{:?} is rejected at member {node}, in {:?}", entry.id, self.profile),
            );
        }
        self.agree(node, entry, digest)?;
        let mut book = self.book.borrow_mut();
        let Some(reckoning) = book.reckonings.get_mut(&node) else { return Ok(()) };
        match self.profile {
            Profile::II => reckoning.spend(&self.texts, entry, digest, is_paid),
            Profile::I | Profile::Funded => reckoning.settle(entry, digest),
        }
    }

    /// A-S1 of outcomes, and A-S6: an entry that an institution took, which never lied, is paid.
    fn outcome(&self, node: u32, (entry, digest): (&Entry, Hash), is_paid: bool) -> Verdict {
        if self.texts.get(&digest) != Some(entry) {
            return breach("A-S2", format!("{:?} settles under a digest that nobody showed", entry.id));
        }
        let mut book = self.book.borrow_mut();
        let known = *book.paid.entry(entry.id).or_insert((digest, is_paid));
        if known != (digest, is_paid) {
            let what = format!(
                "{:?} is paid at some members and rejected at member {node}, or the other way",
                entry.id
            );
            return breach("A-S1", what);
        }
        let institution = u8::try_from(entry.id.spender.registrar).unwrap_or(u8::MAX);
        if !is_paid && book.facts.is_customer(entry.id.spender, institution) {
            return breach("A-S6", format!("{:?} is rejected, and its institution had the money", entry.id));
        }
        if !is_paid {
            book.add("rejected", 1);
        }
        Ok(())
    }

    /// What somebody is shown to have done, or went without.
    fn shown(&self, node: u32, output: &Output) -> Verdict {
        match output {
            Output::TwoBatches { lane, .. } if self.acks.honest(lane.0) => {
                breach("X6", format!("member {} is shown with two batches", lane.0))
            }
            Output::TwoBatches { .. } => {
                self.book.borrow_mut().add("two_batches", 1);
                Ok(())
            }
            // Runs are too short to let members fall so far behind that nobody keeps what they lack.
            Output::CaughtUp { number, .. } => {
                breach("A-L2", format!("member {node} goes on from cut {number}"))
            }
            Output::TwoRoots { member, .. } if self.acks.honest(member.0) => {
                breach("X6", format!("member {} is shown with two states behind a cut", member.0))
            }
            Output::TwoRoots { .. } => {
                self.book.borrow_mut().add("two_roots", 1);
                Ok(())
            }
            Output::FalseWitness { member, .. } if self.acks.honest(member.0) => {
                breach("X6", format!("member {} is shown with a false word on signatures", member.0))
            }
            Output::FalseWitness { .. } => {
                self.book.borrow_mut().add("false_witnesses", 1);
                Ok(())
            }
            // It takes more liars than there may be.
            Output::Contradiction { id, .. } if !self.over_budget => {
                breach("A-S1", format!("certificates contradict each other at {id:?}"))
            }
            Output::Contradiction { .. } => {
                self.book.borrow_mut().add("contradictions", 1);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A-S10: an order that has its place, and has not settled, gets no other.
    fn accepted(&self, node: u32, entry: &Entry) -> Verdict {
        let book = self.book.borrow();
        let Some(purse) = book.reckonings.get(&node).and_then(|of| of.purse(entry.id.spender)) else {
            return Ok(());
        };
        let lane = u8::try_from(node).unwrap_or(u8::MAX);
        let named = self.named.get(&(entry.id.spender, entry.transfer)).into_iter().flatten();
        let mut open = named.filter(|(id, digest)| {
            id.n > purse.sequence && *id != entry.id && self.texts.carries(lane, digest)
        });
        match open.next() {
            Some((id, _)) => breach("A-S10", format!("an order that has {id:?} gets {:?} as well", entry.id)),
            None => Ok(()),
        }
    }

    /// What a representative says of an entry is so at members that never lied.
    fn progress(&self, id: EntryId, level: Level) -> Verdict {
        let book = self.book.borrow();
        let settled = |node: u32| {
            let purse = book.reckonings.get(&node).and_then(|of| of.purse(id.spender));
            self.acks.honest(node) && purse.is_some_and(|purse| purse.sequence >= id.n)
        };
        let count = (0..self.members).filter(|node| settled(*node)).count();
        let liars = (0..self.members).filter(|node| !self.acks.honest(*node)).count();
        let wanted = match level {
            Level::Accepted => return Ok(()),
            Level::Certified if self.acks.is_any_certified(id) => return Ok(()),
            Level::Certified => 1,
            Level::Settled => weak(self.members) as usize,
            Level::Stable => quorum(self.members) as usize,
        };
        if level == Level::Certified || count + liars < wanted {
            return breach("A-S2", format!("{id:?} is told to be {level:?}, settled at {count} members"));
        }
        Ok(())
    }

    /// X6 of owners: who never signed two entries for one place is not shown to have.
    fn blamed(&self, account: AccountId) -> Verdict {
        let mut book = self.book.borrow_mut();
        if book.facts.is_sound(account) {
            return breach("X6", format!("{account} is shown with two entries for one place"));
        }
        book.add("conflicts", 1);
        Ok(())
    }

    fn exists(&self, id: EntryId) -> Verdict {
        if self.named.values().flatten().any(|(known, _)| *known == id) {
            return Ok(());
        }
        breach("A-S10", format!("an order is said to have {id:?}, which nobody has"))
    }
}
