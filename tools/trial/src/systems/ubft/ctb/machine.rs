//! The broadcasts of all replicas at one of them, as one machine.
//!
//! It adds nothing to [`CtBroadcast`] but the name of the broadcaster: messages travel as words of a replica, answers of memory nodes
//! find the broadcast by their register, and a link that comes up again is greeted, as a replica does.

use std::sync::Arc;

use synod_crypto::Keys;
use synod_machine::{
    Bounded, Cost, Event, Family, Job as Work, Lift, Link, Log, Machine, Never, QueueSpec, Recover, Turn,
    Unrecoverable,
};
use synod_quorum::NodeId;
use synod_ubft::message::{Message, queues};
use synod_ubft::replica::Word;
use synod_ubft::{Config, CtBroadcast, Done, Job, ctb};

/// Something of one broadcaster's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Of<T> {
    /// The broadcaster.
    pub broadcaster: NodeId,
    /// What is asked of its broadcast, or told by it.
    pub what: T,
}

/// A timer of one broadcaster's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alarm(u8, ctb::Timer);

/// Work of one broadcaster's messages.
#[derive(Clone, Debug)]
pub struct Task(u8, Job);

impl Work for Task {
    type Done = (u8, Done);

    fn run(self, keys: &Keys) -> (u8, Done) {
        (self.0, self.1.run(keys))
    }

    fn cost(&self) -> Cost {
        self.1.cost()
    }

    fn peer(&self) -> Option<NodeId> {
        self.1.peer()
    }
}

/// See the module.
pub struct Broadcasts {
    config: Arc<Config>,
    all: Family<NodeId, CtBroadcast>,
}

/// What one broadcast says, as the machine says it.
struct Named<'a>(u8, &'a Config);

impl Lift<CtBroadcast, Broadcasts> for Named<'_> {
    fn message(&self, word: ctb::Message) -> Message {
        Message::Word { epoch: self.1.epoch, word: Word::Ctb { broadcaster: self.0, word } }
    }
    fn timer(&self, timer: ctb::Timer) -> Alarm {
        Alarm(self.0, timer)
    }
    fn record(&self, record: Never) -> Never {
        record
    }
    fn job(&self, job: Job) -> Task {
        Task(self.0, job)
    }
}

impl Broadcasts {
    fn step_one(&mut self, broadcaster: NodeId, event: Event<CtBroadcast>, turn: &mut Turn<'_, Self>) {
        let config = Arc::clone(&self.config);
        let Some((one, member)) = self.all.get_mut(broadcaster).zip(broadcaster.member()) else { return };
        let told: Vec<ctb::Output> = one.step(event, &Named(member, &config), turn).collect();
        told.into_iter().for_each(|what| turn.output(Of { broadcaster, what }));
    }

    fn on_word(&mut self, from: NodeId, broadcaster: u8, word: ctb::Message, turn: &mut Turn<'_, Self>) {
        let of = match word.reply() {
            Some(reply) => ctb::broadcaster_of(reply.place, self.config.parameters.tail),
            None => Some(NodeId(u32::from(broadcaster))),
        };
        let Some(of) = of else { return };
        match word {
            ctb::Message::Lock { k, body } if from == of && self.promises(of, k) => {
                let promise = ctb::Input::Promise { k, body: body.into_bytes() };
                self.step_one(of, Event::Input(promise), turn);
            }
            word => self.step_one(of, Event::Message { from, message: word }, turn),
        }
    }

    /// Whether something is promised with what is locked of a message: of two in three, where that may be.
    fn promises(&self, of: NodeId, k: u64) -> bool {
        !k.is_multiple_of(3) && self.all.get(of).is_some_and(|one| one.may_promise(k))
    }

    fn greet(&mut self, peer: NodeId, turn: &mut Turn<'_, Self>) {
        let ids: Vec<NodeId> = self.all.keys().collect();
        ids.into_iter().for_each(|id| self.step_one(id, Event::Input(ctb::Input::Greet(peer)), turn));
    }
}

impl Machine for Broadcasts {
    type Input = Of<ctb::Input>;
    type Message = Message;
    type Timer = Alarm;
    type Record = Never;
    type Job = Task;
    type Output = Of<ctb::Output>;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(Of { what: ctb::Input::Greet(peer), .. }) => self.greet(peer, turn),
            Event::Input(Of { broadcaster, what }) => self.step_one(broadcaster, Event::Input(what), turn),
            Event::Message {
                from,
                message: Message::Word { word: Word::Ctb { broadcaster, word }, epoch },
            } if epoch == self.config.epoch => {
                self.on_word(from, broadcaster, word, turn);
            }
            Event::Timer(Alarm(of, timer)) => {
                self.step_one(NodeId(u32::from(of)), Event::Timer(timer), turn);
            }
            Event::Done((of, done)) => self.step_one(NodeId(u32::from(of)), Event::Done(done), turn),
            Event::Link { peer, link: Link::Up }
                if self.config.roster.others(self.config.me).contains(peer) =>
            {
                self.greet(peer, turn);
            }
            // Other words of replicas are no business of a broadcast.
            Event::Start | Event::Message { .. } | Event::Loaded { .. } | Event::Link { .. } => {}
        }
    }

    fn room(&self) -> u32 {
        let own = self.all.iter().find(|(id, _)| *id == self.config.me);
        own.map_or(0, |(_, one)| one.room())
    }

    fn invariants(&self) {
        self.all.iter().for_each(|(_, one)| one.invariants());
    }
}

impl Bounded for Broadcasts {
    fn bytes(&self) -> u64 {
        self.all.iter().map(|(_, one)| one.bytes()).sum()
    }

    fn bytes_max(&self) -> u64 {
        self.all.iter().map(|(_, one)| one.bytes_max()).sum()
    }
}

impl Recover for Broadcasts {
    type Config = Config;

    fn queues(config: &Config) -> Vec<QueueSpec> {
        queues(config, 1, 1)
    }

    fn recover(config: Config, _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        let config = Arc::new(config);
        let mut all = Family::new(usize::try_from(config.roster.size()).unwrap_or(0));
        for id in config.roster.all().iter() {
            let one =
                CtBroadcast::new(Arc::clone(&config), id).map_err(|why| Unrecoverable(format!("{why:?}")))?;
            all.member(id, || one);
        }
        Ok(Self { config, all })
    }

    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}
