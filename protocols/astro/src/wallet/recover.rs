//! A wallet's start, with its file or without it.

use std::collections::{BTreeMap, VecDeque};

use synod_ledger::{Digests, genesis};
use synod_machine::{Condition, Full, Log as Kept, QueueSpec, Recover, Turn, Unrecoverable};
use synod_quorum::{Model, NodeSet, Quorums};

use super::logs::Place;
use super::{Config, Record, Signed, Stage, Stop, Timer, Wallet};

/// Messages that wait for one replica: all open entries, and questions.
const DEPTH: u32 = 256;

impl Recover for Wallet {
    type Config = Config;

    fn queues(_: &Config) -> Vec<QueueSpec> {
        vec![
            QueueSpec { depth: DEPTH, frame_max: 64 << 10, full: Full::Reset },
            QueueSpec { depth: DEPTH, frame_max: 4 << 20, full: Full::Reset },
        ]
    }

    fn recover(config: Config, log: Kept<'_, Record>) -> Result<Self, Unrecoverable> {
        if log.condition == Condition::Damaged {
            return Err(Unrecoverable("the wallet's file is damaged: what it signed is not known".into()));
        }
        let members = config.view.roster.size();
        let quorums =
            Quorums::new(Model::Byzantine, members).map_err(|_| Unrecoverable("no members".into()))?;
        let mut wallet = Self {
            quorums,
            stage: Stage::Reading,
            has_file: false,
            representative: config.representative,
            base: Place { n: 0, head: genesis(config.account) },
            open: BTreeMap::new(),
            orders: VecDeque::new(),
            asked: None,
            stated: BTreeMap::new(),
            shown: BTreeMap::new(),
            has_doubted: false,
            checking: NodeSet::default(),
            turn: 0,
            wait: config.resend,
            config,
        };
        for record in log.records {
            wallet.replay(record)?;
        }
        Ok(wallet)
    }

    fn snapshot(&self, put: &mut dyn FnMut(Record)) {
        if self.has_file {
            put(self.based());
            self.open.values().for_each(|signed| put(Record::Signed(signed.line.clone())));
        }
    }
}

impl Wallet {
    fn replay(&mut self, record: Record) -> Result<(), Unrecoverable> {
        self.has_file = true;
        match record {
            Record::Based { n, head, representative } => {
                self.base = Place { n, head };
                self.representative = representative;
                self.open.retain(|at, _| *at > n);
            }
            Record::Signed(line) => {
                let (id, last) = (line.entry.id, self.last());
                let is_next = id.spender == self.config.account
                    && last.n.checked_add(1) == Some(id.n)
                    && line.entry.prev == last.head;
                if !is_next {
                    return Err(Unrecoverable(format!(
                        "entry {} does not continue the log of {}",
                        id.n, id.spender
                    )));
                }
                let digest = Digests::default().entry(&line.entry);
                self.open.insert(id.n, Signed::new(line, digest, None));
            }
        }
        Ok(())
    }

    /// A start, first or again: what was signed goes out, and how far the log is is read.
    pub(super) fn on_start(&mut self, turn: &mut Turn<'_, Self>) {
        if !self.has_file && !self.config.accepts_lock_risk {
            return self.stop(Stop::NoFile, turn);
        }
        let open: Vec<u64> = self.open.keys().copied().collect();
        for n in open {
            self.submit(n, turn);
        }
        self.read(turn);
        turn.arm(Timer::Read, self.config.resend);
    }
}
