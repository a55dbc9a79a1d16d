//! A wallet beside the members of a [`World`]: its questions reach members as their gateways would ask them, or do not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_astro::wallet::{Answer, Config, Input, Job, Log, Output, Record, Refusal, Timer, Wallet, Word};
use synod_astro::{Draft, Input as Asked, Level, Refusal as Denied};
use synod_crypto::Hash;
use synod_ledger::{AccountId, EntryId};
use synod_machine::testing::{self, pick};
use synod_machine::{
    Bounded as _, Condition, Effect, Event, Job as _, Log as Kept, Recover as _, Span, Time, To,
};
use synod_quorum::NodeId;
use synod_wire::Drawn;

use crate::bank::{World, digest, owner, view};

/// Tickets of wallets are above those of a test's own questions.
const TICKETS: u64 = 1_000_000;

/// What a member was asked for the wallet.
enum Question {
    Check(Hash),
    Submit(Hash, EntryId),
    Read,
}

/// An owner with a wallet, and what is between it and the members.
pub(crate) struct Purse {
    pub(crate) wallet: Wallet,
    config: Config,
    /// Its file.
    pub(crate) file: Vec<Record>,
    timers: BTreeMap<Timer, Time>,
    out: Vec<(NodeId, Word)>,
    back: Vec<(NodeId, Word)>,
    asked: Vec<(NodeId, u64, Question)>,
    ticket: u64,
    /// Members that hear nothing of it.
    pub(crate) silent: BTreeSet<NodeId>,
    /// Messages of a thousand that are lost.
    pub(crate) loss: u64,
    /// What the lying member answers.
    pub(crate) lies: fn(&mut Drawn, Word) -> Vec<Word>,
    pub(crate) told: Vec<Output>,
    /// What left, by place: whoever signs two entries for one place shows it here.
    pub(crate) left: BTreeMap<u64, BTreeSet<[u8; 32]>>,
    pub(crate) rules: BTreeSet<&'static str>,
    /// How often a member was asked how far the log is.
    pub(crate) reads: u64,
    /// Whether signing takes until [`Purse::sign`].
    pub(crate) is_slow: bool,
    signing: Vec<Job>,
}

impl Purse {
    /// The wallet of an account, of a bank of `n` members.
    pub(crate) fn new(
        n: u32,
        account: AccountId,
        file: Vec<Record>,
        accepts_lock_risk: bool,
        now: Time,
    ) -> Self {
        let config = Config {
            view: view(n),
            account,
            key: owner(account).public(),
            representative: u8::try_from(account.registrar).expect("few"),
            accepts_lock_risk,
            resend: Span::millis(400),
            resend_max: Span::secs(4),
        };
        let mut purse = Self {
            wallet: recovered(&config, &file),
            config,
            file,
            timers: BTreeMap::new(),
            out: Vec::new(),
            back: Vec::new(),
            asked: Vec::new(),
            ticket: TICKETS,
            silent: BTreeSet::new(),
            loss: 0,
            lies: |_, _| Vec::new(),
            told: Vec::new(),
            left: BTreeMap::new(),
            rules: BTreeSet::new(),
            reads: 0,
            is_slow: false,
            signing: Vec::new(),
        };
        purse.step(Event::Start, now);
        purse
    }

    /// The wallet of an account that has just been opened.
    pub(crate) fn fresh(n: u32, account: AccountId, now: Time) -> Self {
        let representative = u8::try_from(account.registrar).expect("few");
        let head = synod_ledger::genesis(account);
        Self::new(n, account, vec![Record::Based { n: 0, head, representative }], false, now)
    }

    /// A crash: what is on its way arrives or is lost, as it was.
    pub(crate) fn restart(&mut self, now: Time) {
        self.timers.clear();
        self.wallet = recovered(&self.config, &self.file);
        self.step(Event::Start, now);
    }

    pub(crate) fn pay(&mut self, ticket: u64, draft: Draft, within: Span, now: Time) {
        self.step(Event::Input(Input::Pay { ticket, draft, until: Level::Settled, within }), now);
    }

    /// A member says something that it was not asked for.
    pub(crate) fn hear(&mut self, from: NodeId, message: Word, now: Time) {
        self.step(Event::Message { from, message }, now);
    }

    /// What is being signed where that is slow.
    pub(crate) fn is_signing(&self) -> bool {
        !self.signing.is_empty()
    }

    /// It is signed.
    pub(crate) fn sign(&mut self, now: Time) {
        for job in std::mem::take(&mut self.signing) {
            self.step(Event::Done(job.run(&owner(self.config.account))), now);
        }
    }

    fn step(&mut self, event: Event<Wallet>, now: Time) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for effect in testing::effects(&mut self.wallet, event, now) {
                match effect {
                    Effect::Send { to: To::Node(to), message } => self.send(to, message),
                    Effect::Send { to: To::Set(set), message } => {
                        set.iter().for_each(|to| self.send(to, message.clone()));
                    }
                    Effect::Arm { timer, after } => drop(self.timers.insert(timer, now + after)),
                    Effect::Disarm(timer) => drop(self.timers.remove(&timer)),
                    Effect::Persist(record) => self.file.push(record),
                    Effect::Compact => {
                        self.file.clear();
                        self.wallet.snapshot(&mut |record| self.file.push(record));
                    }
                    Effect::Compute(job @ Job::Sign { .. }) if self.is_slow => self.signing.push(job),
                    Effect::Compute(job) => events.push(Event::Done(job.run(&owner(self.config.account)))),
                    Effect::Output(output) => self.told.push(output),
                    Effect::Applied(rule) => drop(self.rules.insert(rule.name)),
                    Effect::Blame { peer, fault } => unreachable!("{peer:?} is blamed for {}", fault.name),
                    _ => {}
                }
            }
            assert!(self.wallet.bytes() <= self.wallet.bytes_max(), "memory over its bound");
        }
    }

    fn send(&mut self, to: NodeId, word: Word) {
        if let Word::Submit(line) = &word {
            let is_kept =
                self.file.iter().any(|record| matches!(record, Record::Signed(kept) if kept == line));
            assert!(is_kept, "what is signed is kept before it is given away");
            self.left.entry(line.entry.id.n).or_default().insert(digest(&line.entry).0);
        }
        self.reads += u64::from(matches!(word, Word::Read(_)));
        self.out.push((to, word));
    }

    /// One drawn thing happens between wallet and members, if anything can.
    pub(crate) fn happen(&mut self, world: &mut World, drawn: &mut Drawn) {
        self.collect(world);
        let now = world.now();
        if let Some((timer, _)) = self.timers.iter().find(|(_, at)| **at <= now) {
            let timer = *timer;
            self.timers.remove(&timer);
            return self.step(Event::Timer(timer), now);
        }
        let choices = self.out.len() + self.back.len();
        if choices == 0 {
            return;
        }
        let (at, is_lost) = (pick(drawn, choices), drawn.below(1_000) < self.loss);
        if at < self.out.len() {
            let (to, word) = self.out.swap_remove(at);
            if is_lost || self.silent.contains(&to) {
            } else if world.liar == Some(to) {
                let lies = (self.lies)(drawn, word);
                self.back.extend(lies.into_iter().map(|word| (to, word)));
            } else {
                self.ask(world, to, word);
            }
        } else {
            let (from, word) = self.back.swap_remove(at - self.out.len());
            if !is_lost && !self.silent.contains(&from) {
                self.step(Event::Message { from, message: word }, now);
            }
        }
    }

    fn ask(&mut self, world: &mut World, to: NodeId, word: Word) {
        self.ticket += 1;
        let ticket = self.ticket;
        let (question, input) = match word {
            Word::Check { entry, key } => {
                (Question::Check(digest(&entry)), Asked::Check { ticket, entry: Arc::clone(&entry), key })
            }
            Word::Submit(line) => {
                (Question::Submit(digest(&line.entry), line.entry.id), Asked::Signed { ticket, line })
            }
            Word::Read(account) => (Question::Read, Asked::ReadLog { ticket, account }),
            Word::Share { number, account, share } => {
                return world.ask(to, Asked::Share { number, owner: account, share });
            }
            Word::Checked { .. } | Word::Submitted { .. } | Word::Here(_) | Word::Distil(_) => {
                unreachable!("a wallet asks")
            }
        };
        self.asked.push((to, ticket, question));
        world.ask(to, input);
    }

    /// Answers of members.
    fn collect(&mut self, world: &mut World) {
        let mut back = Vec::new();
        self.asked.retain(|(from, ticket, question)| {
            let told = &mut world.users.told[from.0 as usize];
            let word = match question {
                Question::Check(digest) => told.checked.remove(ticket).map(|why| Word::Checked {
                    digest: *digest,
                    answer: why.map_or(Answer::Yes, |why| answer(why, None)),
                }),
                Question::Submit(digest, id) => {
                    let taken = told.accepted.contains_key(ticket).then_some(Answer::Yes);
                    let refused = told.refused.get(ticket).map(|why| answer(*why, Some(*id)));
                    taken.or(refused).map(|answer| Word::Submitted { digest: *digest, answer })
                }
                Question::Read => told
                    .logs
                    .remove(ticket)
                    .map(|log| Word::Here(Box::new(log.expect("the account is open")))),
            };
            let is_open = word.is_none();
            back.extend(word.map(|word| (*from, word)));
            is_open
        });
        self.back.extend(back);
    }

    /// What was told of orders: refused, and signed with their entries.
    pub(crate) fn refused(&self) -> BTreeMap<u64, Refusal> {
        let refused = self.told.iter().filter_map(|output| match output {
            Output::Refused { ticket, why } => Some((*ticket, *why)),
            _ => None,
        });
        refused.collect()
    }

    /// The highest level that was told of each place.
    pub(crate) fn levels(&self) -> BTreeMap<u64, Level> {
        let mut levels = BTreeMap::new();
        for output in &self.told {
            if let Output::Progress { id, level, .. } = output {
                let known = levels.entry(id.n).or_insert(*level);
                *known = (*known).max(*level);
            }
        }
        levels
    }

    /// The log that a member would show of it.
    pub(crate) fn stated(account: AccountId, sequence: u64, head: Hash) -> Word {
        Word::Here(Box::new(Log { account, sequence, head, open: Default::default() }))
    }
}

/// As a gateway answers.
fn answer(why: Denied, of: Option<EntryId>) -> Answer {
    match why {
        Denied::Ledger(code) => Answer::No(code.number()),
        Denied::Exists(at) if Some(at) == of => Answer::Yes,
        Denied::Exists(_) => Answer::No(3116),
        Denied::Busy(ms) => Answer::Busy(ms),
    }
}

fn recovered(config: &Config, file: &[Record]) -> Wallet {
    let mut records = file.iter().cloned();
    let log = Kept { condition: Condition::Clean, records: &mut records };
    Wallet::recover(config.clone(), log).expect("its own records are in order")
}

/// So many drawn things happen, to members and to the wallet.
pub(crate) fn live(world: &mut World, purse: &mut Purse, drawn: &mut Drawn, steps: u32) {
    for _ in 0..steps {
        if drawn.below(3) == 0 {
            purse.happen(world, drawn);
        } else {
            world.happen();
        }
    }
}

/// Goes on until something holds; false after too long.
pub(crate) fn until(
    world: &mut World,
    purse: &mut Purse,
    drawn: &mut Drawn,
    holds: impl Fn(&World, &Purse) -> bool,
) -> bool {
    for _ in 0..2_000 {
        if holds(world, purse) {
            return true;
        }
        live(world, purse, drawn, 40);
    }
    holds(world, purse)
}
