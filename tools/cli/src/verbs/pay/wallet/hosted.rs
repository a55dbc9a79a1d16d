//! The wallet's machine in this process: its log on disk, its timers, its links, one event after another.
//!
//! A record is on disk before anything that was said behind it leaves, and before the user hears of it.

use super::folder::{Folder, Log, body};
use super::links::Links;
use crate::cluster::from_journal;
use crate::exit::bug;
use crate::verbs::pay::institution::System;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use synod_config::SynError;
use synod_crypto::Keys;
use synod_host::pay::wallet::{Config, Input, Output, Record, Timer, Wallet};
use synod_host::pay::{Line, view};
use synod_journal::{Journal, Keep};
use synod_machine::{
    Condition, Effect, Event, Job as _, Log as Kept, Machine as _, Recover as _, Rng, Span, Time, Turn, Wall,
};
use synod_quorum::NodeId;

/// How long an answer may take before others are asked.
const RESEND: Span = Span::millis(500);
/// The longest that this grows to.
const RESEND_MAX: Span = Span::secs(5);
/// How long the loop waits where no timer says how long.
const IDLE: Duration = Duration::from_millis(100);

/// Whether an account is taken over without the log of what was signed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockRisk {
    Refused,
    Accepted,
}

/// See the module.
pub(super) struct Hosted {
    wallet: Wallet,
    keys: Keys,
    journal: Journal,
    /// Where the journal is.
    at: PathBuf,
    links: Links,
    timers: BTreeMap<Timer, Instant>,
    begun: Instant,
    rng: Rng,
    told: VecDeque<Output>,
}

impl Hosted {
    /// Recovers a wallet and starts it.
    ///
    /// # Errors
    /// Those of its log, and SYN-1001 where nobody says where a member is.
    pub(super) fn open(folder: &Folder, system: &Arc<System>, risk: LockRisk) -> Result<Self, SynError> {
        let genesis = system.genesis();
        let Log { journal, records } = folder.open_log(genesis)?;
        let config = Config {
            view: Arc::new(view(genesis, folder.account.shard)?),
            account: folder.account,
            key: folder.key.public(),
            representative: u8::try_from(folder.account.registrar).unwrap_or(u8::MAX),
            accepts_lock_risk: risk == LockRisk::Accepted,
            resend: RESEND,
            resend_max: RESEND_MAX,
        };
        let mut records = records.into_iter();
        let log = Kept { condition: Condition::Clean, records: &mut records };
        let wallet = Wallet::recover(config, log).map_err(|why| folder.lost(&why.to_string()))?;
        let mut hosted = Self {
            wallet,
            keys: folder.key.to_keys()?,
            journal,
            at: folder.path().join("log"),
            links: Links::open(system, folder.account.shard)?,
            timers: BTreeMap::new(),
            begun: Instant::now(),
            rng: Rng::new(RandomState::new().hash_one(1), NodeId(u32::MAX), 0),
            told: VecDeque::new(),
        };
        hosted.step(Event::Start)?;
        Ok(hosted)
    }

    /// What was signed and is not stable.
    pub(super) fn open_entries(&self) -> Vec<Line> {
        self.wallet.open_entries().cloned().collect()
    }

    /// Why members gave no answer last, by their names.
    pub(super) fn silent(&self) -> impl Iterator<Item = (&String, &SynError)> {
        self.links.silent.iter()
    }

    /// The owner asks for something.
    pub(super) fn ask(&mut self, input: Input) -> Result<(), SynError> {
        self.step(Event::Input(input))
    }

    /// What the wallet tells next; nothing where the time passes first.
    pub(super) fn next(&mut self, deadline: Instant) -> Result<Option<Output>, SynError> {
        loop {
            if let Some(output) = self.told.pop_front() {
                return Ok(Some(output));
            }
            let now = Instant::now();
            if let Some((timer, _)) = self.timers.iter().find(|(_, at)| **at <= now) {
                let timer = *timer;
                self.timers.remove(&timer);
                self.step(Event::Timer(timer))?;
                continue;
            }
            if now >= deadline {
                return Ok(None);
            }
            let first = self.timers.values().min().copied().unwrap_or(now + IDLE).min(deadline);
            if let Some((from, message)) = self.links.hear(first.saturating_duration_since(now)) {
                self.step(Event::Message { from, message })?;
            }
        }
    }

    fn step(&mut self, event: Event<Wallet>) -> Result<(), SynError> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut effects = Vec::new();
            let since = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            let now = Time(since(self.begun.elapsed()));
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let wall = Wall(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX));
            self.wallet.step(event, &mut Turn::new(now, wall, &mut self.rng, &mut effects));
            self.wallet.invariants();
            for effect in effects {
                events.extend(self.apply(effect)?);
            }
            self.sync()?;
        }
        Ok(())
    }

    /// Does what the machine wants; gives what came of a job.
    fn apply(&mut self, effect: Effect<Wallet>) -> Result<Option<Event<Wallet>>, SynError> {
        match effect {
            Effect::Persist(record) => {
                let kept = self.journal.append(0, Keep::Log, body(&record));
                kept.map_err(|error| from_journal(&error, &self.at))?;
            }
            Effect::Send { to, message } => {
                self.sync()?;
                self.links.send(to, &message);
            }
            Effect::Compact => self.compact()?,
            Effect::Arm { timer, after } => {
                let at = Instant::now().checked_add(Duration::from_nanos(after.0));
                let at = at.ok_or_else(|| bug("wallet", &"a timer without an end"))?;
                self.timers.insert(timer, at);
            }
            Effect::Disarm(timer) => drop(self.timers.remove(&timer)),
            Effect::Compute(job) => return Ok(Some(Event::Done(job.run(&self.keys)))),
            Effect::Output(output) => self.told.push_back(output),
            // It stores nothing beside its log. What members say wrongly is theirs, and rules are for tests.
            Effect::Store { .. }
            | Effect::Load(_)
            | Effect::Erase(_)
            | Effect::Blame { .. }
            | Effect::Applied(_)
            | Effect::Note(_) => {}
        }
        Ok(None)
    }

    fn sync(&mut self) -> Result<(), SynError> {
        if self.journal.durable() < self.journal.issued() {
            self.journal.sync().map_err(|error| from_journal(&error, &self.at))?;
        }
        Ok(())
    }

    fn compact(&mut self) -> Result<(), SynError> {
        let mut snapshot = Vec::new();
        self.wallet.snapshot(&mut |record: Record| snapshot.push((Keep::Log, body(&record))));
        let done = self.journal.compact(&[snapshot]);
        done.map(drop).map_err(|error| from_journal(&error, &self.at))
    }
}
