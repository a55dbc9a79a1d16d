//! Retrieval: bodies for the server, from memory, disk or a witness; and pieces for other stores (paper step 14).

use synod_crypto::Hash;
use synod_machine::{Span, Turn};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes};

use super::job::{Task, Why};
use super::pull::{Fetch, PARALLEL, Took};
use super::record::{Ordered, StoreRecord};
use super::{CACHED, Held, Stage, Store, StoreOutput, StoreTimer, Waiter};
use crate::content::AnyBatch;
use crate::fault::Fault;
use crate::message::{PIECE_MAX, Piece, Pull, StoreMessage};
use crate::statement::Witness;
use crate::trace::{Note, NoteName, Rule};

/// Pulls that wait for one blob.
const WAITERS_MAX: usize = 256;
/// Bodies that are read at a time for one server: as many as it may pull, and those it has pulled elsewhere meanwhile.
const READ_FOR_PEER: usize = 2 * PARALLEL;
/// Patience with the sources of a pull is doubled this often at most.
const DOUBLINGS: u32 = 6;

impl Store {
    /// The server wants a batch.
    pub(super) fn on_need(&mut self, digest: Hash, turn: &mut Turn<'_, Self>) {
        if let Some(held) = self.held.get(&digest) {
            let (name, body) = (held.name, held.body.clone());
            match body {
                Some(body) => self.give(digest, body, turn),
                None => self.load(name, Waiter::Server(digest), turn),
            }
        } else if let Some(fetch) = self.pulling.get_mut(&digest) {
            fetch.needed = true;
            self.settle_gone(turn);
        }
    }

    /// Gives a batch to the server. It is on disk by now; whoever uploaded it hears of its delivery.
    fn give(&mut self, digest: Hash, body: Bytes, turn: &mut Turn<'_, Self>) {
        self.pin(&digest, turn);
        let Some(held) = self.held.get(&digest) else { return };
        let batch = AnyBatch { header: held.header.clone(), body };
        turn.output(StoreOutput::Have { digest, batch, brokers: held.uploaders.clone() });
        if let (Some(height), Some(_)) = (held.height, held.charged) {
            self.persist(StoreRecord::Ordered(Ordered { digest, height }), turn);
        }
        self.uncharge(&digest);
    }

    fn load(&mut self, name: Hash, waiter: Waiter, turn: &mut Turn<'_, Self>) {
        if let Waiter::Peer(peer, _) = &waiter {
            let of = |waiter: &Waiter| matches!(waiter, Waiter::Peer(other, _) if other == peer);
            let busy = self.loads.values().filter(|waiters| waiters.iter().any(of)).count();
            let waits = self.loads.get(&name).map_or(0, Vec::len);
            // It asks again. What the own server needs is asked for once, and always read.
            if waits >= WAITERS_MAX || (waits == 0 && busy >= READ_FOR_PEER) {
                return;
            }
        }
        let waiters = self.loads.entry(name).or_default();
        waiters.push(waiter);
        if waiters.len() == 1 {
            turn.load(name);
        }
    }

    /// A blob was read, or is lost.
    pub(super) fn on_loaded(&mut self, name: Hash, bytes: Option<Bytes>, turn: &mut Turn<'_, Self>) {
        let Some(waiters) = self.loads.remove(&name) else { return };
        if let Some(body) = &bytes {
            self.cache.push_back((name, body.clone()));
            if self.cache.len() > CACHED {
                self.cache.pop_front();
            }
        }
        for waiter in waiters {
            match (waiter, bytes.clone()) {
                (Waiter::Server(digest), Some(body)) => self.give(digest, body, turn),
                (Waiter::Server(digest), None) => self.lost(digest, turn),
                (Waiter::Peer(peer, pull), Some(body)) => self.send_piece(peer, &pull, &body, turn),
                (Waiter::Peer(..), None) => {}
            }
        }
    }

    /// The disk lost an ordered body: it is fetched like one that never came.
    fn lost(&mut self, digest: Hash, turn: &mut Turn<'_, Self>) {
        let Some(held) = self.held.get(&digest) else { return };
        let (statement, height) = (held.header.witness(digest), held.height.unwrap_or(0));
        self.drop_held(&digest, turn);
        self.start_pull(statement, NodeSet::EMPTY, height, turn);
        self.on_need(digest, turn);
    }

    /// Fetches the batch of an accepted item.
    pub(super) fn start_pull(
        &mut self,
        statement: Witness,
        signers: NodeSet,
        height: u64,
        turn: &mut Turn<'_, Self>,
    ) {
        let others = self.config.cluster.roster().others(self.config.own);
        self.pulling.add(Fetch::new(statement, height, signers, others));
        self.pull_next(turn);
    }

    fn pull_next(&mut self, turn: &mut Turn<'_, Self>) {
        while let Some(digest) = self.pulling.next() {
            self.ask_sources(digest, turn);
        }
    }

    /// Asks the sources whose turn it is, and gives them their time.
    fn ask_sources(&mut self, digest: Hash, turn: &mut Turn<'_, Self>) {
        let Some(fetch) = self.pulling.get_mut(&digest) else { return };
        let attempt = fetch.attempt;
        for (peer, pull) in fetch.asks() {
            turn.send(peer, StoreMessage::Pull(pull).into());
        }
        let patience: Span = self.config.parameters.pull_patience.times(1 << attempt.min(DOUBLINGS));
        turn.arm(StoreTimer::Pull(digest, attempt), patience);
    }

    /// The sources of an attempt had their time.
    pub(super) fn on_patience(&mut self, digest: Hash, attempt: u32, turn: &mut Turn<'_, Self>) {
        let Some(fetch) = self.pulling.get_mut(&digest) else { return };
        if fetch.attempt == attempt && !fetch.dead && !fetch.digesting {
            fetch.rotate();
            self.ask_sources(digest, turn);
        }
    }

    /// A piece of a batch.
    pub(super) fn on_piece(&mut self, from: NodeId, piece: Piece, turn: &mut Turn<'_, Self>) {
        let Piece { digest, offset, bytes } = piece;
        let own = self.config.own;
        let Some(fetch) = self.pulling.get_mut(&digest).filter(|fetch| !fetch.digesting) else { return };
        match fetch.take(from, offset, bytes.into_bytes()) {
            Took::Wrong => {
                fetch.drop_source(from);
                turn.blame(from, Fault::WrongPiece);
                // The others keep the time they had: nobody may lengthen it.
                for (peer, pull) in fetch.asks() {
                    turn.send(peer, StoreMessage::Pull(pull).into());
                }
            }
            Took::Known => {}
            Took::Fits => {
                for (peer, pull) in fetch.asks() {
                    turn.send(peer, StoreMessage::Pull(pull).into());
                }
            }
            Took::Whole(bytes) => {
                turn.disarm(StoreTimer::Pull(digest, fetch.attempt));
                match AnyBatch::read(fetch.statement.kind, &bytes) {
                    Some(batch) => self.job(own, Task::Digest(Why::Pulled(digest), batch), turn),
                    None => self.on_wrong_body(digest, turn),
                }
            }
        }
    }

    fn on_wrong_body(&mut self, digest: Hash, turn: &mut Turn<'_, Self>) {
        let Some(fetch) = self.pulling.get_mut(&digest) else { return };
        if let Some(liar) = fetch.wrong() {
            turn.blame(liar, Fault::WrongBody);
        }
        fetch.attempt = fetch.attempt.saturating_add(1);
        self.ask_sources(digest, turn);
    }

    /// What was pulled has its digest.
    pub(super) fn on_pulled(
        &mut self,
        wanted: Hash,
        batch: AnyBatch,
        (name, digest): (Hash, Hash),
        turn: &mut Turn<'_, Self>,
    ) {
        if !self.pulling.wants(&wanted) {
            return;
        }
        if wanted == digest {
            self.adopt(batch, (name, digest), None, turn);
        } else {
            self.on_wrong_body(wanted, turn);
        }
    }

    /// A batch that was ordered before it was here has come.
    pub(super) fn adopt(
        &mut self,
        batch: AnyBatch,
        (name, digest): (Hash, Hash),
        uploader: Option<NodeId>,
        turn: &mut Turn<'_, Self>,
    ) {
        let Some(fetch) = self.pulling.remove(&digest) else { return };
        turn.disarm(StoreTimer::Pull(digest, fetch.attempt));
        let AnyBatch { header, body } = batch;
        turn.note(Note::of(NoteName::Retrieved, [body.len() as u64, fetch.height, 0], digest));
        turn.applied(Rule::Step14);
        turn.applied(Rule::Retrieve);
        self.expiries.insert((header.expiry(), digest));
        self.in_memory += body.len() as u64;
        self.arrivals += 1;
        let held = Held {
            header,
            name,
            body: Some(body.clone()),
            durable: false,
            stage: Stage::Idle,
            shard: None,
            signing: false,
            height: None,
            charged: None,
            uploaders: uploader.into_iter().collect(),
            askers: Vec::new(),
            turns: Vec::new(),
            arrival: self.arrivals,
            asked: turn.now(),
        };
        self.held.insert(digest, held);
        self.settle(digest, fetch.height);
        self.pin(&digest, turn);
        self.persist(StoreRecord::Ordered(Ordered { digest, height: fetch.height }), turn);
        // Nobody's quota is charged, so it does not stay in memory.
        self.uncharge(&digest);
        if fetch.needed {
            self.give(digest, body, turn);
        }
        self.pull_next(turn);
    }

    /// Another store wants a part of a batch.
    pub(super) fn on_pull(&mut self, from: NodeId, pull: Pull, turn: &mut Turn<'_, Self>) {
        let Some(held) = self.held.get(&pull.digest) else {
            let stable = self.progress.stable;
            turn.send(from, StoreMessage::Gone { digest: pull.digest, stable }.into());
            return;
        };
        let name = held.name;
        let cached = self.cache.iter().find(|(known, _)| *known == name).map(|(_, body)| body.clone());
        match held.body.clone().or(cached) {
            Some(body) => self.send_piece(from, &pull, &body, turn),
            None => self.load(name, Waiter::Peer(from, pull), turn),
        }
    }

    fn send_piece(&self, to: NodeId, pull: &Pull, body: &Bytes, turn: &mut Turn<'_, Self>) {
        let Some(held) = self.held.get(&pull.digest) else { return };
        let head = held.header.head();
        let (from, length) = (pull.offset as usize, pull.length as usize);
        let until = from.saturating_add(length);
        if length == 0 || length > PIECE_MAX || until > head.len() + body.len() {
            return turn.blame(to, Fault::WrongPiece);
        }
        let bytes = if from >= head.len() {
            body.slice(from - head.len()..until - head.len())
        } else {
            let front = head.slice(from..until.min(head.len()));
            let back = body.slice(..until.saturating_sub(head.len()));
            front.iter().chain(back.iter()).copied().collect()
        };
        if let Ok(bytes) = Blob::try_from(bytes) {
            let piece = Piece { digest: pull.digest, offset: pull.offset, bytes };
            turn.send(to, StoreMessage::Piece(piece).into());
        }
    }

    /// A peer says that a batch is gone, and up to where a checkpoint is certified there. One that is gone above it is
    /// collected only when this server's own durable checkpoint covers it.
    pub(super) fn on_gone(&mut self, from: NodeId, digest: Hash, stable: u64, turn: &mut Turn<'_, Self>) {
        let news = |fetch: &&mut Fetch| stable >= fetch.height && !fetch.gone.contains(from);
        let Some(fetch) = self.pulling.get_mut(&digest).filter(news) else { return };
        fetch.gone.insert(from);
        // Whoever is next is asked at once, as often as there are servers.
        fetch.drop_source(from);
        for (peer, pull) in fetch.asks() {
            turn.send(peer, StoreMessage::Pull(pull).into());
        }
        self.settle_gone(turn);
    }

    /// Gives up pulls of batches that were collected below a certified checkpoint: one that is known here and one who says
    /// so, or f + 1 who do, for then one of them is correct.
    pub(super) fn settle_gone(&mut self, turn: &mut Turn<'_, Self>) {
        let (stable, quorums) = (self.progress.stable, *self.config.cluster.quorums());
        let mut told = Vec::new();
        for (digest, fetch) in self.pulling.iter_mut() {
            let certified = stable >= fetch.height && !fetch.gone.is_empty();
            if certified || quorums.has_correct(fetch.gone) {
                fetch.dead = true;
                if fetch.needed {
                    told.push(*digest);
                }
            }
        }
        for digest in told {
            if let Some(fetch) = self.pulling.remove(&digest) {
                turn.disarm(StoreTimer::Pull(digest, fetch.attempt));
                turn.output(StoreOutput::Gone(digest));
            }
        }
        self.pull_next(turn);
    }
}
