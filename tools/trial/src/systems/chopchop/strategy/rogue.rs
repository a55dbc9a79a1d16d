//! A broker that makes batches of its own out of what it heard, has them witnessed and ordered, and lies to clients (B9,
//! B15).
//!
//! It holds its own keys and those of its colluders, and every signature that ever reached it.

use std::collections::BTreeMap;
use std::rc::Rc;

use synod_chopchop::batch::{Header, Sealed};
use synod_chopchop::card::Card;
use synod_chopchop::certificate::{Aggregate, HeightCertificate, Signers};
use synod_chopchop::config::Cluster;
use synod_chopchop::content::AnyHeader;
use synod_chopchop::item::Item;
use synod_chopchop::message::{
    ClientMessage, Delivery, Inclusion, ServerMessage, StoreMessage, Submit, Upload,
};
use synod_chopchop::signup::SealedSignUp;
use synod_chopchop::statement::{BlsSignatureBytes, Delivered, Height, Kind, Witness};
use synod_chopchop::tree::root_commit;
use synod_chopchop::vocabulary::Message;
use synod_crypto::{Hash, Keys, Signature, Statement};
use synod_machine::{Span, To};
use synod_quorum::{NodeId, NodeSet};
use synod_sim::{Act, Deed, Family, Incident, Seen, Strategy};

use super::super::sight;
use super::cards::Forger;
use super::craft::{Made, Vouched, batch, entries};
use super::{say, sealed};
use crate::oracle::faults;

/// Most submissions that are remembered.
const HEARD_MAX: usize = 256;
/// Cards it makes.
const CARDS_MAX: u32 = 6;
/// Bodies of a flood.
const FLOODS_MAX: u32 = 1_200;
/// Most batches of its own at a time.
const OWN_MAX: usize = 64;

/// The rogue broker.
pub(super) struct Rogue {
    cluster: Cluster,
    family: Family,
    heard: Vec<Submit>,
    own: BTreeMap<Hash, (Witness, BTreeMap<NodeId, Signature>)>,
    card: Option<Card>,
    forger: Forger,
    /// Cards it may still make: a directory full of them would be all that a run is about.
    cards: u32,
    /// Bodies with which it still fills stores, and which nobody is asked to witness.
    floods: u32,
    large: Option<Sealed>,
    /// Stores that have room, they say.
    open: Vec<NodeId>,
    /// The highest height it heard of.
    height: u64,
}

impl Rogue {
    pub(super) const fn new(cluster: Cluster, incident: &Incident, spares: Rc<[Keys]>) -> Self {
        Self {
            cluster,
            family: incident.family,
            heard: Vec::new(),
            own: BTreeMap::new(),
            card: None,
            forger: Forger::new(spares),
            cards: CARDS_MAX,
            floods: match incident.family {
                Family::ByzFlood => FLOODS_MAX,
                _ if incident.amount % 4 == 1 => FLOODS_MAX,
                _ => 0,
            },
            large: None,
            open: Vec::new(),
            height: 1,
        }
    }

    fn servers(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.cluster.roster().size()).map(NodeId)
    }

    fn listen(&mut self, act: &mut Act<'_>) -> bool {
        let Seen::Frame(frame) = act.seen else { return false };
        match sight::opened(&frame.body) {
            Some(Message::Client(ClientMessage::Submit(submit))) => {
                if self.heard.len() >= HEARD_MAX {
                    self.heard.remove(0);
                }
                self.heard.push(submit);
                false
            }
            Some(Message::Client(ClientMessage::SignUp(card))) => {
                self.card = Some(*card);
                false
            }
            Some(Message::Store(StoreMessage::Credit(credit))) => {
                self.height = self.height.max(credit.height);
                self.open.push(frame.from);
                false
            }
            Some(Message::Store(StoreMessage::Shard(shard))) => {
                let needed = faults(self.cluster.roster().size()) as usize + 1;
                let Some((_, shards)) = self.own.get_mut(&shard.digest) else { return false };
                shards.insert(frame.from, shard.signature);
                shards.len() == needed && self.order(&shard.digest, act)
            }
            _ => false,
        }
    }

    /// Has a batch of its own ordered: at once, or long afterwards; as it was witnessed, or under another statement.
    fn order(&mut self, digest: &Hash, act: &mut Act<'_>) -> bool {
        let Some((statement, shards)) = self.own.remove(digest) else { return false };
        let mut statement = statement;
        if act.draws.chance(300_000) {
            statement.expiry = statement.expiry.saturating_add(act.draws.log_uniform(1, 1_000));
        }
        let members = self.cluster.roster().size();
        let set: NodeSet = shards.keys().copied().collect();
        let Some(signers) = Signers::new(set, members) else { return false };
        let Some(item) = Item::new(statement, signers, shards.into_values().collect()) else { return false };
        let later = act.draws.chance(500_000).then(|| Span(act.draws.log_uniform(10_000_000, 8_000_000_000)));
        let message = Message::Server(ServerMessage::Order(item));
        for server in self.servers() {
            match later {
                None => say(act, server, message.clone()),
                Some(after) => {
                    let (to, queue) = (To::Node(server), synod_machine::Message::queue(&message));
                    act.later.push((after, Deed::Send { to, queue, body: sealed(&message) }));
                }
            }
        }
        true
    }

    /// Uploads a batch of its own, to all servers or to as few as a witness needs.
    fn upload(&mut self, made: &Sealed, act: &mut Act<'_>) {
        let digest = made.digest(self.cluster.domains());
        if self.own.len() >= OWN_MAX {
            self.own.pop_first();
        }
        let statement = AnyHeader::Messages(made.header.clone()).witness(digest);
        self.own.insert(digest, (statement, BTreeMap::new()));
        let few = act.draws.chance(400_000);
        let reached = if few { faults(self.cluster.roster().size()) + 1 } else { u32::MAX };
        for server in self.servers().take(reached as usize) {
            say(act, server, StoreMessage::Batch(Upload::messages(true, made.clone())));
        }
    }

    /// Entries out of signatures that were heard: of several messages of one client, old and new, in any order.
    fn remembered(&self, act: &mut Act<'_>) -> Vec<Made> {
        let many = act.draws.between(1, 6);
        let mut all: Vec<Made> = Vec::new();
        for _ in 0..many {
            if let Some(submit) = act.draws.pick(&self.heard) {
                all.push(Made {
                    id: submit.id,
                    message: submit.message.to_vec(),
                    parity: submit.parity,
                    by: Vouched::Alone(submit.k0, submit.t),
                });
            }
        }
        all.sort_by_key(|made| made.id);
        if !act.draws.chance(400_000) {
            all.dedup_by_key(|made| made.id);
        }
        all
    }

    /// Breaks one rule of a batch, or none.
    fn spoil(all: &mut [Made], act: &mut Act<'_>) {
        let at = usize::try_from(act.draws.below(all.len().max(1) as u64)).unwrap_or(0);
        let choice = act.draws.below(8);
        if choice == 6 && all.len() > 1 {
            all.swap(0, at);
        }
        let Some(made) = all.get_mut(at) else { return };
        match (choice, &mut made.by) {
            (0, _) => made.parity = !made.parity,
            (1, _) => made.message = vec![7; made.message.len()],
            (2, _) => made.by = Vouched::Void,
            (3, _) => made.by = Vouched::Together,
            (4, Vouched::Alone(k, _)) => *k = k.saturating_add(1),
            (5, Vouched::Alone(_, t)) => t.0[0] ^= 1,
            _ => {}
        }
    }

    /// The honest broker inside uploads a batch: some of its own follow.
    fn on_batch(&mut self, upload: &Upload, act: &mut Act<'_>) -> bool {
        let Some(like) = upload.as_messages() else { return self.on_cards(upload, act) };
        if self.floods > 0 {
            self.large = self.large(&like.header);
            for server in self.servers() {
                self.flood(server, act);
            }
        }
        let domains = self.cluster.domains().clone();
        let mut header = like.header.clone();
        match act.draws.below(6) {
            // Soon over, or hardly ever.
            0 => header.expiry = header.expiry.saturating_sub(act.draws.below(self.cluster.rules().horizon)),
            1 => header.expiry = header.expiry.saturating_add(act.draws.below(8)),
            2 => header.k = header.k.saturating_add(act.draws.log_uniform(1, 1 << 40)),
            _ => {}
        }
        let mut all = match entries(like).filter(|_| act.draws.chance(400_000)) {
            Some(all) => all,
            None => self.remembered(act),
        };
        if act.draws.chance(700_000) {
            Self::spoil(&mut all, act);
        }
        let Some(mut made) = batch(&domains, &header, &all) else { return false };
        if act.draws.chance(50_000) {
            made.header.root = Hash::of(b"another");
        }
        self.upload(&made, act);
        true
    }

    /// A body as large as it may be; what is in it nobody gets to see.
    fn large(&self, like: &Header) -> Option<Sealed> {
        let size = u16::try_from(self.cluster.rules().body_bytes_max.saturating_sub(64)).unwrap_or(u16::MAX);
        let message = vec![0; usize::from(size)];
        let large = [Made { id: 0, message, parity: false, by: Vouched::Void }];
        batch(self.cluster.domains(), &Header { msg_size: size, ..like.clone() }, &large)
    }

    /// One large body more for a store that took one, beyond any quota.
    fn flood(&mut self, server: NodeId, act: &mut Act<'_>) {
        let Some(mut made) = self.large.clone().filter(|_| self.floods > 0) else { return };
        self.floods -= 1;
        made.header.k = act.draws.draw() >> 1;
        say(act, server, StoreMessage::Batch(Upload::messages(false, made)));
    }

    /// A card with somebody else's key, or with one of the directory's, beside one that was heard.
    fn on_cards(&mut self, upload: &Upload, act: &mut Act<'_>) -> bool {
        let (Some(like), Some(seen)) = (upload.as_sign_up(), self.card.clone()) else { return false };
        let Some(card) = self.forger.card(&self.cluster, Some(&seen), act) else { return false };
        let (broker, epoch, expiry) = (like.header.broker, like.header.epoch, like.header.expiry);
        let made = SealedSignUp::seal(broker, epoch, expiry, &[card, seen]);
        made.is_some_and(|made| self.upload_cards(&made, act))
    }

    /// A sign-up of its own.
    fn enrol(&mut self, act: &mut Act<'_>) -> bool {
        let seen = self.card.clone();
        let Some(card) = self.forger.card(&self.cluster, seen.as_ref(), act) else { return false };
        let expiry = self.height + 1 + act.draws.below(self.cluster.rules().horizon);
        self.cards -= 1;
        let made = SealedSignUp::seal(u32::MAX, self.cluster.epoch(), expiry, &[card]);
        made.is_some_and(|made| self.upload_cards(&made, act))
    }

    fn upload_cards(&mut self, made: &SealedSignUp, act: &mut Act<'_>) -> bool {
        let digest = made.digest(self.cluster.domains());
        let statement = AnyHeader::SignUp(made.header.clone()).witness(digest);
        self.own.insert(digest, (statement, BTreeMap::new()));
        for server in self.servers() {
            say(act, server, StoreMessage::Batch(Upload::sign_up(true, made.clone())));
        }
        true
    }

    /// Corrupted servers among the colluders, with their keys.
    fn colluders<'a>(&self, act: &Act<'a>) -> Vec<(NodeId, &'a Keys)> {
        let is_server = |id: &NodeId| self.cluster.roster().member(*id).is_some();
        act.keys.iter().filter(|(id, _)| is_server(id)).map(|(id, keys)| (*id, keys)).collect()
    }

    /// A certificate under which the colluders' names stand, and as many others as it needs if `full`.
    fn forged(&self, statement: &impl Statement, full: bool, act: &Act<'_>) -> Option<Aggregate> {
        let colluders = self.colluders(act);
        let scope = self.cluster.scope();
        let shares: Vec<_> =
            colluders.iter().filter_map(|(_, keys)| keys.sign_bls(&scope, statement)).collect();
        let own = act.keys.get(&act.node)?;
        let sum = match shares.is_empty() {
            true => own.bls().sum_signatures(own.sign_bls(&scope, statement)),
            false => own.bls().sum_signatures(shares),
        };
        let mut set: NodeSet = colluders.iter().map(|(id, _)| *id).collect();
        let needed = faults(self.cluster.roster().size()) + 1;
        for server in self.servers().filter(|_| full || colluders.is_empty()) {
            if set.count() < needed {
                set.insert(server);
            }
        }
        let signers = Signers::new(set, self.cluster.roster().size())?;
        Some(Aggregate { signers, signature: BlsSignatureBytes(sum.to_signature().to_bytes()) })
    }

    /// An item that colluders alone vouch for, of a batch that nobody has.
    fn phantom(&self, act: &mut Act<'_>) -> bool {
        let colluders = self.colluders(act);
        if colluders.is_empty() {
            return false;
        }
        let digest = Hash::of(&act.draws.draw().to_le_bytes());
        let expiry = 2 + act.draws.below(self.cluster.rules().horizon);
        let statement = Witness { kind: Kind::Messages, digest, expiry, count: 1, body_len: 64 };
        let scope = self.cluster.scope();
        let shard = |(id, keys): &(NodeId, &Keys)| keys.sign(scope, *id, statement.clone()).signature;
        let shards: Vec<Signature> = colluders.iter().map(shard).collect();
        let set: NodeSet = colluders.iter().map(|(id, _)| *id).collect();
        let Some(signers) = Signers::new(set, self.cluster.roster().size()) else { return false };
        let Some(item) = Item::new(statement, signers, shards) else { return false };
        for server in self.servers() {
            say(act, server, ServerMessage::Order(item.clone()));
        }
        true
    }

    /// A delivery that no server signed, or too few.
    fn false_delivery(&self, to: NodeId, shown: &Inclusion, act: &mut Act<'_>) -> bool {
        let commit = root_commit(self.cluster.domains(), shown.k, &shown.shape, &shown.root);
        let Some(half) = commit.0.first_chunk().copied() else { return false };
        let (height, digest) = (2 + act.draws.below(20), Hash::of(&act.draws.draw().to_le_bytes()));
        let statement = Delivered {
            height,
            kind: Kind::Messages,
            digest,
            root_commit: commit,
            exceptions_root: Hash::ZERO,
            exc_count: 0,
        };
        let full = act.draws.chance(500_000);
        let Some(aggregate) = self.forged(&statement, full, act) else { return false };
        let exceptions_root = Hash::ZERO;
        let delivery = Delivery {
            root_commit: half,
            height,
            digest,
            exceptions_root,
            exc_count: 0,
            aggregate,
            exception: None,
        };
        say(act, to, ClientMessage::Delivery(Box::new(delivery)));
        true
    }

    /// The same inclusion under a number that nobody may sign.
    fn false_number(&self, shown: &Inclusion, act: &mut Act<'_>) -> Inclusion {
        let mut other = shown.clone();
        other.k = match act.draws.below(4) {
            0 => u64::MAX,
            1 => u64::MAX - 1,
            2 => other.k.saturating_add(act.draws.log_uniform(1, 1_000)),
            _ => other.k.saturating_sub(1 + act.draws.below(4)),
        };
        other.height = match act.draws.below(3) {
            0 => None,
            1 => shown.height.clone(),
            _ => {
                let statement = Height { height: other.k.saturating_add(1) };
                let full = act.draws.chance(500_000);
                self.forged(&statement, full, act).map(|aggregate| HeightCertificate { statement, aggregate })
            }
        };
        other.closed = false;
        other
    }

    fn speak(&mut self, deed: &mut Deed, act: &mut Act<'_>) -> bool {
        let Deed::Send { to, body, .. } = deed else { return false };
        match (sight::opened(body), *to) {
            (Some(Message::Store(StoreMessage::Batch(upload))), To::Node(to)) => {
                let first = to == NodeId(0) && act.draws.chance(700_000);
                // What it was given may also stay with few.
                first && self.on_batch(&upload, act)
            }
            (Some(Message::Client(ClientMessage::Inclusion(shown))), To::Node(to)) => {
                match act.draws.below(10) {
                    0 => self.false_delivery(to, &shown, act),
                    1 | 2 => {
                        let other = self.false_number(&shown, act);
                        *body = sealed(&Message::Client(ClientMessage::Inclusion(other)));
                        true
                    }
                    _ => false,
                }
            }
            _ => false,
        }
    }
}

impl Strategy for Rogue {
    fn name(&self) -> &'static str {
        self.family.name()
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        act.split_sends();
        let mut changed = self.listen(act);
        let mut deeds = core::mem::take(act.deeds);
        let mut before = Vec::new();
        core::mem::swap(&mut before, act.deeds);
        for deed in &mut deeds {
            changed |= self.speak(deed, act);
        }
        if act.draws.chance(10_000) {
            changed |= self.phantom(act);
        }
        if self.cards > 0 && act.draws.chance(20_000) {
            changed |= self.enrol(act);
        }
        for store in core::mem::take(&mut self.open) {
            self.flood(store, act);
        }
        let injected = core::mem::take(act.deeds);
        *act.deeds = deeds;
        act.deeds.extend(before);
        act.deeds.extend(injected);
        changed
    }
}
