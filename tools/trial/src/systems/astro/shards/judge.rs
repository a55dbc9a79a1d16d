//! The checker of a run with several shards: what settles is one entry per place, was ordered, and once; another shard hears that an
//! entry is imported once that is so for good (A-S1, A-S2, A-S8, A-S10). What books must be in the end, [`super::judge_books`] says.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use synod_astro::{Message, Output, Profile, Promise, Word};
use synod_broadcast::Lot;
use synod_crypto::Hash;
use synod_ledger::{Entry, EntryId, Part};
use synod_machine::Time;
use synod_quorum::NodeId;
use synod_sim::{Checker, Deed, Moment, Seen, Violation};
use synod_wire::{Blob, Bytes};

use super::plan::Sizes;
use crate::oracle::{Verdict, breach};
use crate::systems::astro::book::Shared;
use crate::systems::astro::sight::{self, Kept};

/// What is known of a run.
pub struct Judge {
    sizes: Sizes,
    book: Shared,
    liars: BTreeSet<u32>,
    /// What settled anywhere.
    pub settled: BTreeMap<EntryId, (Entry, Hash)>,
    /// What settled at each member.
    pub at: BTreeMap<u32, BTreeSet<EntryId>>,
    /// Places of entries that settled, by what their institutions' customers call them.
    named: BTreeMap<(synod_ledger::AccountId, u128), EntryId>,
    imports: Imports,
}

/// What members imported, as their records say.
#[derive(Clone, Debug, Default)]
pub struct Imports {
    /// What batches import, by member and slot.
    carried: BTreeMap<(u32, (u8, u64)), Vec<EntryId>>,
    /// Written and not on the disk yet, with the place of its record.
    written: BTreeMap<u32, Vec<(u64, Vec<EntryId>)>>,
    durable: BTreeMap<u32, BTreeSet<EntryId>>,
}

impl Imports {
    /// A batch that a member keeps imports these.
    pub fn carry(&mut self, node: u32, slot: (u8, u64), ids: Vec<EntryId>) {
        self.carried.insert((node, slot), ids);
    }

    /// A member writes that the batch of a slot is certified; on the disk already where there is no place.
    pub fn certify(&mut self, node: u32, slot: (u8, u64), at: Option<u64>) {
        let ids = self.carried.get(&(node, slot)).cloned().unwrap_or_default();
        match at {
            Some(at) => self.written.entry(node).or_default().push((at, ids)),
            None => self.durable.entry(node).or_default().extend(ids),
        }
    }

    /// A member imported these for good.
    pub fn keep(&mut self, node: u32, ids: impl IntoIterator<Item = EntryId>) {
        self.durable.entry(node).or_default().extend(ids);
    }

    /// A member starts: what was not on its disk is gone.
    pub fn open(&mut self, node: u32) {
        self.written.remove(&node);
        self.durable.remove(&node);
    }

    /// Everything up to here is on the disk.
    pub fn durable(&mut self, node: u32, until: u64) {
        let written = self.written.remove(&node).unwrap_or_default();
        let (kept, later): (Vec<_>, Vec<_>) = written.into_iter().partition(|(at, _)| *at <= until);
        self.keep(node, kept.into_iter().flat_map(|(_, ids)| ids));
        self.written.insert(node, later);
    }

    /// A member that never lied tells another shard that an entry is imported.
    ///
    /// # Errors
    /// A-S8: it is not, or a crash can take it back.
    pub fn told(&self, node: u32, id: EntryId) -> Verdict {
        match self.durable.get(&node).is_some_and(|durable| durable.contains(&id)) {
            true => Ok(()),
            false => breach("A-S8", format!("member {node} tells of {id:?} before it is imported for good")),
        }
    }
}

impl Judge {
    /// Of members of these shards.
    #[must_use]
    pub fn new(sizes: Sizes, book: Shared) -> Self {
        let (liars, settled, at) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        let (named, imports) = (BTreeMap::new(), Imports::default());
        Self { sizes, book, liars, settled, at, named, imports }
    }

    fn carry<const MAX: usize>(&mut self, node: u32, lot: Lot, payload: &Blob<MAX>) {
        if let Some(batch) = sight::batch(payload.bytes()) {
            let ids = batch.batch.beside.imports.iter().map(|entry| entry.id).collect();
            self.imports.carry(node, sight::slot(lot), ids);
        }
    }

    fn record(&mut self, node: u32, at: Option<u64>, record: &Bytes) {
        let Some(Kept::Own(promise)) = sight::record(Profile::Funded, record) else { return };
        match promise {
            Promise::Endorsed { lot, batch, .. } => {
                batch.iter().for_each(|batch| self.carry(node, lot, batch));
            }
            Promise::Certified { lot, batch, .. } => {
                batch.iter().for_each(|batch| self.carry(node, lot, batch));
                self.imports.certify(node, sight::slot(lot), at);
            }
            Promise::Batch { lot, batch: Some(batch), .. } => self.carry(node, lot, &batch),
            Promise::Told(place) if at.is_none() => self.imports.keep(node, [place.id]),
            Promise::Book(part) if at.is_none() => {
                if let Part::Used { spender, run } = *part {
                    self.imports.keep(node, (run.first..=run.last).map(|n| EntryId { spender, n }));
                }
            }
            _ => {}
        }
    }

    fn told(&mut self, node: u32, output: &Output) -> Verdict {
        match output {
            Output::Settled { entries, .. } => {
                entries.iter().try_for_each(|(entry, digest)| self.settles(node, entry, *digest))
            }
            Output::Imported { entries, .. } => {
                entries.iter().try_for_each(|(entry, digest)| self.credits(node, entry, *digest))
            }
            Output::Rejected { entry, .. } => breach("A-S2", format!("{:?} is rejected", entry.id)),
            Output::Contradiction { id, .. } => {
                breach("A-S1", format!("certificates contradict each other at {id:?}"))
            }
            Output::TwoBatches { lane, .. } => {
                let shard = u32::from(self.sizes.shard(node));
                match self.liars.contains(&self.sizes.node(shard, lane.0).0) {
                    true => Ok(()),
                    false => breach("X6", format!("member {} of shard {shard} is shown with two", lane.0)),
                }
            }
            _ => Ok(()),
        }
    }

    /// What came from another shard is certified there, so no other entry of its place ever settles.
    fn credits(&mut self, node: u32, entry: &Entry, digest: Hash) -> Verdict {
        let (id, own) = (entry.id, self.sizes.shard(node));
        if id.spender.shard == own || entry.legs_into(own).next().is_none() {
            return breach("A-S2", format!("{id:?} is credited at member {node}, whom it pays nothing"));
        }
        match self.settled.get(&id) {
            Some((_, known)) if *known != digest => breach(
                "A-S1",
                format!("{id:?} is credited at member {node}, and another entry settled there"),
            ),
            _ => Ok(()),
        }
    }

    fn settles(&mut self, node: u32, entry: &Entry, digest: Hash) -> Verdict {
        let id = entry.id;
        if id.spender.shard != self.sizes.shard(node) {
            return breach("A-S2", format!("{id:?} settles at member {node}, of another shard"));
        }
        self.at.entry(node).or_default().insert(id);
        match self.settled.get(&id) {
            Some((_, known)) if *known == digest => return Ok(()),
            Some(_) => {
                return breach("A-S1", format!("two entries settle at {id:?}, the second at member {node}"));
            }
            None => drop(self.settled.insert(id, (entry.clone(), digest))),
        }
        let institution = self.sizes.node(u32::from(id.spender.shard), id.spender.registrar).0;
        let mut book = self.book.borrow_mut();
        book.add("settled", 1);
        let order = u64::try_from(entry.transfer).ok().and_then(|ticket| book.get_mut(ticket));
        let is_ordered = order.is_some_and(|order| {
            let is_it = order.spender == id.spender && order.kind == entry.kind;
            order.settled |= is_it;
            is_it
        });
        if self.liars.contains(&institution) {
            return Ok(());
        }
        if !is_ordered {
            return breach("A-S2", format!("{id:?} settles, and nobody ordered it"));
        }
        match self.named.insert((id.spender, entry.transfer), id) {
            Some(first) => {
                breach("A-S10", format!("order {} settles at {first:?} and {id:?}", entry.transfer))
            }
            None => Ok(()),
        }
    }

    fn said(&self, node: u32, body: &Bytes) -> Verdict {
        match sight::opened(body) {
            Some(Message::Own(Word::Imported { places, .. })) => {
                places.iter().try_for_each(|place| self.imports.told(node, place.id))
            }
            _ => Ok(()),
        }
    }

    fn moment(&mut self, moment: &Moment<'_>) -> Verdict {
        let (node, honest) = (moment.node.0, moment.honest);
        if !honest {
            self.liars.insert(node);
        }
        match moment.seen {
            Seen::Opened { records, .. } => {
                self.book.borrow_mut().lives.insert(node, moment.incarnation);
                self.imports.open(node);
                records.iter().for_each(|record| self.record(node, None, record));
            }
            Seen::Durable(lsn) => self.imports.durable(node, *lsn),
            _ => {}
        }
        for deed in moment.deeds {
            match deed {
                Deed::Append { lsn, record, .. } => self.record(node, Some(*lsn), record),
                Deed::Send { body, .. } if honest => self.said(node, body)?,
                Deed::Output(output) if honest => {
                    if let Some(output) = output.downcast_ref::<Output>() {
                        self.told(node, output)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The checker as the world and the phases of a run hold it.
pub(crate) struct Judging(pub(crate) Rc<RefCell<Judge>>);

impl Checker for Judging {
    fn see(&mut self, moment: &Moment<'_>) -> Result<(), Violation> {
        let judged = self.0.borrow_mut().moment(moment);
        judged.map_err(|breach| Violation::new(breach.checker, breach.what))
    }

    fn heal(&mut self, _: &[NodeId], now: Time) {
        self.0.borrow().book.borrow_mut().healed = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use synod_ledger::EntryId;

    use super::Imports;
    use crate::systems::astro::shards::plan::account;

    #[test]
    fn another_shard_is_told_of_what_no_crash_takes_back_alone() {
        let id = EntryId { spender: account(1, 0, 1), n: 3 };
        let mut imports = Imports::default();
        imports.carry(2, (0, 1), vec![id]);
        assert_eq!(imports.told(2, id).map_err(|breach| breach.checker), Err("A-S8"), "it is endorsed alone");
        imports.certify(2, (0, 1), Some(7));
        imports.durable(2, 6);
        assert_eq!(
            imports.told(2, id).map_err(|breach| breach.checker),
            Err("A-S8"),
            "it is not on the disk"
        );
        imports.durable(2, 7);
        assert_eq!(imports.told(2, id), Ok(()));
        imports.open(2);
        assert_eq!(imports.told(2, id).map_err(|breach| breach.checker), Err("A-S8"), "the disk lost it");
        imports.certify(2, (0, 1), None);
        assert_eq!(imports.told(2, id), Ok(()));
    }
}
