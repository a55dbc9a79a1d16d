//! Replicas with an application, and clients: what was executed is compared here, and what clients believe is looked up in it.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::{Hash, Keys, Scope, Seed, Signature, merkle};
use synod_machine::{
    Condition, Effect, Event, Job as _, Log, Machine as _, Recover as _, Rng, Span, Time, To, Turn, Wall,
};
use synod_quorum::{Epoch, NodeId};
use synod_ubft::batch::{INLINE_MAX, Slot};
use synod_ubft::client::{self, Client, ClientConfig};
use synod_ubft::message::{ClientStatement, Message};
use synod_ubft::replica::{Incarnation, Input, Output, Replica, ReplicaConfig};
use synod_ubft::sessions::SessionLimits;
use synod_wire::{Blob, Bytes};

use crate::group::config;
use crate::net::{Net, Seen};
use crate::world::{TAIL, keys};

/// An application: it counts, and answers with the count and the operation.
#[derive(Clone, Debug, Default)]
struct App {
    done: Vec<(u64, u64, Bytes)>,
    times: Vec<Wall>,
    /// Answers with something else.
    is_broken: bool,
    /// Until it takes another state.
    breaks_once: bool,
    /// Chunks of snapshots, by slot.
    kept: BTreeMap<Slot, Vec<Bytes>>,
    /// Chunks that were installed.
    installed: u64,
    /// Rows are let go of, but for the newest.
    is_brief: bool,
    /// So many were.
    gone: usize,
}

/// Bytes of a chunk, about: several make a state.
const CHUNK: usize = 200;

/// Newest rows that a brief application has at least.
const BRIEF: usize = 64;

impl App {
    /// Requests that were executed.
    fn count(&self) -> usize {
        self.gone + self.done.len()
    }

    /// Those from a place on, up to another, as far as they are there.
    fn rows(&self, from: usize, to: usize) -> &[(u64, u64, Bytes)] {
        &self.done[from.saturating_sub(self.gone)..to.saturating_sub(self.gone)]
    }

    /// Lets rows go, at places that depend on nothing but their number.
    fn shorten(&mut self) {
        if self.is_brief && self.done.len() >= 2 * BRIEF {
            self.done.drain(..BRIEF);
            self.times.drain(..self.times.len().saturating_sub(1));
            self.gone += BRIEF;
        }
    }

    fn chunks(&self) -> Vec<Bytes> {
        let mut chunks = vec![Vec::new()];
        for (session, id, op) in &self.done {
            let length = u32::try_from(op.len()).expect("short").to_le_bytes();
            let row = [&session.to_le_bytes()[..], &id.to_le_bytes(), &length, op].concat();
            if chunks.last().is_some_and(|chunk| chunk.len() > CHUNK) {
                chunks.push(Vec::new());
            }
            chunks.last_mut().expect("there is one").extend(row);
        }
        chunks.into_iter().map(Bytes::from).collect()
    }

    fn restore(&mut self, index: u32, chunk: &[u8]) {
        assert!(!self.is_brief, "what is gone is in no state");
        if index == 0 {
            (self.done, self.times) = (Vec::new(), Vec::new());
            self.is_broken &= !self.breaks_once;
        }
        let mut rest = chunk;
        while let Some((head, after)) = rest.split_first_chunk::<20>() {
            let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight"));
            let length = u32::from_le_bytes(head[16..].try_into().expect("four"));
            let (op, after) = after.split_at(usize::try_from(length).expect("small"));
            self.done.push((number(0), number(8), Bytes::copy_from_slice(op)));
            rest = after;
        }
    }
}

struct Seat {
    client: Client,
    keys: Keys,
    again: Option<Time>,
    pub(crate) told: Vec<client::Output>,
}

/// See the module.
pub(crate) struct Town {
    pub(crate) n: u32,
    pub(crate) net: Net<Replica>,
    apps: BTreeMap<NodeId, App>,
    clients: BTreeMap<NodeId, Seat>,
    pub(crate) liars: BTreeSet<NodeId>,
    pub(crate) told: Vec<(NodeId, Output)>,
    next: u64,
    pub(crate) tweak: fn(&mut ReplicaConfig),
    /// What is said, where it is written down.
    pub(crate) lines: Option<Vec<String>>,
}

pub(crate) fn client_id(at: u32) -> NodeId {
    NodeId(NodeId::GUESTS.0 + 1 + at)
}

fn seed_of(at: u32) -> Seed {
    Seed::new([u8::try_from(100 + at).expect("few"); 32])
}

impl Town {
    pub(crate) fn new(n: u32, clients: u32, seed: u64, tweak: fn(&mut ReplicaConfig)) -> Self {
        let mut settings = Self::settings(NodeId(0), n);
        tweak(&mut settings);
        let specs = Replica::queues(&settings);
        let mut town = Self {
            n,
            net: Net::new(n, specs, (n - 1) * TAIL, seed),
            apps: (0..n).map(|id| (NodeId(id), App::default())).collect(),
            clients: BTreeMap::new(),
            liars: BTreeSet::new(),
            told: Vec::new(),
            next: 0,
            tweak,
            lines: None,
        };
        (0..n).for_each(|id| town.start(id, &[]));
        for at in 0..clients {
            let config = ClientConfig {
                config: config(NodeId(0), n),
                key: seed_of(at).public(),
                nonce: 1,
                session_window: SessionLimits::default().session_window,
                retry: Span::millis(10),
                deadline: Span::secs(60),
            };
            let log = Log { condition: Condition::Clean, records: &mut std::iter::empty() };
            let client = Client::recover(config, log).expect("sound");
            let keys = Keys::ed25519(&seed_of(at), [8; 32]);
            town.clients.insert(client_id(at), Seat { client, keys, again: None, told: Vec::new() });
            town.step_client(client_id(at), Event::Start);
        }
        town
    }

    pub(crate) fn settings(me: NodeId, n: u32) -> ReplicaConfig {
        ReplicaConfig {
            config: config(me, n),
            sessions: SessionLimits::default(),
            archive_bytes_max: 1 << 20,
            fast_path: true,
        }
    }

    /// Starts a replica over what it persisted.
    pub(crate) fn start(&mut self, id: u32, log: &[Incarnation]) {
        self.start_over(id, log, Condition::Clean);
    }

    fn start_over(&mut self, id: u32, log: &[Incarnation], condition: Condition) {
        let mut settings = Self::settings(NodeId(id), self.n);
        (self.tweak)(&mut settings);
        let log = Log { condition, records: &mut log.iter().copied() };
        let replica = Replica::recover(settings, log).expect("sound");
        self.net.start(NodeId(id), replica, keys(NodeId(id)));
        self.watch();
    }

    /// A replica is killed and started again over its journal: all else is forgotten.
    pub(crate) fn restart(&mut self, id: u32) {
        let log = self.net.persisted.get(&NodeId(id)).cloned().unwrap_or_default();
        self.apps.insert(NodeId(id), App::default());
        self.liars.insert(NodeId(id));
        self.start(id, &log);
    }

    /// The same, and its journal is damaged: nothing of it can be read.
    pub(crate) fn restart_damaged(&mut self, id: u32) {
        self.apps.insert(NodeId(id), App::default());
        self.liars.insert(NodeId(id));
        self.net.persisted.remove(&NodeId(id));
        self.start_over(id, &[], Condition::Damaged);
    }

    /// Chunks of snapshots that a replica's application took over.
    pub(crate) fn installed(&self, id: u32) -> u64 {
        self.apps[&NodeId(id)].installed
    }

    /// Whether a replica takes part, as it said last.
    pub(crate) fn takes_part(&self, id: u32) -> bool {
        let said = self.told.iter().rev().find_map(|(of, told)| match told {
            Output::Ready(ready) if *of == NodeId(id) => Some(*ready),
            _ => None,
        });
        said == Some(true)
    }

    /// Waits until a replica that was started again takes part, and counts it among the correct ones.
    pub(crate) fn rejoined(&mut self, id: u32, most: Span) -> Span {
        let (start, end) = (self.net.now, self.net.after(most));
        while !self.takes_part(id) {
            assert!(self.net.now < end, "not back in {most}: {}", self.describe());
            self.pass(Span::millis(5));
        }
        self.liars.remove(&NodeId(id));
        self.net.now.since(start)
    }

    pub(crate) fn describe(&self) -> String {
        let one = |(id, one): (&NodeId, &Replica)| {
            let consensus = one.consensus().map(|one| (one.view(), one.next(), one.low().low, one.is_slow()));
            format!(
                "{id} life {} {:?} executed {:?} snapshot {:?} consensus {consensus:?}; ",
                one.incarnation(),
                one.configuration(),
                one.executed(),
                one.snapshotted()
            )
        };
        self.net.machines.iter().map(one).collect::<String>() + &format!("{:?}", self.net.rules)
    }

    pub(crate) fn break_app_once(&mut self, id: u32) {
        let app = self.apps.get_mut(&NodeId(id)).expect("a replica");
        (app.is_broken, app.breaks_once) = (true, true);
    }

    pub(crate) fn break_app(&mut self, id: u32) {
        self.apps.get_mut(&NodeId(id)).expect("a replica").is_broken = true;
    }

    pub(crate) fn of(&self, id: u32) -> &Replica {
        &self.net.machines[&NodeId(id)]
    }

    pub(crate) fn count(&self, rule: &str) -> u64 {
        self.net.rules.get(rule).copied().unwrap_or(0)
    }

    fn step_client(&mut self, id: NodeId, event: Event<Client>) {
        let now = self.net.now;
        let mut rng = Rng::new(1, id, 0);
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let seat = self.clients.get_mut(&id).expect("a client");
            let mut effects = Vec::new();
            seat.client.step(event, &mut Turn::new(now, Wall(now.0 / 1_000_000), &mut rng, &mut effects));
            for effect in effects {
                match effect {
                    Effect::Send { to: To::Node(to), message } => {
                        if let Some(lines) = &mut self.lines {
                            lines.push(format!("c0 -> {to} {}", crate::golden::line(&message)));
                        }
                        self.net.say(id, to, message);
                    }
                    Effect::Arm { after, .. } => seat.again = Some(now + after),
                    Effect::Compute(job) => events.push(Event::Done(job.run(&seat.keys))),
                    Effect::Output(output) => seat.told.push(output),
                    Effect::Blame { peer, fault } => self.net.blamed.push((id, peer, fault.name)),
                    other => unreachable!("clients do nothing else: {other:?}"),
                }
            }
        }
    }

    fn watch(&mut self) {
        while !self.net.seen.is_empty() || !self.net.guests.is_empty() {
            for (from, to, message) in std::mem::take(&mut self.net.guests) {
                if self.clients.contains_key(&to) {
                    self.step_client(to, Event::Message { from, message });
                }
            }
            for seen in std::mem::take(&mut self.net.seen) {
                match seen {
                    Seen::Told { id, output } => self.told(id, output),
                    Seen::Sent { from, message } => {
                        if let Some(lines) = &mut self.lines {
                            lines.push(format!("{from} says {}", crate::golden::line(&message)));
                        }
                    }
                }
            }
        }
    }

    fn told(&mut self, id: NodeId, output: Output) {
        match output {
            Output::Execute { slot, time, requests, .. } => {
                let app = self.apps.get_mut(&id).expect("a replica");
                assert!(app.times.last().is_none_or(|last| *last <= time), "time goes on");
                app.times.push(time);
                let mut replies = Vec::new();
                for request in requests {
                    let key = (request.session, request.id);
                    let is_new = app.done.iter().all(|(session, id, _)| (*session, *id) != key);
                    assert!(is_new, "U-S14: {id} executed {key:?} twice");
                    app.done.push((request.session, request.id, request.op.clone()));
                    app.shorten();
                    let count = if app.is_broken { 0 } else { app.count() as u64 };
                    replies.push(Bytes::from([&count.to_le_bytes()[..], &request.op].concat()));
                }
                self.net.input(id, Input::Executed { slot, replies });
                self.compare(id);
            }
            Output::Query { guest, id: number, question } => {
                let app = &self.apps[&id];
                let value = (question.as_ref() == b"count")
                    .then(|| Bytes::copy_from_slice(&(app.done.len() as u64).to_le_bytes()));
                self.net.input(id, Input::Answered { guest, id: number, value });
            }
            Output::TakeSnapshot { low } => {
                let app = self.apps.get_mut(&id).expect("a replica");
                let chunks = app.chunks();
                let leaves = chunks.iter().map(|chunk| merkle::leaf(chunk)).collect();
                app.kept.insert(low, chunks);
                self.net.input(id, Input::Taken { low, leaves });
            }
            Output::DropSnapshot { low } => {
                let app = self.apps.get_mut(&id).expect("a replica");
                assert!(app.kept.remove(&low).is_some(), "what is dropped was kept");
            }
            Output::NeedChunk { peer, low, index } => {
                let chunks = self.apps[&id].kept.get(&low);
                let at = usize::try_from(index).expect("small");
                let bytes = chunks.and_then(|chunks| chunks.get(at)).cloned();
                self.net.input(id, Input::Chunk { peer, low, index, bytes });
            }
            Output::Install { low, index, count, chunk } => {
                let app = self.apps.get_mut(&id).expect("a replica");
                app.restore(index, &chunk);
                app.installed += u64::from(count > 0);
                if index + 1 >= count {
                    self.net.input(id, Input::Installed { low });
                    self.compare(id);
                }
            }
            other => self.told.push((id, other)),
        }
    }

    /// U-S7: correct replicas execute the same.
    fn compare(&self, id: NodeId) {
        let own = &self.apps[&id];
        for (other, app) in self.apps.iter().filter(|(other, _)| !self.liars.contains(other)) {
            let least = own.count().min(app.count());
            let from = least.saturating_sub(4).max(own.gone).max(app.gone);
            if !self.liars.contains(&id) && from <= least {
                assert_eq!(own.rows(from, least), app.rows(from, least), "U-S7: {id} and {other}");
            }
        }
    }

    /// Whether all applications that executed as much executed the same, to the last word.
    pub(crate) fn compare_all(&self) -> bool {
        let most = self.apps.values().map(|app| app.done.len()).max().unwrap_or(0);
        let mut whole = self.apps.values().filter(|app| app.done.len() == most);
        let first = whole.next().map(|app| &app.done);
        whole.all(|app| Some(&app.done) == first)
    }

    /// Lets so much time pass.
    pub(crate) fn pass(&mut self, span: Span) {
        let end = self.net.after(span);
        for _ in 0..2_000_000_u64 {
            self.watch();
            if self.net.turn() {
                continue;
            }
            let next = self.clients.iter().filter_map(|(id, seat)| Some((seat.again?, *id))).min();
            match next.filter(|(at, _)| *at <= end) {
                Some((at, id)) if !self.net.tick(Time(at.0.saturating_sub(1))) => {
                    self.net.now = self.net.now.max(at);
                    self.clients.get_mut(&id).expect("a client").again = None;
                    self.step_client(id, Event::Timer(client::Retry));
                }
                Some(_) => {}
                None if self.net.tick(end) => {}
                None => {
                    self.net.now = end;
                    return;
                }
            }
        }
        unreachable!("it never ends");
    }

    pub(crate) fn call(&mut self, at: u32, op: &str) -> u64 {
        self.next += 1;
        let op = Bytes::copy_from_slice(op.as_bytes());
        self.step_client(client_id(at), Event::Input(client::Input::Call { ticket: self.next, op }));
        self.next
    }

    pub(crate) fn read(&mut self, at: u32, question: &str) -> u64 {
        self.next += 1;
        let question = Bytes::copy_from_slice(question.as_bytes());
        self.step_client(client_id(at), Event::Input(client::Input::Read { ticket: self.next, question }));
        self.next
    }

    pub(crate) fn result(&self, ticket: u64) -> Option<Bytes> {
        self.clients.values().flat_map(|seat| &seat.told).find_map(|told| match told {
            client::Output::Done { ticket: of, result } if *of == ticket => Some(result.clone()),
            _ => None,
        })
    }

    pub(crate) fn is_ready(&self, at: u32) -> bool {
        self.session(at).is_some()
    }

    /// The name of a client's session, once it is open.
    pub(crate) fn session(&self, at: u32) -> Option<u64> {
        self.clients[&client_id(at)].told.iter().find_map(|told| match told {
            client::Output::Ready(session) => Some(*session),
            _ => None,
        })
    }

    /// Sessions are open.
    pub(crate) fn open(&mut self) {
        for _ in 0..400 {
            let count = u32::try_from(self.clients.len()).expect("few");
            if (0..count).all(|at| self.is_ready(at)) {
                return;
            }
            self.pass(Span::millis(5));
        }
        unreachable!("no session: {:?}", self.net.rules);
    }

    /// Calls, waits for the result, and checks that it is of the place where the call was executed.
    pub(crate) fn ask(&mut self, at: u32, op: &str, most: Span) {
        let ticket = self.call(at, op);
        let end = self.net.after(most);
        while self.result(ticket).is_none() {
            assert!(self.net.now < end, "no result of {op} in {most}: {:?} {:?}", self.net.rules, self.told);
            self.pass(Span::millis(1));
        }
        let result = self.result(ticket).expect("a result");
        let (count, said) = result.split_first_chunk::<8>().expect("a count");
        let place = usize::try_from(u64::from_le_bytes(*count)).expect("few");
        assert_eq!(said, op.as_bytes());
        let is_it = |app: &App| {
            place.checked_sub(1).and_then(|at| app.done.get(at)).is_some_and(|(_, _, done)| done == said)
        };
        assert!(
            self.apps.iter().any(|(id, app)| !self.liars.contains(id) && is_it(app)),
            "a result of nothing"
        );
    }

    pub(crate) fn executed(&self, id: u32) -> usize {
        self.apps[&NodeId(id)].count()
    }

    /// Applications keep their newest rows alone: for runs that are long.
    pub(crate) fn be_brief(&mut self) {
        self.apps.values_mut().for_each(|app| app.is_brief = true);
    }

    /// Results and refusals that a client has been told since it was asked last.
    pub(crate) fn take_results(&mut self, at: u32) -> (usize, usize) {
        let seat = self.clients.get_mut(&client_id(at)).expect("a client");
        let told = std::mem::take(&mut seat.told);
        let done = told.iter().filter(|told| matches!(told, client::Output::Done { .. })).count();
        let refused = told.iter().filter(|told| matches!(told, client::Output::Refused { .. })).count();
        (done, refused)
    }

    pub(crate) fn say(&mut self, from: NodeId, to: u32, message: Message) {
        self.net.say(from, NodeId(to), message);
    }

    /// An operation with its client's signature.
    pub(crate) fn signed(
        &self,
        at: u32,
        (session, id): (u64, u64),
        op: &'static str,
    ) -> (Blob<INLINE_MAX>, Box<Signature>) {
        let op = Bytes::from_static(op.as_bytes());
        let statement = ClientStatement::Asked { session, id, op: Hash::of(&op) };
        let scope = Scope { cluster: config(NodeId(0), self.n).cluster, epoch: Epoch(0) };
        let keys = &self.clients[&client_id(at)].keys;
        let signature = keys.sign(scope, NodeId::GUESTS, statement).signature;
        (op.try_into().expect("short"), Box::new(signature))
    }

    pub(crate) fn chains(&self, id: u32) -> (Hash, Hash) {
        self.of(id).chains()
    }
}
