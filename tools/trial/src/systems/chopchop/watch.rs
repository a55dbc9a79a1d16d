//! The checker of a run: shows every moment to every oracle.

use std::collections::BTreeMap;

use synod_chopchop::client::Output;
use synod_chopchop::config::Cluster;
use synod_chopchop::message::{ClientMessage, ServerMessage, StoreMessage};
use synod_chopchop::server::ServerOutput;
use synod_chopchop::statement::Kind;
use synod_chopchop::store::StoreInput;
use synod_chopchop::tree::root_commit;
use synod_chopchop::vocabulary::Message;
use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_machine::{Span, Time, To};
use synod_sim::{Checker, Deed, Moment, Seen, Violation};
use synod_wire::{Bytes, Wire};

use super::book::Shared;
use super::executing::App;
use super::plan::{CLIENT, CLIENTS, KEEPER, SERVER, STORE};
use super::sight;
use crate::oracle::chopchop::{
    CertificateSeen, Clients, Deliveries, Directories, EntrySeen, Facts, How, Keeping, Ledgers, Refusals,
    Witnesses,
};
use crate::oracle::{Verdict, breach};

/// All oracles of one run.
pub struct Watch {
    cluster: Cluster,
    facts: Facts,
    clients: Clients,
    witnesses: Witnesses,
    deliveries: Deliveries,
    keeping: Keeping,
    directories: Directories,
    refusals: Refusals,
    /// Roots of the application by height.
    roots: BTreeMap<u64, Hash>,
    /// What they must be, of an application that has a model.
    ledgers: Option<Ledgers>,
    /// Heights of checkpoints by node and position.
    heights: BTreeMap<(u32, Position), u64>,
    /// What each server accepted at each height.
    ordered: BTreeMap<(u32, u64), (Hash, Kind)>,
    /// Members of the directory each server showed.
    shown: BTreeMap<u32, u32>,
    book: Shared,
    asked: usize,
}

impl Watch {
    /// Watches a cluster of `servers`, of which `faulty` may be, whose clients have these keys, of which those above `people` are nobody's but of
    /// whoever is corrupted. Stores wait as long as `patience` for the directory that a batch needs.
    #[must_use]
    pub fn new(
        cluster: Cluster,
        (servers, faulty, people): (u32, u32, u32),
        owners: Vec<(Vec<u8>, u32)>,
        book: Shared,
        patience: Span,
    ) -> Self {
        let mut facts = Facts::default();
        owners.iter().filter(|(_, owner)| *owner > people).for_each(|(_, owner)| facts.fault(*owner));
        Self {
            cluster,
            facts,
            clients: Clients::default(),
            witnesses: Witnesses::default(),
            deliveries: Deliveries::new(faulty),
            keeping: Keeping::new(servers, faulty),
            directories: Directories::new(&owners),
            refusals: Refusals::new(patience),
            roots: BTreeMap::new(),
            ledgers: None,
            heights: BTreeMap::new(),
            ordered: BTreeMap::new(),
            shown: BTreeMap::new(),
            book,
            asked: 0,
        }
    }

    /// The application beside the servers, and the clients it begins with.
    #[must_use]
    pub fn beside(mut self, app: App, clients: u32) -> Self {
        self.ledgers = match app {
            App::Chain => None,
            App::Payments(grant) => Some(Ledgers::payments(grant, clients)),
            App::Auction(grant, tokens) => Some(Ledgers::auction(grant, tokens, clients)),
        };
        self
    }

    fn learn_asked(&mut self) {
        let book = self.book.borrow();
        for asked in book.asked.iter().skip(self.asked) {
            self.facts.ask(asked.node, &asked.payload);
        }
        self.asked = book.asked.len();
    }

    fn store(&mut self, moment: &Moment<'_>) -> Verdict {
        let place = (moment.node.0, STORE);
        match moment.seen {
            Seen::Opened { records, .. } => {
                self.keeping.open(place, records.iter().filter_map(sight::of_store), true);
                self.refusals.open(moment.node.0);
            }
            Seen::Durable(lsn) => self.keeping.durable(place, *lsn),
            Seen::Frame(frame) => self.upload(moment.node.0, &frame.body, moment.time),
            _ => {}
        }
        for deed in moment.deeds {
            match deed {
                Deed::Append { lsn, record, .. } => {
                    if let Some(kept) = sight::of_store(record) {
                        let is_damaged = matches!(moment.seen, Seen::Loaded { found: false, .. });
                        self.keeping.write(&self.facts, place, (*lsn, kept), is_damaged)?;
                    }
                }
                Deed::Send { to, body, .. } if moment.honest => self.store_says(moment, *to, body)?,
                Deed::Note(note) if moment.honest && note.name == "adder_mismatch" => {
                    return breach("C-L2", format!("store {} adds keys up in two ways", place.0));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn store_says(&mut self, moment: &Moment<'_>, to: To, body: &Bytes) -> Verdict {
        let node = moment.node.0;
        match (sight::opened(body), to) {
            (Some(Message::Store(StoreMessage::Shard(shard))), _) => {
                let cluster = self.cluster.digest();
                self.keeping.witness(node, &shard.digest)?;
                self.witnesses.witness(&cluster, &self.facts, &shard.digest)
            }
            (Some(Message::Store(StoreMessage::Refuse(refused))), To::Node(broker)) => {
                let what = (&refused.digest, sight::why(refused.why));
                self.refusals.refuse(&self.facts, (node, broker.0), what, moment.time)
            }
            _ => Ok(()),
        }
    }

    fn upload(&mut self, node: u32, body: &Bytes, now: Time) {
        let upload = match sight::opened(body) {
            Some(Message::Store(StoreMessage::Batch(upload))) => upload,
            Some(Message::Store(StoreMessage::Ask(digest))) => {
                self.refusals.ask(node, digest, now);
                return;
            }
            Some(Message::Store(StoreMessage::Gone { .. })) => {
                self.book.borrow_mut().gone.insert(node);
                return;
            }
            _ => return,
        };
        let domains = self.cluster.domains();
        let digest = if let Some(sealed) = upload.as_messages() {
            let digest = sealed.digest(domains);
            self.witnesses.show(digest, || sight::of_sealed(domains, digest, sealed));
            digest
        } else if let Some(cards) = upload.as_sign_up() {
            let digest = cards.digest(domains);
            self.witnesses.show_cards(digest);
            digest
        } else {
            return;
        };
        if upload.asks() {
            self.refusals.ask(node, digest, now);
        }
    }

    fn server(&mut self, moment: &Moment<'_>) -> Verdict {
        let (node, life) = (moment.node.0, moment.incarnation);
        let place = (node, SERVER);
        match moment.seen {
            Seen::Opened { records, .. } => {
                let marks: Vec<_> = records.iter().filter_map(sight::of_server).collect();
                let resume = marks.iter().filter_map(|kept| kept.height()).max().unwrap_or(1);
                self.deliveries.place(node, life, resume);
                self.keeping.open(place, marks.into_iter(), false);
            }
            Seen::Durable(lsn) => self.keeping.durable(place, *lsn),
            _ => {}
        }
        for deed in moment.deeds {
            match deed {
                Deed::Append { lsn, record, .. } => {
                    if let Some(kept) = sight::of_server(record) {
                        self.keeping.write(&self.facts, place, (*lsn, kept), false)?;
                    }
                }
                Deed::Output(output) if moment.honest => {
                    if let Some(output) = output.downcast_ref::<ServerOutput>() {
                        self.said((node, life), output)?;
                    }
                }
                Deed::Send { body, .. } if moment.honest => self.signed((node, life), body)?,
                _ => {}
            }
        }
        if moment.honest {
            let mut book = self.book.borrow_mut();
            book.highest = self.deliveries.highest();
            book.heights.insert(node, self.deliveries.height_of(node));
        }
        Ok(())
    }

    fn said(&mut self, (node, life): (u32, u32), output: &ServerOutput) -> Verdict {
        match output {
            ServerOutput::Apply(apply) => {
                let domains = self.cluster.domains();
                let ordered = self.ordered.get(&(node, apply.height));
                let digest = ordered.map_or(Hash::ZERO, |(digest, _)| *digest);
                let batch = sight::of_batch(domains, digest, &apply.batch);
                let listed = sight::listed(&apply.exceptions);
                let cluster = self.cluster.digest();
                self.cards((node, life), apply.height - 1)?;
                if let Some(ledgers) = &mut self.ledgers {
                    ledgers.give(&sight::given(apply));
                }
                let at = (apply.height, apply.position.0);
                self.deliveries.delivered((&cluster, &self.facts), (node, life), at, &batch, listed)
            }
            ServerOutput::Store(StoreInput::Ordered { statement, height, .. }) => {
                self.ordered.insert((node, *height), (statement.digest, statement.kind));
                self.keeping.accepted(&self.facts, statement.digest, *height)
            }
            ServerOutput::Store(StoreInput::Progress(progress)) => {
                self.cards((node, life), progress.delivered)?;
                self.directory(node, &progress.directory)
            }
            ServerOutput::Checkpoint { position, height, .. } => {
                self.heights.insert((node, *position), *height);
                Ok(())
            }
            ServerOutput::Jump { position, height, .. } => {
                self.heights.insert((node, *position), *height);
                self.deliveries.place(node, life, *height);
                self.book.borrow_mut().add("jumps", 1);
                Ok(())
            }
            ServerOutput::FalseWitness { statement } => {
                breach("C-S6", format!("f + 1 servers witnessed {:?}, which breaks a rule", statement.digest))
            }
            ServerOutput::Store(StoreInput::Need(_) | StoreInput::Recent { .. }) => Ok(()),
        }
    }

    /// Cards are given to no application: heights up to this one that none was told of are theirs.
    fn cards(&mut self, (node, life): (u32, u32), until: u64) -> Verdict {
        for height in self.deliveries.height_of(node) + 1..=until {
            match self.ordered.get(&(node, height)).copied() {
                Some((digest, Kind::SignUp)) => self.deliveries.cards((node, life), height, digest)?,
                _ => return breach("C-S1", format!("server {node} skips height {height}")),
            }
        }
        Ok(())
    }

    fn directory(&mut self, node: u32, view: &synod_chopchop::directory::View) -> Verdict {
        let from = self.shown.get(&node).copied().unwrap_or(0).min(view.len());
        for id in from..view.len() {
            let Some(member) = view.member(id) else { continue };
            if let Some(owner) = self.directories.member(&self.facts, id, &member.encode())? {
                self.facts.enter(id, owner);
            }
        }
        self.shown.insert(node, view.len());
        Ok(())
    }

    /// What an honest server signs.
    fn signed(&mut self, (node, life): (u32, u32), body: &Bytes) -> Verdict {
        match sight::opened(body) {
            Some(Message::Server(ServerMessage::Delivered(verdict))) => {
                let said = &verdict.statement;
                let exceptions = match said.kind {
                    Kind::Messages => said.exc_count,
                    Kind::SignUp => {
                        self.cards((node, life), said.height)?;
                        0
                    }
                };
                self.deliveries.signed(said.height, &said.digest, exceptions)
            }
            Some(Message::Server(ServerMessage::Height(signed))) => {
                let (height, own) = (signed.statement.height, self.deliveries.height_of(node));
                if height <= own {
                    return Ok(());
                }
                // Cards are told to nobody before they are signed for.
                self.cards((node, life), height)
                    .map_err(|breach| crate::oracle::Breach { checker: "C-S5", ..breach })
            }
            Some(Message::Server(ServerMessage::Mark(mark))) => self.keeping.marked(node, mark.height),
            _ => Ok(()),
        }
    }

    fn keeper(&mut self, moment: &Moment<'_>) -> Verdict {
        for deed in moment.deeds {
            let Deed::Output(output) = deed else { continue };
            let Some((position, root)) = sight::applied(&**output) else { continue };
            let Some(height) = self.heights.get(&(moment.node.0, position)) else { continue };
            let known = *self.roots.entry(*height).or_insert(root);
            if moment.honest && known != root {
                return breach("X9", format!("two servers have different states at height {height}"));
            }
            let model = self.ledgers.as_ref().map(|ledgers| ledgers.root(*height));
            if moment.honest && model.is_some_and(|model| model != root) {
                return breach("X9", format!("the state at height {height} is not what its batches make"));
            }
        }
        Ok(())
    }

    fn client(&mut self, moment: &Moment<'_>) -> Verdict {
        let node = moment.node.0;
        match moment.seen {
            Seen::Opened { records, .. } => {
                self.clients.open(node, records.iter().filter_map(sight::of_client).next_back());
            }
            Seen::Durable(lsn) => self.clients.durable(node, *lsn),
            Seen::Frame(frame) => self.shown_root(node, &frame.body),
            _ => {}
        }
        if !moment.honest {
            return Ok(());
        }
        let highest = self.deliveries.highest();
        for deed in moment.deeds {
            match deed {
                Deed::Append { lsn, record, .. } => {
                    if let Some(promise) = sight::of_client(record) {
                        self.clients.write(node, *lsn, promise, highest)?;
                    }
                }
                Deed::Send { body, .. } => self.client_says(node, body, highest)?,
                Deed::Output(output) => {
                    if let Some(output) = output.downcast_ref::<Output>() {
                        self.believes(node, output)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn shown_root(&mut self, node: u32, body: &Bytes) {
        if let Some(Message::Client(ClientMessage::Inclusion(shown))) = sight::opened(body) {
            let commit = root_commit(self.cluster.domains(), shown.k, &shown.shape, &shown.root);
            if let Some(half) = commit.0.first_chunk() {
                self.clients.show(node, *half, shown.k);
            }
        }
    }

    fn client_says(&mut self, node: u32, body: &Bytes, highest: u64) -> Verdict {
        match sight::opened(body) {
            Some(Message::Client(ClientMessage::Submit(submit))) => {
                let message = submit.message.to_vec();
                let (id, k, parity) = (submit.id, submit.k0, submit.parity);
                let entry = EntrySeen { id, message, parity, k, how: How::Alone };
                self.clients.submit(&mut self.facts, node, &entry)
            }
            Some(Message::Client(ClientMessage::MultiSig { root_commit, .. })) => {
                self.clients.sign(&mut self.facts, node, root_commit, highest)
            }
            _ => Ok(()),
        }
    }

    fn believes(&mut self, node: u32, output: &Output) -> Verdict {
        let Output::Delivered { tokens, receipt } = output else { return Ok(()) };
        let book = self.book.borrow();
        for token in tokens {
            let Some(asked) = book.get(*token) else { continue };
            if asked.told.is_some() {
                // Told again after a crash in between.
                continue;
            }
            let enrolled = book.enrolled.get(&node).copied();
            let Some(id) = enrolled.or_else(|| node.checked_sub(CLIENTS)) else { continue };
            let by = receipt.as_ref().map(|receipt| {
                let statement = &receipt.certificate.statement;
                let signers = receipt.certificate.aggregate.signers.set().count();
                CertificateSeen { height: statement.height, digest: statement.digest, signers }
            });
            self.deliveries.believed(id, &asked.payload, by.as_ref())?;
        }
        Ok(())
    }

    fn count(&self) {
        let counts = self.deliveries.counts();
        let mut book = self.book.borrow_mut();
        for (name, value) in [
            ("batches", counts.batches),
            ("distilled", counts.distilled),
            ("signed_together", counts.together),
            ("stragglers", counts.stragglers),
            ("messages", counts.messages),
            ("exceptions", counts.exceptions),
            ("sign_ups", counts.cards),
            ("releases", self.keeping.releases()),
        ] {
            book.counts.insert(name, value);
        }
    }
}

impl Checker for Watch {
    fn see(&mut self, moment: &Moment<'_>) -> Result<(), Violation> {
        if !moment.honest {
            self.facts.fault(moment.node.0);
        }
        self.learn_asked();
        let verdict = match moment.machine {
            STORE => self.store(moment),
            SERVER => self.server(moment),
            KEEPER => self.keeper(moment),
            CLIENT => self.client(moment),
            _ => Ok(()),
        };
        verdict.map_err(|breach| Violation::new(breach.checker, breach.what))
    }

    fn finish(&mut self, _: Time) -> Result<(), Violation> {
        self.count();
        Ok(())
    }
}
