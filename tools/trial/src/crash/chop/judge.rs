//! What a node said and wrote, judged while its tape is read and again after each crash.

use std::collections::{BTreeMap, BTreeSet};

use synod_chopchop::config::Cluster;
use synod_chopchop::message::{ClientMessage, ServerMessage, StoreMessage};
use synod_chopchop::statement::Delivered;
use synod_chopchop::tree::root_commit;
use synod_chopchop::vocabulary::Message;
use synod_crypto::Hash;
use synod_wire::Bytes;

use super::super::lone::Did;
use super::talk::Event;
use crate::oracle::chopchop::{Kept, Promise};
use crate::systems::chopchop::plan::{CLIENT, SERVER, STORE};
use crate::systems::chopchop::sight;

/// What broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// Two statements of one key.
    Conflict(String),
    /// A statement without its record, or one that is taken back.
    Gate(&'static str, String),
}

/// A message and its parity.
type Content = (Vec<u8>, bool);

/// The oracles of one node's life.
#[derive(Clone)]
pub(super) struct Judge {
    cluster: Cluster,
    /// What a server said of each height.
    pub(super) heights: BTreeMap<u64, Delivered>,
    /// The highest height it signed.
    pub(super) highest: u64,
    /// Where it said that clients stand.
    pub(super) standing: BTreeMap<u32, u64>,
    /// The highest checkpoint it called durable.
    pub(super) marked: u64,
    /// Batches it witnessed and did not release.
    pub(super) witnessed: BTreeSet<Hash>,
    pinned: BTreeSet<Hash>,
    marks: u64,
    /// What a client signed under each number.
    contents: BTreeMap<u64, Content>,
    /// What stands under the first half of a root that it was shown.
    shown: BTreeMap<[u8; 16], (u64, Content)>,
    said: Option<Content>,
    promise: Promise,
    /// Statements on the wire.
    pub(super) statements: u64,
    /// What was found.
    pub(super) broken: Vec<Broken>,
}

impl Judge {
    pub(super) fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            heights: BTreeMap::new(),
            highest: 1,
            standing: BTreeMap::new(),
            marked: 0,
            witnessed: BTreeSet::new(),
            pinned: BTreeSet::new(),
            marks: 0,
            contents: BTreeMap::new(),
            shown: BTreeMap::new(),
            said: None,
            promise: Promise::default(),
            statements: 0,
            broken: Vec::new(),
        }
    }

    /// Numbers that a client signed.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.contents.keys().copied()
    }

    fn conflict(&mut self, what: String) {
        self.broken.push(Broken::Conflict(what));
    }

    fn gate(&mut self, checker: &'static str, what: String) {
        self.broken.push(Broken::Gate(checker, what));
    }

    /// Takes one event.
    pub(super) fn see(&mut self, event: &Event) {
        match event {
            Event::Heard(body) => self.heard(body),
            Event::Did(machine, Did::Said(_, body)) => self.says(*machine, body),
            Event::Did(machine, Did::Wrote(record)) => self.writes(*machine, record),
        }
    }

    /// The node comes back: what it has is what it found.
    pub(super) fn reopen<'a>(&mut self, records: impl Iterator<Item = (u8, &'a Bytes)>) {
        self.pinned.clear();
        self.marks = 0;
        self.promise = Promise::default();
        for (machine, record) in records {
            self.writes(machine, record);
        }
    }

    fn writes(&mut self, machine: u8, record: &Bytes) {
        let kept = match machine {
            SERVER => sight::of_server(record),
            STORE => sight::of_store(record),
            CLIENT => {
                self.promise = sight::of_client(record).unwrap_or_default();
                return;
            }
            _ => None,
        };
        match kept {
            Some(Kept::Pinned(digest)) => drop(self.pinned.insert(digest)),
            Some(Kept::Released(digest)) => {
                self.pinned.remove(&digest);
                self.witnessed.remove(&digest);
            }
            Some(Kept::Mark(height)) => self.marks = self.marks.max(height),
            None => {}
        }
    }

    fn says(&mut self, machine: u8, body: &Bytes) {
        match (machine, sight::opened(body)) {
            (STORE, Some(Message::Store(StoreMessage::Shard(shard)))) => {
                self.statements += 1;
                self.witnessed.insert(shard.digest);
                if !self.pinned.contains(&shard.digest) {
                    self.gate("X3", format!("{:?} is witnessed before it is written", shard.digest));
                }
            }
            (SERVER, Some(Message::Server(message))) => self.server(&message),
            (CLIENT, Some(Message::Client(message))) => self.client(&message),
            _ => {}
        }
    }

    fn server(&mut self, message: &ServerMessage) {
        match message {
            ServerMessage::Delivered(verdict) => {
                let said = verdict.statement.clone();
                self.statements += 1;
                self.highest = self.highest.max(said.height);
                if let Some(known) = self.heights.insert(said.height, said.clone())
                    && known != said
                {
                    self.conflict(format!("height {}: {known:?} and {said:?}", said.height));
                }
            }
            ServerMessage::Height(signed) => {
                self.statements += 1;
                self.highest = self.highest.max(signed.statement.height);
            }
            ServerMessage::State(signed) => {
                self.statements += 1;
                let said = &signed.statement;
                let known = self.standing.insert(said.id, said.next_k).unwrap_or(0);
                if said.next_k < known {
                    self.conflict(format!("client {} stands at {known}, then at {}", said.id, said.next_k));
                }
            }
            ServerMessage::Mark(mark) => {
                self.statements += 1;
                self.marked = self.marked.max(mark.height);
                if self.marks < mark.height {
                    let what = format!("height {} is called durable, {} is written", mark.height, self.marks);
                    self.gate("X3", what);
                }
            }
            _ => {}
        }
    }

    fn client(&mut self, message: &ClientMessage) {
        match message {
            ClientMessage::Submit(submit) => {
                let content = (submit.message.to_vec(), submit.parity);
                let held = self.promise.flight.as_ref();
                if held != Some(&(submit.k0, content.0.clone(), content.1)) {
                    self.gate("X3", format!("number {} is submitted before it is written", submit.k0));
                }
                self.said = Some(content.clone());
                self.sign(submit.k0, content);
            }
            ClientMessage::MultiSig { root_commit, .. } => {
                let Some((k, content)) = self.shown.get(root_commit).cloned() else {
                    return self.gate("C-S5", "a root is signed that nobody showed".to_owned());
                };
                if self.promise.next_k <= k {
                    self.gate("X3", format!("number {k} is signed before it is used up"));
                }
                self.sign(k, content);
            }
            _ => {}
        }
    }

    fn sign(&mut self, k: u64, content: Content) {
        self.statements += 1;
        if let Some(known) = self.contents.insert(k, content.clone())
            && known != content
        {
            self.conflict(format!("number {k} stands under {known:?} and under {content:?}"));
        }
    }

    fn heard(&mut self, body: &Bytes) {
        let Some(Message::Client(ClientMessage::Inclusion(shown))) = sight::opened(body) else { return };
        let commit = root_commit(self.cluster.domains(), shown.k, &shown.shape, &shown.root);
        if let (Some(half), Some(content)) = (commit.0.first_chunk(), self.said.clone()) {
            // Shown again later it may be of the message before.
            self.shown.entry(*half).or_insert((shown.k, content));
        }
    }

    /// What the node must still know after a crash: heights, checkpoints and batches of the life before.
    pub(super) fn demand(&mut self, before: &Self, handed_out: &BTreeSet<Hash>) {
        if self.highest < before.highest {
            let what = format!("height {} was signed, {} is there", before.highest, self.highest);
            self.gate("C-S1", what);
        }
        if self.marks < before.marked {
            let what = format!("height {} was called durable, {} is there", before.marked, self.marks);
            self.gate("C-S8", what);
        }
        let lost = before.witnessed.iter().find(|digest| !handed_out.contains(digest));
        if let Some(digest) = lost.filter(|digest| self.witnessed.contains(digest)) {
            self.gate("C-S6", format!("{digest:?} was witnessed and is not handed out"));
        }
        let fell =
            before.standing.iter().find(|(id, next_k)| self.standing.get(id).is_none_or(|now| now < next_k));
        if let Some((id, next_k)) = fell.map(|(id, next_k)| (*id, *next_k)) {
            self.gate("C-S4", format!("client {id} stood at {next_k}, which is forgotten"));
        }
    }

    /// Forgets what must be said again to count: the answers of the new life alone are held against those of the old one.
    pub(super) fn reborn(&self) -> Self {
        Self { highest: 1, standing: BTreeMap::new(), statements: 0, ..self.clone() }
    }
}
