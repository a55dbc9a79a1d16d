//! The replica: state and dispatch, one line per event. The concerns live in the files beside.

mod basic;
mod certify;
mod checkpoint;
mod commit;
mod complain;
mod deliver;
mod input;
mod peers;
mod propose;
mod recover;
mod rejoin;
mod serve;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod vote;

use core::marker::PhantomData;

use synod_machine::broadcast::{Delivered, Submit};
use synod_machine::{Bounded, Event, Lift, Log, Machine, Nested, QueueSpec, Recover, Turn, Unrecoverable};

use crate::rules::{Rules, Ruleset};
use crate::{Config, Job, Message, Record};

pub(crate) use state::Core;
pub use state::Seen;

/// The name of a timer; it carries its view or number, so a stale firing does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The term of this view is given up when it fires.
    View(crate::View),
    /// A leader of this view lingered long enough.
    Linger(crate::View),
    /// A question is unanswered.
    Fetch(u64),
    /// The status is due if nothing happens.
    Status,
}

/// How a replica comes by its rule pack: a [`Ruleset`], or [`Configured`].
pub trait Choice: Send + 'static {
    /// The predicates for this configuration.
    ///
    /// # Errors
    /// [`Unrecoverable`] when the type is of another pack than the configuration.
    fn rules(config: &Config) -> Result<Rules, Unrecoverable>;
}

/// The pack that the configuration names.
#[derive(Clone, Copy, Debug)]
pub struct Configured;

impl Choice for Configured {
    fn rules(config: &Config) -> Result<Rules, Unrecoverable> {
        Ok(config.parameters().rules.rules())
    }
}

impl<R: Ruleset> Choice for R {
    fn rules(config: &Config) -> Result<Rules, Unrecoverable> {
        if config.parameters().rules == R::PACK {
            Ok(Rules::of::<R>())
        } else {
            Err(Unrecoverable(format!("a replica of {} with another pack in its configuration", R::NAME)))
        }
    }
}

/// One member's ordering machine. Satisfies `AtomicBroadcast`: entries in one agreed order at all correct members.
///
/// `Replica<Chain2Order>` fixes the pack by type, `Replica` alone takes it from the configuration.
#[derive(Clone, Debug)]
pub struct Replica<R: Choice = Configured> {
    core: Nested<Core>,
    pack: PhantomData<R>,
}

/// The core speaks the replica's own vocabulary.
struct Same;

impl<R: Choice> Lift<Core, Replica<R>> for Same {
    fn message(&self, message: Message) -> Message {
        message
    }
    fn timer(&self, timer: Timer) -> Timer {
        timer
    }
    fn record(&self, record: Record) -> Record {
        record
    }
    fn job(&self, job: Job) -> Job {
        job
    }
}

fn same<R: Choice>(event: Event<Replica<R>>) -> Event<Core> {
    match event {
        Event::Start => Event::Start,
        Event::Input(input) => Event::Input(input),
        Event::Message { from, message } => Event::Message { from, message },
        Event::Timer(timer) => Event::Timer(timer),
        Event::Done(done) => Event::Done(done),
        Event::Loaded { name, bytes } => Event::Loaded { name, bytes },
        Event::Link { peer, link } => Event::Link { peer, link },
    }
}

impl<R: Choice> Machine for Replica<R> {
    type Input = Submit;
    type Message = Message;
    type Timer = Timer;
    type Record = Record;
    type Job = Job;
    type Output = Delivered;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        for output in self.core.step(same(event), &Same, turn) {
            turn.output(output);
        }
    }

    fn room(&self) -> u32 {
        self.core.get().room()
    }

    fn invariants(&self) {
        self.core.get().invariants();
    }
}

impl<R: Choice> Bounded for Replica<R> {
    fn bytes(&self) -> u64 {
        self.core.get().bytes()
    }

    fn bytes_max(&self) -> u64 {
        self.core.get().bytes_max()
    }
}

impl<R: Choice> Recover for Replica<R> {
    type Config = Config;

    fn queues(_: &Config) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }

    fn recover(config: Config, log: Log<'_, Record>) -> Result<Self, Unrecoverable> {
        let rules = R::rules(&config)?;
        Ok(Self { core: Nested::new(Core::recover(config, rules, log)?), pack: PhantomData })
    }

    fn snapshot(&self, put: &mut dyn FnMut(Record)) {
        self.core.get().snapshot(put);
    }
}

impl<R: Choice> Replica<R> {
    /// What operators ask: view, leader, heights, promises.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.core.get().seen()
    }
}
