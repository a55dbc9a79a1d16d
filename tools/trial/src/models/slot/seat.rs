//! One replica: its consensus, its user, and what others know of its promises.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use synod_crypto::{Hash, Hasher, Keys};
use synod_machine::{Effect, Event, Job as _, Machine as _, Rng, Time, To, Turn, Wall};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_sim::{Crypto, Keyring};
use synod_ubft::batch::{Auth, Batch, Op, Request, Slot, View};
use synod_ubft::certificate::Checkpoint;
use synod_ubft::replica::{Alarm, Ask, Consensus, Told, Word};
use synod_ubft::stream::Low;
use synod_ubft::{Body, Config, Memory, Parameters, ctb};
use synod_wire::{Bytes, Limits, Wire as _};

use crate::oracle::Breach;

/// Replicas.
pub(super) const N: u8 = 3;
/// The one who lies where one does: the leader of view 1.
pub(super) const LIAR: u8 = 1;
/// Slots that are proposed.
pub(super) const SLOTS: u64 = 2;
/// Events of one step; a machine that does not come to rest is a bug.
const EVENTS_MAX: u32 = 10_000;
/// Longer than any wait of the machine.
const LONG_MS: u64 = 20_000;

/// What a replica says to another, and which number its broadcast has.
pub(super) type Said = (u8, Word);

/// The keys that all runs share.
pub(super) struct Cast(Keyring);

impl Cast {
    pub(super) fn new() -> Self {
        Self(Keyring::new(Crypto::Toy, 1))
    }

    fn keys(&self, own: u8) -> Keys {
        self.0.keys(u64::from(own))
    }

    fn config(&self, own: u8) -> Config {
        let member = |id| Member { key: self.0.public(u64::from(id)), power: 1 };
        let Ok(roster) = Roster::new(Epoch(0), (0..u32::from(N)).map(member).collect()) else {
            unreachable!("three replicas with keys of their own");
        };
        Config {
            cluster: Hash::of(b"synod model slot"),
            epoch: Epoch(0),
            me: NodeId(u32::from(own)),
            roster: Arc::new(roster),
            first_view: View(0),
            memory: vec![Memory { node: NodeId(NodeId::GUESTS.0), boot: 1 }],
            parameters: Parameters { tail: 16, window: 32, ..Parameters::default() },
        }
    }
}

/// What others saw a replica promise and do.
#[derive(Clone, Debug, Default)]
struct Promises {
    certify: BTreeSet<(View, Slot)>,
    commit: BTreeSet<(View, Slot)>,
    signed: BTreeSet<(View, Slot)>,
    shown: BTreeSet<(View, Slot)>,
    low: Slot,
    view: View,
    /// Whether it left a view in which it had promised anything.
    is_tried: bool,
}

/// A replica.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    own: u8,
    lies: bool,
    machine: Consensus,
    now_ms: u64,
    armed: BTreeSet<Alarm>,
    chain: Hash,
    certified: Option<(Slot, Hash)>,
    executed: u64,
    /// What was decided here, and in which view at the latest.
    pub(super) log: BTreeMap<Slot, (Hash, View)>,
    promises: Promises,
    /// What it did that nobody may.
    pub(super) broken: Option<(&'static str, String)>,
}

impl Seat {
    pub(super) fn new(cast: &Cast, own: u8, lies: bool) -> Self {
        let start = Low { low: Slot(0), digest: Hash::ZERO, end: None };
        let Ok(machine) = Consensus::new(Arc::new(cast.config(own)), start) else {
            unreachable!("a sound configuration");
        };
        Self {
            own,
            lies,
            machine,
            now_ms: 1_000,
            armed: BTreeSet::new(),
            chain: Hash::ZERO,
            certified: None,
            executed: 0,
            log: BTreeMap::new(),
            promises: Promises::default(),
            broken: None,
        }
    }

    pub(super) fn begin(&mut self, cast: &Cast, is_slow: bool) -> Vec<Said> {
        let now = Time(self.now_ms * 1_000_000);
        let slow = is_slow.then_some(Event::Input(Ask::SlowOnly));
        let events = [Event::Start, Event::Input(Ask::Pressing(Some(now)))];
        self.run(cast, events.into_iter().chain(slow).collect())
    }

    /// A word comes; one that was broadcast was locked by the third replica too.
    pub(super) fn hear(&mut self, cast: &Cast, from: u8, word: Word) -> Vec<Said> {
        let third = NodeId(u32::from(N - self.own - from));
        let is_cast = matches!(&word, Word::Ctb { .. });
        let mut said = self.run(cast, vec![Event::Message { from: NodeId(u32::from(from)), message: word }]);
        if is_cast {
            let locked = |word: &Word| matches!(word, Word::Ctb { word: ctb::Message::Locked { .. }, .. });
            let echo = said.iter().find(|(_, word)| locked(word)).map(|(_, word)| word.clone());
            let events = echo.map(|message| Event::Message { from: third, message });
            said.extend(self.run(cast, events.into_iter().collect()));
        }
        said
    }

    /// Time passes, and every timer fires.
    pub(super) fn expire(&mut self, cast: &Cast) -> Vec<Said> {
        self.now_ms += LONG_MS;
        let armed = std::mem::take(&mut self.armed);
        let fires = armed.into_iter().filter(|alarm| !matches!(alarm, Alarm::Ctb(..)));
        self.run(cast, fires.map(Event::Timer).collect())
    }

    pub(super) fn may_suspect(&self) -> bool {
        self.armed.contains(&Alarm::Suspect) && !self.machine.is_sealing()
    }

    pub(super) fn suspect(&mut self, cast: &Cast) -> Vec<Said> {
        self.now_ms += LONG_MS;
        self.armed.remove(&Alarm::Suspect);
        self.run(cast, vec![Event::Timer(Alarm::Suspect)])
    }

    pub(super) fn view(&self) -> u64 {
        self.machine.view().0
    }

    pub(super) fn is_sealing(&self) -> bool {
        self.machine.is_sealing()
    }

    /// Whether it left a view in which it had promised something that no checkpoint covered.
    pub(super) fn is_tried(&self) -> bool {
        self.promises.is_tried
    }

    pub(super) fn executed(&self) -> u64 {
        self.executed
    }

    /// Certificates that streams show here: slot, view, digest.
    pub(super) fn commits(&self) -> Vec<(Slot, View, Hash)> {
        let streams = (0..N).filter_map(|of| self.machine.stream(NodeId(u32::from(of))));
        streams.flat_map(|stream| stream.commits().map(|one| (one.slot, one.view, one.digest))).collect()
    }

    /// What stands for all of it: equal names behave alike.
    pub(super) fn digest(&self) -> Hash {
        let mut hasher = Hasher::new("synod model seat");
        hasher.add(format!("{self:?}").as_bytes());
        hasher.finish()
    }

    fn run(&mut self, cast: &Cast, events: Vec<Event<Consensus>>) -> Vec<Said> {
        let mut waiting: VecDeque<Event<Consensus>> = events.into();
        let (mut said, mut steps) = (Vec::new(), 0);
        loop {
            let event = match waiting.pop_front() {
                Some(event) => event,
                None => match self.proposal() {
                    Some(event) => event,
                    None => return said,
                },
            };
            steps += 1;
            assert!(steps < EVENTS_MAX, "a machine does not come to rest");
            let mut effects = Vec::new();
            let mut rng = Rng::new(0, NodeId(0), 0);
            let now = Time(self.now_ms * 1_000_000);
            let mut turn = Turn::new(now, Wall(1_000_000), &mut rng, &mut effects);
            self.machine.step(event, &mut turn);
            self.machine.invariants();
            for effect in effects {
                match effect {
                    Effect::Send { to, message } => self.send(&to, message, &mut said),
                    Effect::Arm { timer, .. } => drop(self.armed.insert(timer)),
                    Effect::Disarm(timer) => drop(self.armed.remove(&timer)),
                    Effect::Compute(job) => {
                        waiting.push_back(Event::Done(job.run(&cast.keys(self.own))));
                    }
                    Effect::Output(told) => waiting.extend(self.told(told).into_iter().map(Event::Input)),
                    _ => {}
                }
            }
        }
    }

    /// The next batch, where this replica leads and slots are left.
    fn proposal(&self) -> Option<Event<Consensus>> {
        let next = self.machine.next().max(self.machine.low().low).0 + self.machine.open();
        if next >= SLOTS || !self.machine.may_propose() {
            return None;
        }
        let id = self.machine.view().0 * SLOTS + next;
        let op = Op::Inline(Bytes::from_static(b"one").try_into().unwrap_or_default());
        let requests = vec![Request { session: 7, id, op, auth: Auth::Heard }];
        let requests = requests.try_into().unwrap_or_default();
        Some(Event::Input(Ask::Propose { time: Wall(1_000_000), requests }))
    }

    fn told(&mut self, told: Told) -> Vec<Ask> {
        match told {
            Told::Judge { view, slot, digest, .. } => vec![Ask::Endorse { view, slot, digest }],
            Told::Decided { slot, digest, .. } => {
                if slot.0 != self.executed {
                    self.breaks("U-S7", format!("{slot:?} is decided behind {}", self.executed));
                }
                self.log.insert(slot, (digest, self.machine.view()));
                self.executed = slot.0 + 1;
                self.chain = Hash::of(&[self.chain.0, digest.0].concat());
                vec![Ask::Executed(Box::new(self.checkpoint()))]
            }
            Told::Certified(certificate) => {
                let Checkpoint { low, log_chain, .. } = certificate.subject;
                if low.0 == self.executed && log_chain != self.chain {
                    self.breaks("U-S7", format!("another state is certified at {low:?}"));
                }
                self.certified = Some((low, log_chain));
                Vec::new()
            }
            Told::Behind { to, .. } => match self.certified {
                Some((low, chain)) if low == to => {
                    (self.executed, self.chain) = (low.0, chain);
                    vec![Ask::Resume(low)]
                }
                _ => Vec::new(),
            },
            Told::Broken(slot) => {
                self.breaks("U-S7", format!("two batches are decided for {slot:?}"));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            epoch: Epoch(0),
            low: Slot(self.executed),
            log_chain: self.chain,
            exec_chain: self.chain,
            config: Hash::ZERO,
            end: None,
        }
    }

    fn breaks(&mut self, checker: &'static str, what: String) {
        if !self.lies && self.broken.is_none() {
            self.broken = Some((checker, format!("replica {}: {what}", self.own)));
        }
    }

    fn send(&mut self, to: &To, mut word: Word, said: &mut Vec<Said>) {
        self.watch(&word);
        if self.lies {
            lie(&mut word);
        }
        let receivers = (0..N).filter(|id| *id != self.own && is_for(to, *id));
        said.extend(receivers.map(|id| (id, word.clone())));
    }

    /// U-S8, of what it says.
    fn watch(&mut self, word: &Word) {
        let (own, said) = (self.own, &mut self.promises);
        match word {
            Word::WillCertify { view, slot, .. } | Word::WillCommit { view, slot, .. } => {
                let is_late = *view < said.view;
                let is_commit = matches!(word, Word::WillCommit { .. });
                let set = if is_commit { &mut said.commit } else { &mut said.certify };
                set.insert((*view, *slot));
                if is_late {
                    self.breaks("U-S8", format!("promises in {view:?}, which it left"));
                }
            }
            Word::Certify { view, slot, .. } => drop(said.signed.insert((*view, *slot))),
            Word::Ctb { broadcaster, word: ctb::Message::Lock { body, .. } } if *broadcaster == own => {
                match Body::decode(body.bytes().clone(), &Limits::default()) {
                    Ok(Body::Commit(shown)) => {
                        said.shown.insert((shown.subject.view, shown.subject.slot));
                    }
                    Ok(Body::Checkpoint(shown)) => said.low = said.low.max(shown.subject.low),
                    Ok(Body::SealView(to)) => self.seals(to),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn seals(&mut self, to: View) {
        let said = &mut self.promises;
        said.view = to;
        said.is_tried |= said.certify.iter().chain(&said.commit).any(|one| one.0 < to && one.1 >= said.low);
        let owes = |promised: &BTreeSet<(View, Slot)>, kept: &BTreeSet<(View, Slot)>| {
            promised.iter().find(|one| one.0 < to && one.1 >= said.low && !kept.contains(one)).copied()
        };
        let owed = owes(&said.commit, &said.shown).or_else(|| owes(&said.certify, &said.signed));
        if let Some((view, slot)) = owed {
            self.breaks(
                "U-S8",
                format!("leaves for {to:?} and owes what it promised of {slot:?} in {view:?}"),
            );
        }
    }
}

fn is_for(to: &To, id: u8) -> bool {
    let id = NodeId(u32::from(id));
    match to {
        To::Node(node) => *node == id,
        To::Set(set) => set.contains(id),
    }
}

/// Whether a word is carried by the network of the model: of broadcasts only what is broadcast.
pub(super) fn is_carried(word: &Word) -> bool {
    !matches!(word, Word::Ctb { word, .. } if !matches!(word, ctb::Message::Lock { .. }))
}

/// The liar shows only the last of its certificates, and proposes nothing of what it must.
fn lie(word: &mut Word) {
    let Word::Ctb { word: ctb::Message::Lock { body, .. }, .. } = word else { return };
    let told = match Body::decode(body.bytes().clone(), &Limits::default()) {
        Ok(Body::NewView { view, left }) => {
            let last: Vec<_> = left.iter().last().cloned().into_iter().collect();
            Body::NewView { view, left: last.try_into().unwrap_or_default() }
        }
        Ok(Body::Prepare { view, slot, .. }) if view > View(0) => {
            let batch = Batch {
                origin: view,
                time_ms: 1_000_000,
                requests: Vec::new().try_into().unwrap_or_default(),
            };
            Body::Prepare { view, slot, batch }
        }
        _ => return,
    };
    if let Ok(told) = told.encode().try_into() {
        *body = told;
    }
}

/// What two seats must not both be.
pub(super) fn judge(seats: &[&Seat]) -> Option<Breach> {
    if let Some((checker, what)) = seats.iter().find_map(|seat| seat.broken.clone()) {
        return Some(Breach { checker, what });
    }
    for one in seats {
        for (slot, (digest, view)) in &one.log {
            for other in seats {
                if other.log.get(slot).is_some_and(|(found, _)| found != digest) {
                    let what = format!("{slot:?} is decided differently by {} and {}", one.own, other.own);
                    return Some(Breach { checker: "U-S7", what });
                }
                let replaced = |at: &(Slot, View, Hash)| at.0 == *slot && at.1 > *view && at.2 != *digest;
                if other.commits().iter().any(replaced) {
                    let what =
                        format!("{slot:?} was executed by {} and another batch is certified later", one.own);
                    return Some(Breach { checker: "U-S9", what });
                }
            }
        }
    }
    None
}
