//! Back from a log: what was promised is promised still, what was proven is told again.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_machine::broadcast::{Begun, Bounds};
use synod_machine::{Condition, Log, QueueSpec, Recover, Unrecoverable};
use synod_quorum::NodeId;

use super::ack::own;
use super::slot::Accepted;
use super::words::{Certificate, Record};
use super::{Items, SignedBroadcast, View};
use crate::Config;
use crate::Lot;

/// What a member starts from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// See there.
    pub config: Config,
    /// See there.
    pub view: Arc<View>,
    /// What of older views is good in this one.
    pub begun: Begun,
    /// How far each source's slots were taken care of, as the user's own records say.
    pub settled: BTreeMap<u8, u64>,
}

impl Setup {
    /// What a member of a view starts from in each of its lives, by how far the user's records say it took care of each source.
    pub fn under(me: NodeId, view: Arc<View>, bounds: Bounds) -> impl Fn(BTreeMap<u8, u64>) -> Self {
        Self::begun(me, view, Begun::default(), bounds)
    }

    /// The same in a view that is not the first.
    pub fn begun(
        me: NodeId,
        view: Arc<View>,
        begun: Begun,
        bounds: Bounds,
    ) -> impl Fn(BTreeMap<u8, u64>) -> Self {
        let config = Config { me, members: view.roster.all(), bounds };
        move |settled| Self { config: config.clone(), view: Arc::clone(&view), begun: begun.clone(), settled }
    }
}

impl<I: Items> Recover for SignedBroadcast<I> {
    type Config = Setup;

    fn queues(_: &Setup) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }

    fn recover(setup: Setup, log: Log<'_, Record>) -> Result<Self, Unrecoverable> {
        if log.condition == Condition::Damaged {
            return Err(Unrecoverable(
                "promises may be missing: this member can only join again as another".into(),
            ));
        }
        let mut broadcast = Self::begin(setup.config, setup.view, setup.begun, &setup.settled)?;
        for record in log.records {
            broadcast.replay(record)?;
        }
        for lane in broadcast.lanes.values_mut() {
            for (_, name) in lane.forget().into_iter().filter_map(|(_, slot)| slot.stored) {
                if let Some(slots) = broadcast.stored.get_mut(&name) {
                    *slots -= 1;
                }
            }
            let gone = lane.advance();
            assert!(gone.is_empty(), "nobody was told of a slot above what the user settled");
        }
        broadcast.carry();
        broadcast.stored.retain(|_, slots| *slots > 0);
        Ok(broadcast)
    }

    fn snapshot(&self, put: &mut dyn FnMut(Record)) {
        for (source, lane) in &self.lanes {
            for (sequence, slot) in &lane.slots {
                let lot = Lot { source: *source, sequence: *sequence };
                if let Some((digest, name)) = slot.stored {
                    put(Record::Held { lot, digest, name });
                }
                let signed = slot.taken.filter(|_| *source == self.me() && slot.said.is_some());
                if let Some((digest, signature)) = signed {
                    put(Record::Mine { sequence: *sequence, digest, signature });
                } else if let Some((Accepted { digest, except, authorized }, (_, signature))) =
                    slot.accepted.clone().zip(slot.taken)
                {
                    put(Record::Accepted { lot, digest, except, authorized, signature });
                }
                for certificate in &slot.certificates {
                    put(Record::Committed(certificate.clone()));
                }
            }
        }
    }
}

impl<I: Items> SignedBroadcast<I> {
    fn replay(&mut self, record: Record) -> Result<(), Unrecoverable> {
        let me = self.me();
        let (lot, digest) = match &record {
            Record::Mine { sequence, digest, .. } => (Lot { source: me, sequence: *sequence }, *digest),
            Record::Accepted { lot, digest, .. } | Record::Held { lot, digest, .. } => (*lot, *digest),
            Record::Committed(certificate) => (certificate.lot, certificate.digest),
        };
        if lot.source == me && matches!(record, Record::Mine { .. }) {
            self.mine = self.mine.max(lot.sequence);
            self.sealed = self.mine;
        }
        let none = || Unrecoverable(format!("no source {}", lot.source));
        let lane = self.lanes.get_mut(&lot.source).ok_or_else(none)?;
        let Some(slot) = lane.again(lot.sequence) else {
            return Ok(());
        };
        match record {
            Record::Mine { signature, .. } => own(slot, lot, digest, signature),
            Record::Accepted { except, authorized, signature, .. } => {
                if slot.accepted.as_ref().is_some_and(|before| before.digest != digest) {
                    return Err(Unrecoverable(format!("two payloads were accepted in {lot:?}")));
                }
                slot.accepted = Some(Accepted { digest, except, authorized });
                slot.taken = Some((digest, signature));
            }
            Record::Committed(certificate) => return self.replay_committed(certificate),
            Record::Held { name, .. } => {
                let other = slot.stored.replace((digest, name));
                *self.stored.entry(name).or_default() += 1;
                if let Some(slots) = other.and_then(|(_, other)| self.stored.get_mut(&other)) {
                    *slots -= 1;
                }
                self.stored.retain(|_, slots| *slots > 0);
            }
        }
        Ok(())
    }

    fn replay_committed(&mut self, certificate: Certificate) -> Result<(), Unrecoverable> {
        let (lot, digest) = (certificate.lot, certificate.digest);
        let quora = Arc::clone(&self.quora);
        let open = quora.open(&certificate);
        let is_settled = lot.sequence <= self.lanes.get(&lot.source).map_or(0, |lane| lane.certified);
        if certificate.epoch == self.view.roster.epoch() {
            self.skip(lot);
        }
        let slot = self.lanes.get_mut(&lot.source).and_then(|lane| lane.again(lot.sequence));
        let Some(slot) = slot else { return Ok(()) };
        if slot.certified().is_some_and(|known| known != digest) {
            return Err(Unrecoverable(format!("two payloads are certified in {lot:?}")));
        }
        let Some(open) = slot.with(&open) else { return Ok(()) };
        slot.certificates.push(certificate);
        if !slot.shed(&quora) {
            slot.certificates.pop();
            return Ok(());
        }
        slot.open = open.clone();
        // A fuller certificate may have come after the user took care of the first: it is told again.
        slot.told = usize::from(is_settled && slot.certificates.len() == 1 && open.items().is_empty());
        if slot.certificates.len() > 1 || !open.items().is_empty() {
            self.rows.push(lot, open);
        }
        Ok(())
    }
}
