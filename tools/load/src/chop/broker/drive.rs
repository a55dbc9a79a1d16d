//! The thread that makes batches, sends them at the pace it is told, and keeps the books.

use super::books::Books;
use super::cooldown::Cooldown;
use super::machine::{Input, Output};
use super::node::{BrokerSetup, Carried, LoadNode, Told};
use super::source::{Ready, Source, SourcePlan};
use crate::chop::family::Members;
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use synod_chopchop::batch::Sealed;

/// How often it is looked what is due.
const LOOK: Duration = Duration::from_millis(10);

/// How batches are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Not at all.
    Paused,
    /// A closed loop: so many are on their way.
    Window(u32),
    /// An open loop: so many batches in this time, at moments fixed in advance.
    Rate {
        /// Batches.
        batches: u32,
        /// The time.
        every: Duration,
    },
}

/// What a driver is started from.
pub struct DriverSetup {
    /// Whose messages they are.
    pub members: Arc<Members>,
    /// The broker.
    pub broker: BrokerSetup,
    /// The batches.
    pub source: SourcePlan,
    /// Batches that are kept ready.
    pub ahead: usize,
}

enum Order {
    /// What the broker of this life said.
    Told(u64, Told),
    Pace(Pace),
    Small(u32),
    Forget,
    Kill,
    Revive,
    Show(Box<Sealed>),
    /// Answers once everything before it is done.
    Done(Sender<()>),
    Stop,
}

/// Starts the broker for its life of this number; what it says comes as an order.
fn born(setup: &BrokerSetup, life: u64, orders: Sender<Order>) -> anyhow::Result<LoadNode> {
    // The thread that reads orders may have ended.
    LoadNode::start(setup, move |told| drop(orders.send(Order::Told(life, told))))
}

struct Shared {
    books: Mutex<Books>,
    node: Mutex<Option<LoadNode>>,
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node(&self) -> MutexGuard<'_, Option<LoadNode>> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A load broker under way. Dropping it ends its threads.
pub struct Driver {
    orders: Sender<Order>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), String>>>,
    pool: usize,
}

impl Driver {
    /// Calls the servers, makes the pool and `ahead` batches, and waits until that is done.
    ///
    /// # Errors
    /// A plan that means no batch; threads that the system does not grant.
    pub fn start(setup: DriverSetup) -> anyhow::Result<Self> {
        let (orders, told) = channel();
        let shared = Arc::new(Shared {
            books: Mutex::new(Books::new(setup.members.length())),
            node: Mutex::new(Some(born(&setup.broker, 0, orders.clone())?)),
        });
        let (ready, made) = channel();
        let (own, answers) = (shared.clone(), orders.clone());
        let work = move || drive(&setup, &own, (answers, told), &ready);
        let thread = std::thread::Builder::new().name("load-broker".to_owned()).spawn(work)?;
        let driver = |pool| Self { orders, shared, thread: Some(thread), pool };
        match made.recv() {
            Ok(Ok(pool)) => Ok(driver(pool)),
            Ok(Err(why)) => Err(anyhow::anyhow!(why)),
            Err(_) => Err(anyhow::anyhow!("the thread that makes batches ended")),
        }
    }

    fn order(&self, order: Order) {
        // A thread that ended told why when it is stopped.
        let _ = self.orders.send(order);
    }

    /// Bodies that are replayed; 0 where each batch is made anew.
    #[must_use]
    pub const fn pool(&self) -> usize {
        self.pool
    }

    /// Sends batches at this pace from now on.
    pub fn pace(&self, pace: Pace) {
        self.order(Order::Pace(pace));
    }

    /// Forgets latencies, as at the end of a warm-up.
    pub fn forget(&self) {
        self.order(Order::Forget);
    }

    /// Ends the broker's links and all it knows, as a crash would.
    pub fn kill(&self) {
        self.order(Order::Kill);
    }

    /// Starts it again: the batches on their way are sent once more.
    pub fn revive(&self) {
        self.order(Order::Revive);
    }

    /// Ends the sending of all others and sends so many small batches: they are in all books but that of bytes.
    pub fn small(&self, batches: u32) {
        self.order(Order::Small(batches));
    }

    /// Uploads a batch that nobody is asked to witness.
    pub fn show(&self, sealed: Sealed) {
        self.order(Order::Show(Box::new(sealed)));
    }

    /// The books as they are.
    #[must_use]
    pub fn books(&self) -> Books {
        self.shared.books().clone()
    }

    /// Batches delivered, and their messages: cheaper than all books.
    #[must_use]
    pub fn delivered(&self) -> (u64, u64) {
        self.shared.books().delivered
    }

    /// What went over the links since the broker was last started.
    #[must_use]
    pub fn carried(&self) -> Carried {
        self.shared.node().as_ref().map(LoadNode::carried).unwrap_or_default()
    }

    /// Sends nothing more and waits until all is delivered; whether that was so in time.
    #[must_use]
    pub fn drain(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let (done, is_done) = channel();
        self.pace(Pace::Paused);
        self.order(Order::Done(done));
        if is_done.recv_timeout(patience).is_err() {
            return false;
        }
        loop {
            let (sent, done, lost) = {
                let books = self.shared.books();
                (books.sent.0, books.delivered.0, books.lost())
            };
            if done + lost >= sent {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Ends the threads; the books.
    ///
    /// # Errors
    /// What ended the thread before.
    pub fn stop(mut self) -> anyhow::Result<Books> {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join().map_err(|_| anyhow::anyhow!("the load broker ended by a panic"))?;
            ended.map_err(|why| anyhow::anyhow!(why))?;
        }
        Ok(self.books())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // Whoever drops it does not ask why it ended.
            let _ = thread.join();
        }
    }
}

/// The thread.
fn drive(
    setup: &DriverSetup,
    shared: &Shared,
    (orders, told): (Sender<Order>, Receiver<Order>),
    ready: &Sender<Result<usize, String>>,
) -> Result<(), String> {
    let begun = Instant::now();
    let source = match Source::new(&setup.members, &setup.broker.cluster, setup.source) {
        Ok(source) => source,
        Err(why) => {
            // The caller waits for this word.
            let _ = ready.send(Err(why.to_string()));
            return Ok(());
        }
    };
    let pool = source.pool();
    let mut thread = Thread::new(setup, shared, orders, source);
    let made = thread.fill().map(|()| pool);
    shared.books().making += begun.elapsed();
    let failed = made.is_err();
    // The caller waits for this word.
    let _ = ready.send(made);
    if failed { Ok(()) } else { thread.run(&told) }
}

struct Thread<'a> {
    setup: &'a DriverSetup,
    shared: &'a Shared,
    orders: Sender<Order>,
    /// How often the broker was killed.
    life: u64,
    source: Source<'a>,
    cooldown: Cooldown,
    waiting: VecDeque<Ready>,
    /// Batches on their way, and when they were due.
    open: BTreeMap<u64, (Ready, Instant)>,
    pace: Pace,
    /// Small batches that are to be sent.
    small: u32,
    /// When the next one of an open loop is due.
    due: Instant,
}

impl<'a> Thread<'a> {
    fn new(setup: &'a DriverSetup, shared: &'a Shared, orders: Sender<Order>, source: Source<'a>) -> Self {
        let cooldown = Cooldown::new(setup.members.length());
        Self {
            setup,
            shared,
            orders,
            life: 0,
            source,
            cooldown,
            waiting: VecDeque::new(),
            open: BTreeMap::new(),
            pace: Pace::Paused,
            small: 0,
            due: Instant::now(),
        }
    }

    fn run(&mut self, told: &Receiver<Order>) -> Result<(), String> {
        loop {
            self.send();
            self.send_small()?;
            let room = self.waiting.len() < self.setup.ahead.max(1);
            let busy = self.pace != Pace::Paused && room && self.make()?;
            let mut wait = if busy { Duration::ZERO } else { self.until_due() };
            while let Ok(order) = told.recv_timeout(wait) {
                wait = Duration::ZERO;
                if !self.obey(order)? {
                    return Ok(());
                }
            }
        }
    }

    /// Makes as many batches as are kept ready.
    fn fill(&mut self) -> Result<(), String> {
        while self.waiting.len() < self.setup.ahead.max(1) && self.make()? {}
        Ok(())
    }

    fn until_due(&self) -> Duration {
        match self.pace {
            Pace::Rate { .. } => self.due.saturating_duration_since(Instant::now()).min(LOOK),
            Pace::Paused | Pace::Window(_) => LOOK,
        }
    }

    /// Makes one more batch; whether there is one.
    fn make(&mut self) -> Result<bool, String> {
        let (begun, height) = (Instant::now(), self.shared.books().height);
        let made = self.source.next(&mut self.cooldown, height).map_err(|why| why.to_string())?;
        let mut books = self.shared.books();
        books.making += begun.elapsed();
        books.cooldown_waits = self.source.waits();
        let is_made = made.is_some();
        self.waiting.extend(made);
        Ok(is_made)
    }

    /// Sends what is due.
    fn send(&mut self) {
        let shared = self.shared;
        let node = shared.node();
        let Some(node) = node.as_ref() else { return };
        let most = self.setup.broker.window;
        loop {
            let now = Instant::now();
            let (free, due) = match self.pace {
                Pace::Paused => return,
                Pace::Window(window) => (window.min(most), now),
                Pace::Rate { .. } => (most, self.due),
            };
            if due > now || self.open.len() >= free as usize {
                return;
            }
            let Some(ready) = self.waiting.pop_front() else { return };
            if let Pace::Rate { batches, every } = self.pace {
                self.due += every / batches.max(1);
            }
            let mut books = shared.books();
            books.sent.0 += 1;
            books.sent.1 += ready.ids.len() as u64;
            books.bytes += 192 + ready.sealed.body.len() as u64;
            drop(books);
            self.open.insert(ready.number, (ready.clone(), due));
            node.tell(Input::Batch(Box::new(ready)));
        }
    }

    /// Sends small batches for as long as there are places.
    fn send_small(&mut self) -> Result<(), String> {
        let shared = self.shared;
        let node = shared.node();
        let Some(node) = node.as_ref() else { return Ok(()) };
        while self.small > 0 && self.open.len() < self.setup.broker.window as usize {
            let height = shared.books().height;
            let made = self.source.small(&mut self.cooldown, height).map_err(|why| why.to_string())?;
            let Some(ready) = made else { return Ok(()) };
            self.small -= 1;
            let mut books = shared.books();
            books.sent.0 += 1;
            books.sent.1 += ready.ids.len() as u64;
            books.small += 1;
            drop(books);
            self.open.insert(ready.number, (ready.clone(), Instant::now()));
            node.tell(Input::Batch(Box::new(ready)));
        }
        Ok(())
    }

    /// Does what it is told; whether it goes on.
    fn obey(&mut self, order: Order) -> Result<bool, String> {
        match order {
            // What one that was killed said last is lost with it: its batches are sent again, and their places are taken.
            Order::Told(life, told) if life == self.life => self.on_told(told),
            Order::Told(..) => {}
            Order::Pace(pace) => {
                self.pace = pace;
                self.due = Instant::now();
            }
            Order::Small(batches) => {
                self.pace = Pace::Paused;
                // Their numbers would be below those of small ones, so they are never sent.
                self.waiting.drain(..).for_each(|ready| self.cooldown.release(&ready.ids));
                self.small = self.small.saturating_add(batches);
            }
            Order::Forget => self.shared.books().latency = crate::Latency::default(),
            Order::Kill => {
                self.life += 1;
                drop(self.shared.node().take());
            }
            Order::Revive => {
                let started = born(&self.setup.broker, self.life, self.orders.clone());
                let node = started.map_err(|why| why.to_string())?;
                let again = self.open.values().map(|(ready, _)| Input::Batch(Box::new(ready.clone())));
                again.for_each(|input| node.tell(input));
                *self.shared.node() = Some(node);
            }
            Order::Show(sealed) => {
                if let Some(node) = self.shared.node().as_ref() {
                    node.tell(Input::Show(sealed));
                }
            }
            // Who asked may have gone.
            Order::Done(done) => drop(done.send(())),
            Order::Stop => return Ok(false),
        }
        Ok(true)
    }

    fn on_told(&mut self, told: Told) {
        let mut books = self.shared.books();
        match told.output {
            Output::Delivered { number, height, exceptions } => {
                let Some((ready, due)) = self.open.remove(&number) else { return };
                let took = told.at.saturating_duration_since(due);
                let count = u32::try_from(ready.ids.len()).unwrap_or(u32::MAX);
                books.deliver(height, (count, exceptions), took, told.at);
                books.pay(&ready.deltas);
                self.cooldown.release(&ready.ids);
            }
            Output::Lost { number, why } => {
                // Its members may be in a batch that is delivered all the same: they are not used again.
                if self.open.remove(&number).is_some() {
                    *books.lost_for.entry(why).or_default() += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::books::Books;
    use super::super::machine::Output;
    use super::super::operations::Operations;
    use super::*;
    use crate::chop::{IdDraw, KeyFamily, cluster};
    use synod_crypto::Seed;

    fn setup() -> DriverSetup {
        let members = KeyFamily::new(&Seed::new([4; 32])).members(512, 512).expect("as many ids as members");
        let broker = BrokerSetup {
            cluster_name: "nobody".to_owned(),
            cluster: cluster(),
            seed: Seed::new([9; 32]),
            servers: Vec::new(),
            margin: 0,
            window: 1,
        };
        let operations = Operations::Payments { clients: 512 };
        let source = SourcePlan { ids: IdDraw::Uniform, count: 50, distilled: 1_000, operations, pool: 4 };
        DriverSetup { members: Arc::new(members), broker, source, ahead: 2 }
    }

    #[test]
    fn what_a_killed_broker_said_last_frees_no_place_at_the_one_that_came_after_it() {
        let setup = setup();
        let (orders, _told) = channel();
        let node = born(&setup.broker, 0, orders.clone()).expect("a broker without servers");
        let books = Books::new(setup.members.length());
        let shared = Shared { books: Mutex::new(books), node: Mutex::new(Some(node)) };
        let source = Source::new(&setup.members, &setup.broker.cluster, setup.source).expect("a sound plan");
        let mut thread = Thread::new(&setup, &shared, orders, source);
        thread.fill().expect("batches");
        thread.obey(Order::Pace(Pace::Window(1))).expect("a pace");
        thread.send();
        let number = *thread.open.keys().next().expect("one is on its way");
        let output = Output::Delivered { number, height: 2, exceptions: 0 };
        let told = |life| Order::Told(life, Told { output, at: Instant::now() });
        for order in [Order::Kill, told(0), Order::Revive, told(0)] {
            assert!(thread.obey(order).expect("done"), "it goes on");
            thread.send();
            assert_eq!(
                (thread.open.len(), thread.open.contains_key(&number)),
                (1, true),
                "its place is taken"
            );
        }
        let batches = || {
            let books = shared.books();
            (books.sent.0, books.delivered.0)
        };
        assert_eq!(batches(), (1, 0));
        thread.obey(told(1)).expect("done");
        assert_eq!((thread.open.len(), batches()), (0, (1, 1)));
        thread.send();
        assert_eq!((thread.open.len(), batches()), (1, (2, 1)), "the next one has the place");
    }
}
