//! Owners whose wallets are the real machine: its questions reach members or are lost, its callers wait for drawn times, it crashes and
//! starts from its file, and members that lie answer it as they like. What it promises is looked at as it leaves.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use synod_astro::wallet::{Answer, Config, Input, Job, Log, Output, Record, Timer, Wallet, Word};
use synod_astro::{Draft, Input as Asked, Level, Output as Told, Refusal};
use synod_broadcast::signed::View;
use synod_crypto::Hash;
use synod_ledger::{AccountId, EntryId};
use synod_machine::testing::effects;
use synod_machine::{Bounded as _, Condition, Effect, Event, Job as _, Log as Kept, Recover as _, Span, To};
use synod_quorum::NodeId;
use synod_sim::{Desk, Draws, Scenario, Stream};

use super::book::Shared;
use super::plan::{People, REPLICA};
use super::sight;
use crate::oracle::{Breach, Verdict, breach};
use crate::params::number;

/// Wakes of wallets begin here.
pub(super) const PURSE: u64 = 1 << 35;
/// Tickets of wallets begin here.
const TICKETS: u64 = 1 << 42;
/// Names of orders that wallets are given begin here.
const NAMES: u128 = 1 << 70;

/// What a member was asked.
#[derive(Clone, Copy, Debug)]
enum Question {
    Check(Hash),
    Submit(Hash, EntryId),
    Read,
}

/// What happens to a wallet later.
enum Due {
    Heard(NodeId, Word),
    Rings(Timer),
    Done(Job),
}

/// One owner with a wallet.
struct Purse {
    wallet: Wallet,
    config: Config,
    file: Vec<Record>,
    /// Timers that are armed, with the number of the wake that they ring at.
    timers: BTreeMap<Timer, u64>,
    /// Crashes so far.
    life: u32,
    /// What left it, by place.
    left: BTreeMap<u64, Hash>,
}

/// All of them.
pub(super) struct Purses {
    people: People,
    all: BTreeMap<AccountId, Purse>,
    asked: BTreeMap<u64, (AccountId, NodeId, Question)>,
    due: BTreeMap<u64, (AccountId, u32, Due)>,
    draws: Stream,
    /// Of a million messages between wallets and members, so many are lost until everything is healed.
    loss: u32,
    number: u64,
    book: Shared,
    over_budget: bool,
    broken: Option<Breach>,
}

fn recovered(config: &Config, file: &[Record]) -> Option<Wallet> {
    let mut records = file.iter().cloned();
    let log = Kept { condition: Condition::Clean, records: &mut records };
    Wallet::recover(config.clone(), log).ok()
}

impl Purses {
    pub(super) fn new(scenario: &Scenario, people: &People, view: &Arc<View>, book: Shared) -> Self {
        let mut draws = Draws::new(scenario.seed).stream("purses", 0);
        let loss = *draws.pick(&[0, 50_000, 300_000, 600_000]).unwrap_or(&0);
        let mut all = BTreeMap::new();
        for account in (0..people.members).filter_map(|member| people.purse(member)) {
            let representative = u8::try_from(account.registrar).unwrap_or(0);
            let config = Config {
                view: Arc::clone(view),
                account,
                key: people.keys(account).public(),
                representative,
                accepts_lock_risk: false,
                resend: Span::millis(draws.between(100, 500)),
                resend_max: Span::millis(draws.between(500, 1_500)),
            };
            let file = vec![Record::Based { n: 0, head: synod_ledger::genesis(account), representative }];
            let Some(wallet) = recovered(&config, &file) else { continue };
            let (timers, left) = (BTreeMap::new(), BTreeMap::new());
            all.insert(account, Purse { wallet, config, file, timers, life: 0, left });
        }
        Self {
            people: people.clone(),
            all,
            asked: BTreeMap::new(),
            due: BTreeMap::new(),
            draws,
            loss,
            number: 0,
            book,
            over_budget: number(scenario, "over", 0) == 1,
            broken: None,
        }
    }

    /// Whether an owner has a wallet.
    pub(super) fn has(&self, account: AccountId) -> bool {
        self.all.contains_key(&account)
    }

    /// What a wallet broke, once. With more liars than there may be it can be made to stop, and no more.
    pub(super) fn broken(&mut self) -> Verdict {
        let broken = self.broken.take().filter(|breach| !self.over_budget || breach.checker != "A-L1");
        broken.map_or(Ok(()), Err)
    }

    /// They begin.
    pub(super) fn start(&mut self, desk: &mut Desk) {
        let all: Vec<AccountId> = self.all.keys().copied().collect();
        all.into_iter().for_each(|account| self.step(account, Event::Start, desk));
    }

    /// An owner wants something, and waits for a drawn time.
    pub(super) fn pay(&mut self, draft: Draft, desk: &mut Desk) {
        self.number += 1;
        let within = Span::millis(*self.draws.pick(&[50, 400, 2_000, 10_000, 60_000]).unwrap_or(&50));
        let until = if self.draws.chance(500_000) { Level::Settled } else { Level::Stable };
        let (account, transfer) = (draft.spender, NAMES + u128::from(self.number));
        let draft = Draft { transfer, ..draft };
        self.step(account, Event::Input(Input::Pay { ticket: self.number, draft, until, within }), desk);
        if self.draws.chance(60_000) {
            self.restart(account, desk);
        }
    }

    /// A crash: it has its file and nothing else, and what is on its way arrives.
    fn restart(&mut self, account: AccountId, desk: &mut Desk) {
        let Some(purse) = self.all.get_mut(&account) else { return };
        let Some(wallet) = recovered(&purse.config, &purse.file) else {
            self.broken =
                Some(Breach { checker: "X1", what: format!("the wallet of {account} cannot start") });
            return;
        };
        purse.wallet = wallet;
        purse.timers.clear();
        purse.life += 1;
        let life = purse.life;
        self.due.retain(|_, (of, at, due)| *of != account || *at == life || matches!(due, Due::Heard(..)));
        self.book.borrow_mut().add("wallet_crashes", 1);
        self.step(account, Event::Start, desk);
    }

    fn later(&mut self, account: AccountId, after: Span, due: Due, desk: &mut Desk) -> u64 {
        self.number += 1;
        let life = self.all.get(&account).map_or(0, |purse| purse.life);
        self.due.insert(self.number, (account, life, due));
        desk.wake(after, PURSE | self.number);
        self.number
    }

    /// A wake is due.
    pub(super) fn wake(&mut self, token: u64, desk: &mut Desk) {
        let number = token & !PURSE;
        let Some((account, life, due)) = self.due.remove(&number) else { return };
        let Some(purse) = self.all.get_mut(&account) else { return };
        let event = match due {
            Due::Heard(from, message) => Event::Message { from, message },
            Due::Rings(timer) if purse.life == life && purse.timers.get(&timer) == Some(&number) => {
                purse.timers.remove(&timer);
                Event::Timer(timer)
            }
            Due::Done(job) if purse.life == life => Event::Done(job.run(&self.people.keys(account))),
            Due::Rings(_) | Due::Done(_) => return,
        };
        self.step(account, event, desk);
    }

    fn step(&mut self, account: AccountId, event: Event<Wallet>, desk: &mut Desk) {
        let Some(purse) = self.all.get_mut(&account) else { return };
        let now = desk.now();
        let Ok(all) = catch_unwind(AssertUnwindSafe(|| effects(&mut purse.wallet, event, now))) else {
            let what = format!("the wallet of {account} panics");
            self.broken.get_or_insert(Breach { checker: "X1", what });
            self.all.remove(&account);
            return;
        };
        if purse.wallet.bytes() > purse.wallet.bytes_max() {
            let what = format!("the wallet of {account} is over its bound");
            self.broken.get_or_insert(Breach { checker: "X2", what });
        }
        all.into_iter().for_each(|effect| self.effect(account, effect, desk));
    }

    fn effect(&mut self, account: AccountId, effect: Effect<Wallet>, desk: &mut Desk) {
        match effect {
            Effect::Send { to: To::Node(to), message } => self.send(account, to, message, desk),
            Effect::Send { to: To::Set(set), message } => {
                set.iter().for_each(|to| self.send(account, to, message.clone(), desk));
            }
            Effect::Arm { timer, after } => {
                let number = self.later(account, after, Due::Rings(timer), desk);
                self.on(account, |purse| {
                    purse.timers.insert(timer, number);
                });
            }
            Effect::Disarm(timer) => self.on(account, |purse| {
                purse.timers.remove(&timer);
            }),
            Effect::Persist(record) => self.on(account, |purse| purse.file.push(record)),
            Effect::Compact => self.on(account, |purse| {
                purse.file.clear();
                let Purse { wallet, file, .. } = purse;
                wallet.snapshot(&mut |record| file.push(record));
            }),
            Effect::Compute(job) => {
                let after = Span::micros(self.draws.log_uniform(50, 20_000));
                self.later(account, after, Due::Done(job), desk);
            }
            Effect::Output(output) => self.told(account, output),
            Effect::Applied(_) => {}
            Effect::Blame { peer, fault } => {
                let what = format!("the wallet of {account} blames member {} for {}", peer.0, fault.name);
                self.broken.get_or_insert(Breach { checker: "X6", what });
            }
            _ => {}
        }
    }

    fn on(&mut self, account: AccountId, change: impl FnOnce(&mut Purse)) {
        if let Some(purse) = self.all.get_mut(&account) {
            change(purse);
        }
    }

    fn told(&mut self, account: AccountId, output: Output) {
        let mut book = self.book.borrow_mut();
        match output {
            Output::Signed { line, .. } => {
                book.add("wallet_entries", 1);
                book.pinned.entry(account).or_default().insert(line.entry.id.n, sight::digest(&line.entry));
            }
            Output::Unknown { .. } => book.add("wallet_unknown", 1),
            Output::Refused { .. } => book.add("wallet_refused", 1),
            Output::Stopped(why) => {
                let what = format!("the wallet of {account} stops: {why:?}");
                self.broken.get_or_insert(Breach { checker: "A-L1", what });
            }
            Output::Ready(_) | Output::Progress { .. } => {}
        }
    }

    fn is_lost(&mut self) -> bool {
        self.draws.chance(self.loss) && self.book.borrow().healed.is_none()
    }

    /// A wallet's word is on its way to a member. One entry leaves it per place (A-S3), and what it signed is kept before (X3).
    fn send(&mut self, account: AccountId, to: NodeId, word: Word, desk: &mut Desk) {
        if let Word::Submit(line) = &word {
            let judged = self.leaves(account, line);
            if let Err(breach) = judged {
                self.broken.get_or_insert(breach);
            }
        }
        if self.is_lost() {
            return;
        }
        self.number += 1;
        let ticket = TICKETS | self.number;
        let (question, input) = match word {
            Word::Check { entry, key } => {
                (Question::Check(sight::digest(&entry)), Asked::Check { ticket, entry, key })
            }
            Word::Submit(line) => {
                (Question::Submit(sight::digest(&line.entry), line.entry.id), Asked::Signed { ticket, line })
            }
            Word::Read(account) => (Question::Read, Asked::ReadLog { ticket, account }),
            _ => return,
        };
        self.asked.insert(ticket, (account, to, question));
        let after = Span::micros(self.draws.log_uniform(100, 100_000));
        desk.input(to, REPLICA, after, input);
    }

    fn leaves(&mut self, account: AccountId, line: &synod_astro::Line) -> Verdict {
        let Some(purse) = self.all.get_mut(&account) else { return Ok(()) };
        let (n, digest) = (line.entry.id.n, sight::digest(&line.entry));
        self.book.borrow_mut().facts.sign(digest);
        let is_kept = purse.file.iter().any(|record| matches!(record, Record::Signed(kept) if kept == line));
        if !is_kept {
            return breach(
                "X3",
                format!("the wallet of {account} gives entry {n} away and keeps it nowhere"),
            );
        }
        match purse.left.insert(n, digest) {
            Some(known) if known != digest => {
                breach("A-S3", format!("the wallet of {account} signs two entries for place {n}"))
            }
            _ => Ok(()),
        }
    }

    /// A member answers; whether this was a wallet's question.
    pub(super) fn heard(&mut self, from: NodeId, output: &Told, desk: &mut Desk) -> bool {
        let ticket = match output {
            Told::Checked { ticket, .. }
            | Told::Log { ticket, .. }
            | Told::Accepted { ticket, .. }
            | Told::Refused { ticket, .. } => *ticket,
            _ => return false,
        };
        if ticket < TICKETS {
            return false;
        }
        let Some((account, _, question)) = self.asked.remove(&ticket) else { return true };
        let word = match (question, output) {
            (Question::Check(digest), Told::Checked { why, .. }) => {
                let answer = why.map_or(Answer::Yes, |why| answer(why, None));
                Some(Word::Checked { digest, answer })
            }
            (Question::Submit(digest, _), Told::Accepted { .. }) => {
                Some(Word::Submitted { digest, answer: Answer::Yes })
            }
            (Question::Submit(digest, id), Told::Refused { why, .. }) => {
                Some(Word::Submitted { digest, answer: answer(*why, Some(id)) })
            }
            (Question::Read, Told::Log { log, .. }) => {
                log.as_ref().map(|log| Word::Here(Box::new(log.clone())))
            }
            _ => None,
        };
        let lies = !self.book.borrow().facts.honest(from.0) && self.draws.chance(400_000);
        let word = if lies { word.map(|word| self.lie(word)) } else { word };
        if let Some(word) = word.filter(|_| !self.is_lost()) {
            let after = Span::micros(self.draws.log_uniform(100, 100_000));
            self.later(account, after, Due::Heard(from, word), desk);
        }
        true
    }

    /// A question did not reach its member.
    pub(super) fn unheard(&mut self, input: &Asked) {
        if let Asked::Check { ticket, .. } | Asked::Signed { ticket, .. } | Asked::ReadLog { ticket, .. } =
            input
        {
            self.asked.remove(ticket);
        }
    }

    fn lie(&mut self, word: Word) -> Word {
        let any = match self.draws.below(3) {
            0 => Answer::Yes,
            1 => Answer::No(u16::try_from(3_100 + self.draws.below(30)).unwrap_or(3_100)),
            _ => Answer::Busy(1),
        };
        match word {
            Word::Checked { digest, .. } => Word::Checked { digest, answer: any },
            Word::Submitted { digest, .. } => Word::Submitted { digest, answer: any },
            Word::Here(log) => {
                let (sequence, head) = (self.draws.below(9), Hash::of(&self.draws.draw().to_le_bytes()));
                Word::Here(Box::new(Log { sequence, head, ..*log }))
            }
            other => other,
        }
    }
}

/// As a gateway answers.
fn answer(why: Refusal, of: Option<EntryId>) -> Answer {
    match why {
        Refusal::Ledger(code) => Answer::No(code.number()),
        Refusal::Exists(at) if Some(at) == of => Answer::Yes,
        Refusal::Exists(_) => Answer::No(3_116),
        Refusal::Busy(ms) => Answer::Busy(ms),
    }
}
