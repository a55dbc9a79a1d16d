//! Back from a log: through every view that was entered.

use std::sync::Arc;

use synod_machine::broadcast::Transferable;
use synod_machine::{Log, Nested, QueueSpec, Recover, Unrecoverable};

use super::enter::{Taken, replica};
use super::machine::{Config, Member};
use super::words::Record;
use crate::replica::Carrier;
use crate::views::{Entered, Reconfig};

/// How far a replay is.
struct Replay<B: Carrier> {
    /// The view of the records that follow; none before this node entered one.
    entered: Option<Arc<Entered>>,
    records: Vec<crate::Record<B::Record>>,
}

impl<B: Carrier> Replay<B> {
    fn replica(self, config: &Config<B>) -> Result<Option<Taken<B>>, Unrecoverable> {
        let Some(entered) = self.entered else { return Ok(None) };
        Ok(Some((Arc::clone(&entered), replica(config, entered, self.records)?)))
    }
}

impl<B: Carrier, C: Transferable + Clone> Recover for Member<B, C> {
    type Config = Config<B>;

    fn queues(_: &Config<B>) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }

    fn recover(config: Config<B>, log: Log<'_, Record<B::Record>>) -> Result<Self, Unrecoverable> {
        if let Some(why) = config.fault() {
            return Err(Unrecoverable(why.into()));
        }
        let is_founder = config.me.member().is_some_and(|me| config.founding.members.contains_key(&me));
        let first = is_founder.then(Arc::default);
        let mut replay: Replay<B> = Replay { entered: first, records: Vec::new() };
        let mut views = Vec::new();
        for record in log.records {
            match record {
                Record::In(record) => replay.records.push(record),
                Record::Views(record) => views.push(record),
                Record::Began(entered) => {
                    replay = Replay { entered: Some(Arc::from(entered)), records: Vec::new() };
                }
                Record::Entered(entered) => {
                    let before = replay.replica(&config)?.map(|(_, before)| before);
                    let entered: Arc<Entered> = Arc::from(entered);
                    let records = before.map(|before| before.crossing(&entered)).unwrap_or_default();
                    replay = Replay { entered: Some(entered), records };
                }
            }
        }
        let log = Log { condition: log.condition, records: &mut views.into_iter() };
        let reconfig = Nested::new(Reconfig::recover(config.views(), log)?);
        let mut member = Self {
            reconfig,
            replica: None,
            entered: Arc::default(),
            view: 0,
            runs: false,
            has_asked: false,
            config,
        };
        if let Some(taken) = replay.replica(&member.config)? {
            member.take(taken);
        }
        Ok(member)
    }

    fn snapshot(&self, put: &mut dyn FnMut(Record<B::Record>)) {
        if let Some(replica) = self.replica() {
            put(Record::Began(Box::new((*self.entered).clone())));
            replica.snapshot(&mut |record| put(Record::In(record)));
        }
        self.reconfig.get().snapshot(&mut |record| put(Record::Views(record)));
    }
}
