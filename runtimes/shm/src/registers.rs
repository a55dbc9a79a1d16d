//! Registers in place: what a memory node does for its callers, done by the caller itself on mapped memory (uBFT,
//! section 6.1).
//!
//! *What it gives.* The answers of [`RegisterReply`] to the operations of [`RegisterOp`]. A WRITE waits until the
//! cooldown delta has passed since the last one of its register; a READ that took too long is repeated until it says
//! something. Registers of an epoch that is over are answered as retired, never as empty (E37); those that are not
//! mapped are not answered.
//!
//! *Fences.* A READ begins behind a `SeqCst` fence and a WRITE ends with one: of two replicas that each write their own
//! register and then read the other's, one at least sees the other's.
//!
//! *Bounds.* [`WAITING_MAX`] operations that wait; [`COPIES_MAX`] copies of a READ a tick; two epochs of regions.

use std::collections::BTreeMap;

use synod_machine::register::{Held, Place, Region, RegisterOp, RegisterReply, Said};
use synod_machine::{Span, Time};
use synod_quorum::Epoch;
use synod_tail::register::{Backend, Entry, Owner, Pace, Region as Layout, RegionSpec, Value, Verdict};
use synod_tail::{Fence, Words};

use crate::poll::{Clock, Progress};

/// Operations that wait, of all registers together.
pub const WAITING_MAX: usize = 24;
/// Copies that a READ makes in a tick before others have their turn.
pub const COPIES_MAX: u32 = 4;
/// Epochs whose regions are held.
const EPOCHS: usize = 2;

/// What the registers of one memory node are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistersConfig {
    /// The member that this process is.
    pub me: u8,
    /// How many members there are.
    pub members: u8,
    /// Registers of a region: a multiple of the tail.
    pub registers: u32,
    /// The tail t.
    pub tail: u32,
    /// The cooldown delta.
    pub cooldown: Span,
    /// The boot number of the memory node.
    pub boot: u64,
}

/// The layout of a region of mapped memory, whose readers see single words whole and no more; `None` when it has no
/// layout ([`Layout::new`]).
#[must_use]
pub const fn layout(registers: u32, tail: u32) -> Option<Layout> {
    let backend = Backend { one_sided: true, atomic_read: false };
    Layout::new(RegionSpec { registers, tail, backend })
}

#[derive(Debug)]
struct Own<O> {
    owner: Owner<O>,
    /// The same words, for own READs.
    words: O,
    /// When the last WRITE of each register was complete.
    written: Vec<Option<Time>>,
}

/// The registers of one memory node, as one member reaches them.
#[derive(Debug)]
pub struct Registers<O, S> {
    config: RegistersConfig,
    layout: Layout,
    oldest: Epoch,
    own: BTreeMap<Epoch, Own<O>>,
    shown: BTreeMap<Region, S>,
    waiting: Vec<RegisterOp>,
}

enum Tried {
    Said(Said),
    /// To be tried again at once.
    Again,
    /// To be tried again then.
    Until(Time),
    Unanswered,
}

impl<O: Words + Clone, S: Words> Registers<O, S> {
    /// Registers without regions; `None` when they have no layout.
    #[must_use]
    pub fn new(config: RegistersConfig) -> Option<Self> {
        let layout = layout(config.registers, config.tail)?;
        let (own, shown) = (BTreeMap::new(), BTreeMap::new());
        Some(Self { config, layout, oldest: Epoch(0), own, shown, waiting: Vec::with_capacity(WAITING_MAX) })
    }

    /// Words of a region.
    #[must_use]
    pub const fn words(&self) -> u32 {
        self.layout.words()
    }

    /// Takes the own region of an epoch, all zero; false when there is one, the epoch is over or a third one.
    pub fn own(&mut self, epoch: Epoch, words: O) -> bool {
        if epoch < self.oldest || self.own.len() >= EPOCHS || self.own.contains_key(&epoch) {
            return false;
        }
        let registers = usize::try_from(self.config.registers).unwrap_or(0);
        let owner = Owner::new(self.layout, words.clone());
        self.own.insert(epoch, Own { owner, words, written: vec![None; registers] }).is_none()
    }

    /// Takes another member's region; false when there is one, the epoch is over, or there are as many as there may be.
    pub fn show(&mut self, region: Region, words: S) -> bool {
        let foreign = region.owner != self.config.me && region.owner < self.config.members;
        let room = self.shown.len() < EPOCHS * usize::from(self.config.members);
        if !foreign || !room || region.epoch < self.oldest || self.shown.contains_key(&region) {
            return false;
        }
        self.shown.insert(region, words).is_none()
    }

    /// Lets go of all regions below `oldest`, which the memory node has retired.
    pub fn retire(&mut self, oldest: Epoch) {
        self.oldest = self.oldest.max(oldest);
        self.own.retain(|epoch, _| *epoch >= self.oldest);
        self.shown.retain(|region, _| region.epoch >= self.oldest);
    }

    /// Takes an operation; false when [`WAITING_MAX`] wait already. It is answered by a later [`Registers::tick`].
    #[must_use]
    pub fn begin(&mut self, op: RegisterOp) -> bool {
        let room = self.waiting.len() < WAITING_MAX;
        if room {
            self.waiting.push(op);
        }
        room
    }

    /// Operations that wait.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Does what can be done, in the order it came, and hands the answers to `answer`.
    pub fn tick(&mut self, clock: &impl Clock, answer: &mut dyn FnMut(RegisterReply)) -> Progress {
        let mut progress = Progress::Idle { next_timer: None };
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|op| match self.attempt(op, clock) {
            Tried::Said(said) => {
                answer(RegisterReply { tag: op.tag(), place: op.place(), boot: self.config.boot, said });
                progress = Progress::Worked;
                false
            }
            Tried::Unanswered => false,
            Tried::Again => {
                progress = Progress::Worked;
                true
            }
            Tried::Until(due) => {
                progress = progress.and(Progress::Idle { next_timer: Some(due) });
                true
            }
        });
        self.waiting = waiting;
        progress
    }

    fn attempt(&mut self, op: &RegisterOp, clock: &impl Clock) -> Tried {
        let Place { region, index } = op.place();
        if index >= self.config.registers || region.owner >= self.config.members {
            return Tried::Said(Said::Refused);
        }
        if region.epoch < self.oldest {
            return Tried::Said(Said::Retired { oldest: self.oldest });
        }
        match op {
            RegisterOp::Write { .. } if region.owner != self.config.me => Tried::Said(Said::Refused),
            RegisterOp::Write { held, .. } => self.write(op.place(), held, clock),
            RegisterOp::Read { .. } => self.read(op.place(), clock),
        }
    }

    fn write(&mut self, place: Place, held: &Held, clock: &impl Clock) -> Tried {
        let Some(own) = self.own.get_mut(&place.region.epoch) else { return Tried::Unanswered };
        let Some(written) = usize::try_from(place.index).ok().and_then(|at| own.written.get_mut(at)) else {
            return Tried::Said(Said::Refused);
        };
        // What is not newer touches no word of it, and need not wait.
        if held.stamp > own.owner.newest(place.index)
            && let Some(last) = *written
        {
            let due = Time(last.0.saturating_add(self.config.cooldown.0));
            if clock.now() < due {
                return Tried::Until(due);
            }
        }
        let before = own.owner.newest(place.index);
        match own.owner.write(place.index, held.stamp, &value_of(held)) {
            Ok(()) => {
                if own.owner.newest(place.index) != before {
                    *written = Some(clock.now());
                }
                Tried::Said(Said::Written)
            }
            Err(_) => Tried::Said(Said::Refused),
        }
    }

    fn read(&self, place: Place, clock: &impl Clock) -> Tried {
        let Place { region, index } = place;
        if region.owner == self.config.me {
            let Some(own) = self.own.get(&region.epoch) else { return Tried::Unanswered };
            return self.copy(&own.words, index, clock);
        }
        self.shown.get(&region).map_or(Tried::Unanswered, |words| self.copy(words, index, clock))
    }

    fn copy<W: Words>(&self, words: &W, index: u32, clock: &impl Clock) -> Tried {
        words.fence(Fence::SeqCst);
        for _ in 0..COPIES_MAX {
            let before = clock.now();
            let copies = self.layout.copy(words, index);
            let taken_ns = clock.now().since(before).0;
            let said = match copies.judge(Pace { taken_ns, delta_ns: self.config.cooldown.0 }) {
                Verdict::Value(entry) => Said::Value(Some(held_of(&entry))),
                Verdict::None => Said::Value(None),
                Verdict::Abuse(_) => Said::Abused,
                Verdict::Retry => continue,
            };
            return Tried::Said(said);
        }
        Tried::Again
    }
}

fn value_of(held: &Held) -> Value {
    let mut value = Value { digest: [0; 32], signature: [0; 64] };
    let to = value.digest.iter_mut().chain(&mut value.signature);
    to.zip(held.value).for_each(|(to, from)| *to = from);
    value
}

fn held_of(entry: &Entry) -> Held {
    let mut held = Held { stamp: entry.k, value: [0; 96] };
    let from = entry.value.digest.iter().chain(&entry.value.signature);
    held.value.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    held
}
