//! Back from a log: what was promised is promised still.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_machine::{Condition, Log, QueueSpec, Recover, Unrecoverable};
use synod_quorum::NodeId;

use super::{Bracha, Record, Vote};
use crate::Lot;
use crate::config::Config;
use crate::slots::Where;

/// What a member starts from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// See there.
    pub config: Config,
    /// How far each source's slots were delivered and taken care of, as the user's own records say.
    pub delivered: BTreeMap<u8, u64>,
}

impl Recover for Bracha {
    type Config = Setup;

    fn queues(_: &Setup) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }

    fn recover(setup: Setup, log: Log<'_, Record>) -> Result<Self, Unrecoverable> {
        if log.condition == Condition::Damaged {
            return Err(Unrecoverable(
                "votes may be missing: this member can only join again as another".into(),
            ));
        }
        let mut bracha = Self::new(setup.config, &setup.delivered)?;
        let mut reached: BTreeMap<u8, u64> = BTreeMap::new();
        for record in log.records {
            match record {
                Record::Delivered(lot) => {
                    let far = reached.entry(lot.source).or_default();
                    *far = lot.sequence.max(*far);
                }
                record => bracha.replay(&record)?,
            }
        }
        bracha.forget_erased(&reached);
        Ok(bracha)
    }

    fn snapshot(&self, put: &mut dyn FnMut(Record)) {
        for (source, lane) in &self.lanes {
            let sequence = lane.delivered();
            if sequence > 0 {
                put(Record::Delivered(Lot { source: *source, sequence }));
            }
        }
        for (lot, digest) in &self.kept {
            put(Record::Readied(Vote { lot: *lot, digest: *digest }));
        }
        for (source, lane) in &self.lanes {
            for (sequence, slot) in lane.open() {
                let lot = Lot { source: *source, sequence };
                if let Some(digest) = slot.stored.filter(|_| *source == self.me()) {
                    put(Record::Mine { sequence, digest });
                }
                if let Some(digest) = slot.echoed {
                    put(Record::Echoed(Vote { lot, digest }));
                }
                if let Some(digest) = slot.readied {
                    put(Record::Readied(Vote { lot, digest }));
                }
            }
        }
    }
}

impl Bracha {
    /// An earlier life delivered slots up to these, and erased what it kept no longer.
    fn forget_erased(&mut self, reached: &BTreeMap<u8, u64>) {
        let retain = self.config.bounds.retain;
        let is_erased = |lot: &Lot| {
            let far = reached.get(&lot.source).copied().unwrap_or_default();
            far.saturating_sub(lot.sequence) >= retain
        };
        let gone: Vec<Lot> = self.kept.keys().copied().filter(is_erased).collect();
        for digest in gone.iter().filter_map(|lot| self.kept.remove(lot)).collect::<Vec<Hash>>() {
            let Some(slots) = self.stored.get_mut(&digest) else { continue };
            *slots -= 1;
            if *slots == 0 {
                self.stored.remove(&digest);
            }
        }
    }

    /// A promise of an earlier life.
    fn replay(&mut self, record: &Record) -> Result<(), Unrecoverable> {
        let me = self.me();
        let (lot, digest) = match record {
            Record::Mine { sequence, digest } => (Lot { source: me, sequence: *sequence }, *digest),
            Record::Echoed(vote) | Record::Readied(vote) => (vote.lot, vote.digest),
            Record::Delivered(_) => return Ok(()),
        };
        if lot.source == me {
            self.mine = self.mine.max(lot.sequence);
        }
        if let Some(lane) = self.lanes.get_mut(&lot.source) {
            lane.promise(lot.sequence);
        }
        match self.place(lot) {
            None | Some(Where::Beyond) => {
                Err(Unrecoverable(format!("a promise for {lot:?}, whose source is no member")))
            }
            Some(Where::Within) => self.replay_open(lot, digest, record),
            Some(Where::Behind) => {
                let age = self.delivered(NodeId(u32::from(lot.source))).saturating_sub(lot.sequence);
                if matches!(record, Record::Readied(_))
                    && age < self.config.bounds.retain
                    && self.kept.insert(lot, digest).is_none()
                {
                    *self.stored.entry(digest).or_default() += 1;
                }
                Ok(())
            }
        }
    }

    fn replay_open(&mut self, lot: Lot, digest: Hash, record: &Record) -> Result<(), Unrecoverable> {
        let me = self.config.me;
        let Some(slot) = self.lane(lot.source).and_then(|lane| lane.slot(lot.sequence)) else {
            return Ok(());
        };
        // Nobody else says this node's own votes to it. What they decide is seen when another one comes.
        match record {
            Record::Mine { .. } | Record::Delivered(_) => {}
            Record::Echoed(_) => drop(slot.echoes.add(me, digest)),
            Record::Readied(_) => drop(slot.readies.add(me, digest)),
        }
        let promise = match record {
            Record::Mine { .. } => &mut slot.stored,
            Record::Echoed(_) => &mut slot.echoed,
            Record::Readied(_) | Record::Delivered(_) => &mut slot.readied,
        };
        if promise.is_some_and(|said| said != digest) {
            return Err(Unrecoverable(format!("two promises for {lot:?}")));
        }
        let (is_new, is_stored) = (promise.is_none(), matches!(record, Record::Mine { .. }));
        *promise = Some(digest);
        let is_echo = matches!(record, Record::Echoed(_)) && slot.stored.is_none();
        if is_echo {
            slot.stored = Some(digest);
        }
        if is_echo || (is_new && is_stored) {
            *self.stored.entry(digest).or_default() += 1;
        }
        Ok(())
    }
}
