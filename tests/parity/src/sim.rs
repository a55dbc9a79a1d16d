//! The rig over the simulator: virtual time, the record journal, real keys.

use core::any::Any;
use core::fmt::Debug;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::host::{LaneLog, Lsn};
use synod_machine::{Keep, Link, Span, Time, Unrecoverable};
use synod_quorum::NodeId;
use synod_sim::{
    Act, Checker, Crypto, Deed, Desk, Harm, Harness, Loss, Lost, Moment, Options, RecordJournal, Refused,
    Routed, Seen, Setup, Status, Storage, Strategy, Stream, Told, Violation, World, WriteFailed, Written,
};
use synod_wire::Bytes;

use crate::{Disk, Entry, JobGate, Log, Opening, PAUSE, Plan, Rig, Seat, Went};

/// How long a predicate may take to hold, in steps of a virtual millisecond.
const STEPS: u64 = 60_000;

type Book<T> = Rc<RefCell<Vec<Log<T>>>>;

/// Finds the log of a node.
struct Places(Vec<NodeId>);

impl Places {
    fn of(&self, id: NodeId) -> usize {
        self.0.iter().position(|own| *own == id).expect("the world has the nodes of the plan")
    }
}

/// What the rig and a node's disk share.
struct Platter {
    disk: Cell<Disk>,
    syncs: Cell<u64>,
}

/// The record journal on a disk that can hold or fail.
struct Held {
    inner: RecordJournal,
    platter: Rc<Platter>,
    begun: bool,
}

impl Storage for Held {
    fn open(&mut self) -> Result<Vec<LaneLog>, Unrecoverable> {
        self.inner.open()
    }
    fn reserve(&mut self, lane: u8) -> Lsn {
        self.inner.reserve(lane)
    }
    fn write(&mut self, lane: u8, lsn: Lsn, what: Written) {
        self.inner.write(lane, lsn, what);
    }
    fn compact(&mut self, snapshots: Vec<Vec<(Keep, Bytes)>>) {
        self.inner.compact(snapshots);
    }
    fn readmit(&mut self, lane: u8) {
        self.inner.readmit(lane);
    }
    fn begin(&mut self) -> bool {
        self.begun = self.begun || self.inner.begin();
        self.begun
    }
    fn commit(&mut self) -> Result<Vec<(u8, Lsn)>, WriteFailed> {
        match self.platter.disk.get() {
            // The sync goes on: the world asks again when this one should have ended.
            Disk::Holds => return Ok(Vec::new()),
            Disk::FailsSync => return Err(WriteFailed("the sync failed".to_owned())),
            Disk::FailsWrite | Disk::Works => {}
        }
        self.begun = false;
        let moved = self.inner.commit()?;
        if !moved.is_empty() {
            self.platter.syncs.set(self.platter.syncs.get() + 1);
        }
        Ok(moved)
    }
    fn read(&mut self, lane: u8, name: Hash) -> Option<Bytes> {
        self.inner.read(lane, name)
    }
    fn failed(&self) -> bool {
        self.inner.failed()
    }
    fn crash(&mut self, loss: Loss, stream: &mut Stream) -> Lost {
        self.begun = false;
        self.inner.crash(loss, stream)
    }
    fn harm(&mut self, harm: Harm) -> bool {
        self.inner.harm(harm)
    }
    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }
}

/// Writes down what the world shows of every call.
struct Scribe<T> {
    book: Book<T>,
    places: Rc<Places>,
    pauses: Rc<RefCell<Vec<(NodeId, Span)>>>,
}

impl<T> Checker for Scribe<T> {
    fn see(&mut self, moment: &Moment<'_>) -> Result<(), Violation> {
        let mut book = self.book.borrow_mut();
        let log = &mut book[self.places.of(moment.node)];
        let (life, machine) = (moment.incarnation, moment.machine);
        match moment.seen {
            Seen::Opened { .. } => {
                log.lives = life;
                log.up.clear();
            }
            Seen::Link { peer, link: Link::Up } => drop(log.up.insert(*peer)),
            Seen::Link { peer, link: Link::Down } => drop(log.up.remove(peer)),
            _ => {}
        }
        for deed in moment.deeds {
            match deed {
                Deed::Note(note) => {
                    if note.name == PAUSE {
                        self.pauses.borrow_mut().push((moment.node, Span(note.values[0])));
                    }
                    log.noted.push(Entry { life, machine, what: *note });
                }
                Deed::Blame { peer, fault } => {
                    log.blamed.push(Entry { life, machine, what: (*peer, fault.code) });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Takes outputs down, and inputs that came too early back.
struct Clerk<T> {
    book: Book<T>,
    places: Rc<Places>,
    lives: Vec<u32>,
    refused: Vec<Refused>,
}

impl<T: 'static> Harness for Clerk<T> {
    fn told(&mut self, told: Told, _: &mut Desk) {
        let place = self.places.of(told.node);
        if let Ok(what) = told.output.downcast::<T>() {
            let (life, machine) = (self.lives[place], told.machine);
            self.book.borrow_mut()[place].told.push(Entry { life, machine, what: *what });
        }
    }
    fn refused(&mut self, refused: Refused, _: &mut Desk) {
        self.refused.push(refused);
    }
    fn started(&mut self, node: NodeId, incarnation: u32, _: &mut Desk) {
        self.lives[self.places.of(node)] = incarnation;
    }
}

/// Says of a node that it breaks the rules; its machine does so by itself.
struct Licence;

impl Strategy for Licence {
    fn name(&self) -> &'static str {
        "licence"
    }
    fn act(&mut self, _: &mut Act<'_>) -> bool {
        false
    }
}

/// The simulator.
pub struct SimRig<T> {
    world: World,
    clerk: Clerk<T>,
    book: Book<T>,
    seats: Vec<Seat>,
    platters: Vec<Rc<Platter>>,
    pauses: Rc<RefCell<Vec<(NodeId, Span)>>>,
    /// Nodes that should be running.
    running: Vec<bool>,
    /// The virtual time of the last input: the user of a node is one, so inputs keep their order.
    last: u64,
}

impl<T: Clone + Debug + Send + 'static> SimRig<T> {
    fn setup(plan: &Plan<T>, platters: &[Rc<Platter>]) -> Setup {
        let seats =
            plan.seats.iter().map(|seat| synod_sim::Seat::new(seat.id, &seat.machines)).collect::<Vec<_>>();
        let (open, route, seed) = (plan.open.clone(), plan.route.clone(), plan.seed);
        let gate = Arc::new(JobGate::default());
        let places = Places(plan.seats.iter().map(|seat| seat.id).collect());
        let platters = platters.to_vec();
        Setup {
            connector: Box::new(move |node, machine, output| match route(node, machine, output) {
                Went::Told(told) => vec![Routed::Harness(Box::new(told))],
                Went::Passed(passed) => vec![Routed::Machine(passed.machine, passed.input)],
                Went::Both(told, passed) => {
                    vec![Routed::Harness(Box::new(told)), Routed::Machine(passed.machine, passed.input)]
                }
                Went::Dropped => Vec::new(),
            }),
            disks: Box::new(move |id, lanes| {
                let platter = platters[places.of(id)].clone();
                Box::new(Held { inner: RecordJournal::new(lanes), platter, begun: false })
            }),
            options: Options { seed, pool: plan.pool, crypto: Crypto::Real, ..Options::default() },
            ..Setup::new(seats, move |own, machine, log, _| {
                Ok(open(Opening { own, machine, log, seed, gate: gate.clone() }))
            })
        }
    }

    /// Runs for a virtual millisecond.
    fn advance(&mut self) {
        let until = Time(self.world.now().0 + Span::millis(1).0);
        if let Err(violation) = self.world.run(until, &mut self.clerk) {
            unreachable!("{violation}\n{:?}", self.book.borrow());
        }
        for Refused { node, machine, input, .. } in core::mem::take(&mut self.clerk.refused) {
            self.give(node, machine, input);
        }
        for (node, span) in self.pauses.borrow_mut().drain(..) {
            self.world.pause(node, span);
        }
        let mut book = self.book.borrow_mut();
        for (place, seat) in self.seats.iter().enumerate() {
            let up = self.world.status(seat.id) == Status::Up;
            if self.running[place] && !up && book[place].lives > 0 {
                self.running[place] = false;
                book[place].ended += 1;
            }
        }
    }

    fn give(&mut self, node: NodeId, machine: u8, input: Box<dyn Any + Send>) {
        let now = self.world.now().0;
        self.last = now.max(self.last + 1);
        self.world.input(node, machine, Span(self.last - now), input);
    }

    fn id(&self, place: usize) -> NodeId {
        self.seats[place].id
    }
}

impl<T: Clone + Debug + Send + 'static> Rig<T> for SimRig<T> {
    fn start(plan: Plan<T>) -> Self {
        let count = plan.seats.len();
        let links: Vec<usize> = (0..count).map(|place| plan.links(place)).collect();
        let new = || Rc::new(Platter { disk: Cell::new(Disk::Works), syncs: Cell::new(0) });
        let platters: Vec<Rc<Platter>> = (0..count).map(|_| new()).collect();
        let places = Rc::new(Places(plan.seats.iter().map(|seat| seat.id).collect()));
        let book: Book<T> = Rc::new(RefCell::new(vec![Log::default(); count]));
        let pauses = Rc::new(RefCell::new(Vec::new()));
        let mut setup = Self::setup(&plan, &platters);
        let scribe = Scribe { book: book.clone(), places: places.clone(), pauses: pauses.clone() };
        setup.checkers = vec![Box::new(scribe)];
        let clerk = Clerk { book: book.clone(), places, lives: vec![0; count], refused: Vec::new() };
        let running = vec![true; count];
        let world = World::new(setup);
        let mut rig = Self { world, clerk, book, seats: plan.seats, platters, pauses, running, last: 0 };
        rig.until("every link comes up", |logs| logs.iter().zip(&links).all(|(log, n)| log.up.len() == *n));
        rig
    }

    fn input<I: Any + Send>(&mut self, place: usize, machine: u8, input: I) {
        self.give(self.id(place), machine, Box::new(input));
    }

    fn until(&mut self, what: &str, done: impl Fn(&[Log<T>]) -> bool) {
        for _ in 0..STEPS {
            if done(&self.book.borrow()) {
                return;
            }
            self.advance();
        }
        unreachable!("in a virtual minute: {what}: {:?}", self.book.borrow());
    }

    fn log(&self, place: usize) -> Log<T> {
        self.book.borrow()[place].clone()
    }

    fn syncs(&self, place: usize) -> u64 {
        self.platters[place].syncs.get()
    }

    fn break_link(&mut self, a: usize, b: usize) {
        self.world.reset(self.id(a), self.id(b));
    }

    fn crash(&mut self, place: usize) {
        self.running[place] = false;
        self.world.crash(self.id(place), Loss::Durable, None);
    }

    fn restart(&mut self, place: usize) {
        self.platters[place].disk.set(Disk::Works);
        self.world.harm(self.id(place), Harm::Full(false));
        self.world.delay_jobs(self.id(place), Span::ZERO);
        self.running[place] = true;
        self.world.restart(self.id(place));
    }

    fn disk(&mut self, place: usize, disk: Disk) {
        self.platters[place].disk.set(disk);
        self.world.harm(self.id(place), Harm::Full(disk == Disk::FailsWrite));
    }

    fn hold_jobs(&mut self, place: usize) {
        self.world.delay_jobs(self.id(place), Span::secs(1));
    }

    fn corrupt(&mut self, place: usize) {
        self.world.corrupt_node(self.id(place), Box::new(Licence));
    }

    fn stop(mut self) {
        if let Err(violation) = self.world.finish() {
            unreachable!("{violation}");
        }
    }
}
