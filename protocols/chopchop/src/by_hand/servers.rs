//! Servers that a test plays: they witness, order, deduplicate and sign as the specification says, written again.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::{Hash, Statement};
use synod_quorum::{NodeId, NodeSet};

use super::keys;
use crate::batch::{Batch, Refusal};
use crate::config::Cluster;
use crate::content::AnyBatch;
use crate::dedup::{Exceptions, Reason, tag};
use crate::directory::Directory;
use crate::message::{
    Cards, Credit, ExceptionList, Refused, ServerMessage, Shard, SignedHeight, SignedState, StoreMessage,
    Verdict,
};
use crate::statement::{BlsSignatureBytes, Delivered, Kind, State};
use crate::vocabulary::Message;

/// What was delivered: client, number, message, parity.
pub(crate) type Delivery = (u32, u64, Vec<u8>, bool);

/// The servers, who agree by construction.
pub(crate) struct Servers {
    cluster: Cluster,
    pub(crate) directory: Directory,
    pub(crate) height: u64,
    batches: BTreeMap<Hash, AnyBatch>,
    states: BTreeMap<u32, (u64, u64)>,
    verdicts: BTreeMap<Hash, (Delivered, ExceptionList)>,
    pub(crate) delivered: Vec<Delivery>,
    /// Headers of the delivered batches of messages: count, stragglers, k.
    pub(crate) shapes: Vec<(u32, u32, u64)>,
    /// Servers that say nothing.
    pub(crate) silent: NodeSet,
    /// Servers whose signatures are not theirs.
    pub(crate) lying: NodeSet,
    /// Why stores refuse every batch, when they do.
    pub(crate) refuses: Option<Refusal>,
    /// Digests that were ordered, delivered or not.
    pub(crate) ordered: BTreeSet<Hash>,
}

impl Servers {
    pub(crate) fn new(cluster: Cluster, directory: Directory) -> Self {
        Self {
            cluster,
            directory,
            height: 1,
            batches: BTreeMap::new(),
            states: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            delivered: Vec::new(),
            shapes: Vec::new(),
            silent: NodeSet::EMPTY,
            lying: NodeSet::EMPTY,
            refuses: None,
            ordered: BTreeSet::new(),
        }
    }

    /// What every server says of itself.
    pub(crate) fn credits(&self) -> Vec<(NodeId, Message)> {
        let credit =
            Credit { bytes: 1 << 30, work: 1 << 30, height: self.height, directory: self.directory.len() };
        self.speaking().map(|id| (id, Message::Store(StoreMessage::Credit(credit.clone())))).collect()
    }

    /// The servers that say something.
    fn speaking(&self) -> impl Iterator<Item = NodeId> + use<> {
        let (all, silent) = (self.cluster.roster().size(), self.silent);
        (0..all).map(NodeId).filter(move |id| !silent.contains(*id))
    }

    fn sign<S: Statement>(&self, server: NodeId, statement: &S) -> BlsSignatureBytes {
        let name = if self.lying.contains(server) { 77 } else { u64::from(server.0) };
        let signature = keys(name).sign_bls(&self.cluster.scope(), statement).expect("they have a key");
        BlsSignatureBytes(signature.to_bytes())
    }

    /// What servers answer.
    pub(crate) fn hear(&mut self, server: NodeId, message: Message) -> Vec<(NodeId, Message)> {
        if self.silent.contains(server) {
            return Vec::new();
        }
        if let Message::Server(ServerMessage::Order(item)) = &message {
            let digest = *item.digest();
            if self.ordered.insert(digest) {
                self.deliver(digest);
            }
            // All servers deliver, and each says so itself.
            return self
                .speaking()
                .flat_map(|id| self.verdict(id, &digest).into_iter().map(move |said| (id, said)))
                .collect();
        }
        self.answer(server, message).into_iter().map(|said| (server, said)).collect()
    }

    fn answer(&mut self, server: NodeId, message: Message) -> Vec<Message> {
        match message {
            Message::Store(StoreMessage::Batch(upload)) => {
                let batch = AnyBatch::of_upload(&upload).expect("of either kind");
                let (_, digest) = batch.name_and_digest(self.cluster.domains());
                if let Some(why) = self.refuses {
                    return vec![Message::Store(StoreMessage::Refuse(Refused { digest, why }))];
                }
                self.check(&batch);
                self.batches.insert(digest, batch);
                if upload.asks() { self.shard(server, digest) } else { Vec::new() }
            }
            Message::Store(StoreMessage::Ask(digest)) => self.shard(server, digest),
            Message::Server(ServerMessage::Certify(digest)) => self.verdict(server, &digest),
            Message::Server(ServerMessage::HeightAsk(height)) if height.height <= self.height => {
                let signature = self.sign(server, &height);
                vec![Message::Server(ServerMessage::Height(SignedHeight { statement: height, signature }))]
            }
            Message::Server(ServerMessage::StateAsk(ask)) => {
                let (next_k, tag) = self.states.get(&ask.id).copied().unwrap_or_default();
                let statement = State { nonce: ask.nonce, id: ask.id, next_k, tag };
                let signature = self.sign(server, &statement);
                vec![Message::Server(ServerMessage::State(SignedState { statement, signature }))]
            }
            Message::Server(ServerMessage::DirPull { from }) => {
                let view = self.directory.view();
                let members = (from..view.len()).filter_map(|id| view.member(id).cloned()).collect();
                let root = view.root(self.cluster.domains());
                vec![Message::Server(ServerMessage::Cards(Cards { from, members, length: view.len(), root }))]
            }
            _ => Vec::new(),
        }
    }

    /// BV1 to BV8, as far as a correct broker's batch shows: an aggregate that does not hold fails the test.
    fn check(&self, batch: &AnyBatch) {
        let Some(sealed) = batch.clone().into_messages() else { return };
        let open = Batch::open(&sealed).expect("BV1");
        open.check().expect("BV2 to BV4");
        open.check_root(self.cluster.domains()).expect("BV5");
        let Some(aggregate) = sealed.header.aggregate else { return };
        let apart: BTreeSet<u32> = open.columns().stragglers().map(|straggler| straggler.index).collect();
        let signers = (0_u32..).zip(open.columns().ids()).filter(|(index, _)| !apart.contains(index));
        let keys = keys(0);
        let bls = keys.bls();
        let view = self.directory.view();
        let sum = bls.sum_keys(signers.map(|(_, id)| {
            let member = view.member(id).expect("below the directory's length");
            bls.vouched_key(&member.bls.0).expect("registered")
        }));
        let root_commit = open.root_commit(self.cluster.domains());
        let claim = synod_crypto::bls::BlsClaim {
            statement: crate::statement::Root { root_commit },
            scope: self.cluster.scope(),
            keys: sum,
            signature: bls.signature(&aggregate.0).expect("a point"),
        };
        assert!(claim.verify(&keys).is_ok(), "BV7");
    }

    fn shard(&self, server: NodeId, digest: Hash) -> Vec<Message> {
        let Some(batch) = self.batches.get(&digest) else { return Vec::new() };
        let name = if self.lying.contains(server) { 77 } else { u64::from(server.0) };
        let signed = keys(name).sign(self.cluster.scope(), server, batch.header.witness(digest));
        let shard = Shard { digest, signature: signed.signature };
        vec![Message::Store(StoreMessage::Shard(shard))]
    }

    fn deliver(&mut self, digest: Hash) {
        let Some(batch) = self.batches.get(&digest).cloned() else { return };
        self.height += 1;
        let said = |kind, root_commit, exceptions_root, exc_count| Delivered {
            height: self.height,
            kind,
            digest,
            root_commit,
            exceptions_root,
            exc_count,
        };
        let domains = self.cluster.domains();
        if let Some(cards) = batch.clone().into_sign_up() {
            let assigned = self.directory.deliver(&cards.cards().expect("sound"));
            let said = said(Kind::SignUp, Hash::ZERO, assigned.root(domains), assigned.exc_count());
            self.verdicts.insert(digest, (said, ExceptionList::Pairs(Vec::new())));
            return;
        }
        let sealed = batch.into_messages().expect("messages");
        let open = Batch::open(&sealed).expect("checked");
        let own: BTreeMap<u32, u64> = open.columns().stragglers().map(|one| (one.index, one.k)).collect();
        let mut list = Vec::new();
        for (index, entry) in (0_u32..).zip(open.columns().entries()) {
            let k = own.get(&index).copied().unwrap_or(sealed.header.k);
            let (next_k, last) = self.states.get(&entry.id).copied().unwrap_or_default();
            let own_tag = tag(entry.message, entry.parity);
            if next_k > 0 && last == own_tag {
                self.states.insert(entry.id, (next_k.max(k + 1), last));
                list.push((index, Reason::Same));
            } else if k < next_k {
                list.push((index, Reason::Stale));
            } else {
                self.states.insert(entry.id, (k + 1, own_tag));
                self.delivered.push((entry.id, k, entry.message.to_vec(), entry.parity));
            }
        }
        let header = &sealed.header;
        self.shapes.push((header.count, header.stragglers, header.k));
        let exceptions = Exceptions::new(header.count, list);
        let root = exceptions.root(domains);
        let said = said(Kind::Messages, open.root_commit(domains), root, exceptions.exc_count());
        self.verdicts.insert(digest, (said, ExceptionList::from(&exceptions)));
    }

    fn verdict(&self, server: NodeId, digest: &Hash) -> Vec<Message> {
        let Some((statement, exceptions)) = self.verdicts.get(digest).cloned() else { return Vec::new() };
        let signature = self.sign(server, &statement);
        vec![Message::Server(ServerMessage::Delivered(Verdict { statement, exceptions, signature }))]
    }
}
