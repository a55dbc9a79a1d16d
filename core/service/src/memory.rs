//! A memory node: registers that outlive replicas, in a failure domain of their own (uBFT, section 6.1).
//!
//! *What it gives.* Each member owns a region of registers per epoch. Everybody reads, the owner alone writes, stamps of a register
//! rise; a write that is said again is answered again. It knows members, owners and bytes: no protocol and no signature. It fails
//! only by stopping; one that comes back is empty and says so by its boot number, which is recorded before it answers anybody.
//!
//! *Epochs.* `oldest` is the (f + 1)-th highest epoch that members asked about, so one correct member is that far. It and the next
//! are served. Below it everything is answered `Retired`, never as empty: a member that lags would take an empty register for one
//! that nobody wrote (E37). Above them nothing is answered, so that a liar cannot retire anything alone.
//!
//! *Bounds.* 2 n regions of `registers` each, made when they are first written; `quota` operations of a member per millisecond,
//! beyond which it is not answered and asks again.

use std::collections::BTreeMap;

use synod_machine::register::{Held, Place, Region, RegisterOp, RegisterReply, Said};
use synod_machine::{
    Bounded, Event, Log, Machine, Message, Never, Queue, QueueSpec, Record, Recover, Span, Time, Turn,
    Unrecoverable,
};
use synod_quorum::{Epoch, Model, NodeId, Quorums};
use synod_wire::{Draw, Drawn, Malformed, Reader, Wire, Writer, wire};

/// Stamps and epochs lie below: adding to one cannot overflow.
pub const STAMP_END: u64 = 1 << 62;
/// Registers of a region at most.
pub const REGISTERS_MAX: u32 = 1 << 20;
/// The span that the quota is for.
const QUOTA_SPAN: Span = Span::millis(1);

synod_machine::faults! {
    /// Wrote into another member's region.
    NotItsRegion = 4_230, "not_its_region";
}

/// What a memory node must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// Members of the cluster that uses it.
    pub members: u32,
    /// How many of them may be faulty.
    pub faulty: u32,
    /// Registers of a region.
    pub registers: u32,
    /// Operations of a member that are served in a millisecond.
    pub quota: u32,
}

impl MemoryConfig {
    /// The thresholds of the members.
    ///
    /// # Errors
    /// Members that cannot tolerate so many faults, no register or too many, or no quota, in words.
    pub fn quorums(&self) -> Result<Quorums, &'static str> {
        if self.registers == 0 || self.registers > REGISTERS_MAX {
            return Err("a region has between 1 and 2^20 registers");
        }
        if self.quota == 0 {
            return Err("a quota of nothing serves nobody");
        }
        Quorums::with_faults(Model::Majority, self.members, self.faulty)
            .map_err(|_| "2f + 1 members at least use a memory node")
    }
}

wire! {
    /// How often a memory node was started.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Boot(pub u64);
}

impl Record for Boot {}

/// What members say to a memory node, and what it says: bare operations and answers, as the runtimes frame them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryWord {
    /// A member's.
    Op(RegisterOp),
    /// The answer.
    Reply(RegisterReply),
}

impl Wire for MemoryWord {
    fn write(&self, out: &mut Writer) {
        match self {
            Self::Op(op) => op.write(out),
            Self::Reply(reply) => reply.write(out),
        }
    }

    /// Reads what members say, for nothing else comes to a memory node.
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        RegisterOp::read(input).map(Self::Op)
    }
}

/// What comes to a memory node.
impl Draw for MemoryWord {
    fn draw(from: &mut Drawn) -> Self {
        Self::Op(RegisterOp::draw(from))
    }
}

impl Message for MemoryWord {
    fn queue(&self) -> Queue {
        Queue::CONTROL
    }
}

/// What is left of a member's quota.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    since: Time,
    used: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct MemoryNode {
    config: MemoryConfig,
    quorums: Quorums,
    boot: u64,
    /// The highest epoch that each member asked about.
    wanted: Vec<Epoch>,
    oldest: Epoch,
    regions: BTreeMap<Region, Vec<Option<Held>>>,
    allowances: Vec<Allowance>,
}

impl MemoryNode {
    /// How often it was started, this time included.
    #[must_use]
    pub const fn boot(&self) -> u64 {
        self.boot
    }

    /// The oldest epoch that is served.
    #[must_use]
    pub const fn oldest(&self) -> Epoch {
        self.oldest
    }

    /// Bytes of registers that are held.
    #[must_use]
    pub fn register_bytes(&self) -> u64 {
        let registers: usize = self.regions.values().map(Vec::len).sum();
        (registers * size_of::<Option<Held>>()) as u64
    }

    /// Whether a member may still ask in this millisecond.
    fn allows(&mut self, member: usize, now: Time) -> bool {
        let Some(allowance) = self.allowances.get_mut(member) else { return false };
        if now.since(allowance.since) >= QUOTA_SPAN {
            *allowance = Allowance { since: now, used: 0 };
        }
        allowance.used = allowance.used.saturating_add(1);
        allowance.used <= self.config.quota
    }

    /// Notes how far a member is, and lets go of what f + 1 have left behind.
    fn want(&mut self, member: usize, epoch: Epoch) {
        let Some(wanted) = self.wanted.get_mut(member).filter(|wanted| **wanted < epoch) else { return };
        *wanted = epoch;
        let mut all = self.wanted.clone();
        all.sort_unstable_by(|a, b| b.cmp(a));
        // One of the f + 1 that are at least so far is correct.
        let place = usize::try_from(self.quorums.one_correct()).unwrap_or(usize::MAX).saturating_sub(1);
        if let Some(oldest) = all.get(place).filter(|oldest| **oldest > self.oldest) {
            self.oldest = *oldest;
            self.regions.retain(|region, _| region.epoch >= *oldest);
        }
    }

    fn serve(&mut self, from: NodeId, op: &RegisterOp, turn: &mut Turn<'_, Self>) -> Option<Said> {
        let member = usize::try_from(from.0).ok().filter(|member| *member < self.wanted.len())?;
        if !self.allows(member, turn.now()) {
            return None;
        }
        let Place { region, index } = op.place();
        if index >= self.config.registers || u32::from(region.owner) >= self.config.members {
            return Some(Said::Refused);
        }
        self.want(member, region.epoch);
        if region.epoch < self.oldest {
            return Some(Said::Retired { oldest: self.oldest });
        }
        if region.epoch.0 > self.oldest.0.saturating_add(1) {
            return None;
        }
        let index = usize::try_from(index).ok()?;
        match op {
            RegisterOp::Read { .. } => {
                let held = self.regions.get(&region).and_then(|registers| *registers.get(index)?);
                Some(Said::Value(held))
            }
            RegisterOp::Write { held, .. } => {
                if from != NodeId(u32::from(region.owner)) {
                    turn.blame(from, Fault::NotItsRegion);
                    return Some(Said::Refused);
                }
                Some(self.write(region, index, *held))
            }
        }
    }

    fn write(&mut self, region: Region, index: usize, held: Held) -> Said {
        let count = usize::try_from(self.config.registers).unwrap_or(0);
        let registers = self.regions.entry(region).or_insert_with(|| vec![None; count]);
        let Some(register) = registers.get_mut(index) else { return Said::Refused };
        match register {
            Some(old) if *old == held => Said::Written,
            Some(old) if old.stamp >= held.stamp => Said::Refused,
            _ if held.stamp == 0 || held.stamp >= STAMP_END => Said::Refused,
            _ => {
                *register = Some(held);
                Said::Written
            }
        }
    }
}

impl Machine for MemoryNode {
    type Input = Never;
    type Message = MemoryWord;
    type Timer = u8;
    type Record = Boot;
    type Job = Never;
    type Output = Never;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => turn.persist(Boot(self.boot)),
            Event::Message { from, message: MemoryWord::Op(op) } => {
                if let Some(said) = self.serve(from, &op, turn) {
                    let reply = RegisterReply { tag: op.tag(), place: op.place(), boot: self.boot, said };
                    turn.send(from, MemoryWord::Reply(reply));
                }
            }
            Event::Input(never) | Event::Done(never) => match never {},
            Event::Message { .. } | Event::Timer(_) | Event::Loaded { .. } | Event::Link { .. } => {}
        }
    }

    fn invariants(&self) {
        let two = |region: &Region| {
            region.epoch.0 >= self.oldest.0 && region.epoch.0 <= self.oldest.0.saturating_add(1)
        };
        assert!(self.regions.keys().all(two), "two epochs are served");
    }
}

impl Bounded for MemoryNode {
    fn bytes(&self) -> u64 {
        self.register_bytes() + u64::from(self.config.members) * 64
    }

    fn bytes_max(&self) -> u64 {
        let registers = u64::from(self.config.members) * u64::from(self.config.registers);
        2 * registers * size_of::<Option<Held>>() as u64 + u64::from(self.config.members) * 64
    }
}

impl Recover for MemoryNode {
    type Config = MemoryConfig;

    fn queues(_: &MemoryConfig) -> Vec<QueueSpec> {
        vec![QueueSpec::CONTROL]
    }

    fn recover(config: MemoryConfig, log: Log<'_, Boot>) -> Result<Self, Unrecoverable> {
        let quorums = config.quorums().map_err(|why| Unrecoverable(why.to_owned()))?;
        let boot = log.records.map(|boot| boot.0).max().unwrap_or(0).saturating_add(1);
        let members = usize::try_from(config.members).unwrap_or(usize::MAX);
        Ok(Self {
            config,
            quorums,
            boot,
            wanted: vec![Epoch(0); members],
            oldest: Epoch(0),
            regions: BTreeMap::new(),
            allowances: vec![Allowance { since: Time::ZERO, used: 0 }; members],
        })
    }

    fn snapshot(&self, put: &mut dyn FnMut(Boot)) {
        put(Boot(self.boot));
    }
}
