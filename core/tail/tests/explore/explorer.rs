//! A search through all interleavings of a writer and a reader.
//!
//! A side runs in phases (send one message, poll once). A phase is production code over [`Script`]: it is run again
//! from its start for each of its steps, with the answers its loads had; where the answers end stands the next step.
//! What follows there runs on zeros and is thrown away, which is sound because every phase ends whatever it loads.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use synod_tail::{Fence, Words};

use crate::memory::{Eyes, Memory, Order};

/// One load, store or fence.
#[derive(Clone, Copy, Debug)]
enum Access {
    Load(u32),
    Store(u32, u64),
    Fence(Fence),
}

/// A planted weakness of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    Nothing,
    /// The n-th fence of each phase is missing.
    NoFence(u32),
    /// A word that this phase loaded before is not loaded again.
    NoSecondLook,
    /// Stores of zero are missing.
    NoClearing,
}

/// The words of one side: answers what was answered before, and notes the first access beyond.
#[derive(Debug)]
pub(crate) struct Script {
    /// Words that are no cell: always zero, and no step.
    dull: fn(u32) -> bool,
    plant: Plant,
    answers: RefCell<Vec<u64>>,
    loaded: RefCell<Vec<(u32, u64)>>,
    at: Cell<usize>,
    fences: Cell<u32>,
    next: Cell<Option<Access>>,
}

impl Script {
    pub(crate) fn leak(dull: fn(u32) -> bool, plant: Plant) -> &'static Self {
        Box::leak(Box::new(Self {
            dull,
            plant,
            answers: RefCell::default(),
            loaded: RefCell::default(),
            at: Cell::new(0),
            fences: Cell::new(0),
            next: Cell::new(None),
        }))
    }

    fn rewind(&self, answers: &[u64]) {
        let mut held = self.answers.borrow_mut();
        held.clear();
        held.extend_from_slice(answers);
        self.loaded.borrow_mut().clear();
        self.at.set(0);
        self.fences.set(0);
        self.next.set(None);
    }

    fn access(&self, access: Access) -> u64 {
        let at = self.at.get();
        self.at.set(at + 1);
        if let Some(answer) = self.answers.borrow().get(at) {
            return *answer;
        }
        if self.next.get().is_none() {
            self.next.set(Some(access));
        }
        0
    }
}

impl Words for Script {
    fn load(&self, at: u32) -> u64 {
        if (self.dull)(at) {
            return 0;
        }
        let before = self.loaded.borrow().iter().find(|(word, _)| *word == at).map(|(_, value)| *value);
        if let (Plant::NoSecondLook, Some(value)) = (self.plant, before) {
            return value;
        }
        let value = self.access(Access::Load(at));
        self.loaded.borrow_mut().push((at, value));
        value
    }

    fn store(&self, at: u32, value: u64) {
        if !(self.dull)(at) && !(self.plant == Plant::NoClearing && value == 0) {
            self.access(Access::Store(at, value));
        }
    }

    fn fence(&self, fence: Fence) {
        self.fences.set(self.fences.get() + 1);
        if self.plant != Plant::NoFence(self.fences.get()) {
            self.access(Access::Fence(fence));
        }
    }
}

/// One side: what it does in phases, and what it knows between them. `World` is what only the test knows.
pub(crate) trait Side<World>: Clone + Hash {
    /// Whether its next phase may begin.
    fn ready(&self, world: &World) -> bool;
    /// Happens with the first access of a phase.
    fn begin(&mut self, world: &mut World);
    /// Runs one phase.
    fn phase(&mut self);
    /// Happens with the last access of a phase.
    fn end(&mut self, world: &mut World) -> Result<(), String>;
}

/// What only the test knows.
pub(crate) trait World: Clone + Hash {
    /// Lets time pass; false when nothing would change.
    fn tick(&mut self) -> bool {
        false
    }
}

#[derive(Clone, Debug, Hash)]
struct Thread<S> {
    side: S,
    answers: Vec<u64>,
    eyes: Eyes,
}

impl<S> Thread<S> {
    /// The next access, if the phase has one, and the side behind its phase.
    fn next<W>(&self, script: &Script) -> (Option<Access>, S)
    where
        S: Side<W>,
    {
        let mut side = self.side.clone();
        script.rewind(&self.answers);
        side.phase();
        (script.next.get(), side)
    }

    fn steps<W: World>(&self, script: &Script, memory: &Memory, world: &W) -> Steps<S, W>
    where
        S: Side<W>,
    {
        let (mut steps, mut world) = (Vec::new(), world.clone());
        let mut thread = self.clone();
        if thread.answers.is_empty() {
            if !thread.side.ready(&world) {
                return steps;
            }
            thread.side.begin(&mut world);
        }
        let access = thread.next(script).0.expect("a phase has an access");
        let mut memory = memory.clone();
        let seen = match access {
            Access::Load(at) => memory.load(at as usize, &thread.eyes),
            Access::Store(at, value) => {
                memory.store(at as usize, value, &mut thread.eyes);
                vec![(0, thread.eyes.clone())]
            }
            Access::Fence(fence) => {
                memory.fence(fence, &mut thread.eyes);
                vec![(0, thread.eyes.clone())]
            }
        };
        for (answer, eyes) in seen {
            let (mut next, mut world) = (thread.clone(), world.clone());
            next.eyes = eyes;
            next.answers.push(answer);
            let mut verdict = Ok(());
            if let (None, side) = next.next(script) {
                next.side = side;
                next.answers.clear();
                verdict = next.side.end(&mut world);
            }
            steps.push((next, memory.clone(), world, verdict));
        }
        steps
    }
}

type Steps<S, W> = Vec<(Thread<S>, Memory, W, Result<(), String>)>;

/// What a search met.
#[derive(Debug)]
pub(crate) struct Explored {
    /// Different states.
    pub(crate) states: usize,
    /// Steps from one state to another.
    pub(crate) steps: usize,
    /// What the first side to break a promise said.
    pub(crate) broken: Option<String>,
}

/// A writer and a reader over `cells` words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Explorer {
    pub(crate) order: Order,
    pub(crate) cells: usize,
    pub(crate) scripts: (&'static Script, &'static Script),
}

#[derive(Clone, Hash)]
struct State<A, B, W> {
    writer: Thread<A>,
    reader: Thread<B>,
    memory: Memory,
    world: W,
}

fn digest(state: &impl Hash) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        state.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

impl Explorer {
    /// Visits every state once, until a promise is broken. `at_rest` looks at the newest values of states in which
    /// neither side stands inside a phase.
    pub(crate) fn run<A: Side<W>, B: Side<W>, W: World>(
        &self,
        (writer, reader, world): (A, B, W),
        at_rest: impl Fn(&A, &B, &Memory) -> Result<(), String>,
    ) -> Explored {
        let eyes = Eyes::new(self.cells);
        let writer = Thread { side: writer, answers: Vec::new(), eyes: eyes.clone() };
        let reader = Thread { side: reader, answers: Vec::new(), eyes };
        let first = State { writer, reader, memory: Memory::new(self.order, self.cells), world };
        let mut visited = BTreeSet::from([digest(&first)]);
        let (mut open, mut steps) = (vec![first], 0);
        while let Some(state) = open.pop() {
            let mut verdict = Ok(());
            if state.writer.answers.is_empty() && state.reader.answers.is_empty() {
                verdict = at_rest(&state.writer.side, &state.reader.side, &state.memory);
            }
            let mut reached = Vec::new();
            for (writer, memory, world, said) in
                state.writer.steps(self.scripts.0, &state.memory, &state.world)
            {
                verdict = verdict.and(said);
                reached.push(State { writer, memory, world, reader: state.reader.clone() });
            }
            for (reader, memory, world, said) in
                state.reader.steps(self.scripts.1, &state.memory, &state.world)
            {
                verdict = verdict.and(said);
                reached.push(State { reader, memory, world, writer: state.writer.clone() });
            }
            let mut later = state;
            if later.world.tick() {
                reached.push(later);
            }
            steps += reached.len();
            if let Err(broken) = verdict {
                return Explored { states: visited.len(), steps, broken: Some(broken) };
            }
            open.extend(reached.into_iter().filter(|state| visited.insert(digest(state))));
        }
        Explored { states: visited.len(), steps, broken: None }
    }
}
