//! A client that came back: it is asked for other messages, and shown its own under numbers of all kinds.

use synod_chopchop::certificate::HeightCertificate;
use synod_chopchop::client::Input;
use synod_chopchop::columns::Entry;
use synod_chopchop::message::{ClientMessage, Delivery, Inclusion, Submit};
use synod_chopchop::statement::{Delivered, Height, Kind};
use synod_chopchop::tree::{EntryTree, TreeShape, root_commit};
use synod_chopchop::vocabulary::Message;
use synod_crypto::{Hash, Keys};
use synod_machine::{Never, Span};
use synod_quorum::NodeId;
use synod_sim::Storage;

use super::super::lone::{Did, Lone};
use super::frames::{certified, sealed};
use super::judge::Judge;
use super::talk::{Event, Talk};
use crate::systems::chopchop::plan::{BROKERS, CLIENT, MESSAGE, Plan};
use crate::systems::chopchop::sight;
use crate::systems::chopchop::world::connect;

/// Messages that its user asks for after the crash.
const ROUNDS: u32 = 5;
/// Heights of deliveries that it is shown: above all of the conversation.
const HEIGHTS: u64 = 10_000;
/// Long enough for a client to say its message again.
const PATIENCE: Span = Span::millis(150);

struct Visit<'a> {
    talk: &'a Talk,
    plan: &'a Plan,
    servers: &'a [Keys],
    lone: Lone,
    judge: Judge,
    /// The message it submitted last.
    flight: Option<Submit>,
}

/// Builds a client from its disk and tempts it.
pub(super) fn visit(
    (talk, plan): (&Talk, &Plan),
    servers: &[Keys],
    (own, keys): (NodeId, Keys),
    storage: Box<dyn Storage>,
    before: &Judge,
) -> Result<Judge, String> {
    let build = |machine, log| plan.machine(own, machine, log, 2);
    let lone = Lone::open(keys, &[CLIENT], connect, storage, build).map_err(|refusal| refusal.0)?;
    if lone.is_damaged() {
        return Err("J-S2: a crash alone made the log count as damaged".to_owned());
    }
    let mut judge = before.reborn();
    judge.reopen(lone.found.iter().flat_map(|log| &log.records).map(|record| (CLIENT, record)));
    let old: Vec<u64> = before.numbers().collect();
    let mut visit = Visit { talk, plan, servers, lone, judge, flight: None };
    visit.lone.start();
    for round in 0..ROUNDS {
        visit.round(round, &old);
    }
    Ok(visit.judge)
}

impl Visit<'_> {
    fn settle(&mut self) {
        for (machine, did) in core::mem::take(&mut self.lone.did) {
            if let Did::Said(_, body) = &did
                && let Some(Message::Client(ClientMessage::Submit(submit))) = sight::opened(body)
            {
                self.flight = Some(submit);
            }
            self.judge.see(&Event::Did(machine, did));
        }
    }

    fn say(&mut self, from: NodeId, message: impl Into<Message<Never>>) {
        let (queue, body) = sealed(&message.into());
        self.judge.see(&Event::Heard(body.clone()));
        self.lone.hear(CLIENT, from, queue, body);
        self.settle();
    }

    /// One message more: under every number it may have signed before, and under new ones; then it is delivered.
    fn round(&mut self, round: u32, old: &[u64]) {
        let payload = (u64::from(round) | 1 << 40).to_le_bytes().to_vec().into();
        self.lone.ask(CLIENT, Box::new(Input::Broadcast { token: u64::from(round) + 1_000, payload }));
        self.lone.pass(PATIENCE);
        self.settle();
        let Some(flight) = self.flight.clone() else { return };
        let ahead = [0, 1, 4].map(|ahead| flight.k0 + ahead);
        let mut shown = None;
        for (place, k) in (0..).zip(old.iter().copied().chain(ahead)) {
            let broker = NodeId(BROKERS + place % self.talk.roles.brokers);
            shown = self.show(broker, &flight, k).map(|commit| (broker, commit)).or(shown);
        }
        if let Some((broker, commit)) = shown {
            self.deliver(broker, commit, HEIGHTS * u64::from(round + 1));
        }
    }

    /// Shows the client its message alone in a batch of this number; what it would sign.
    fn show(&mut self, broker: NodeId, flight: &Submit, k: u64) -> Option<Hash> {
        let domains = self.plan.cluster.domains().clone();
        let entry = || Entry { id: flight.id, message: &flight.message, parity: flight.parity };
        let shape = TreeShape { count: 1, msg_size: MESSAGE };
        let tree = EntryTree::grow(&domains, shape, core::iter::once(entry()));
        let proof = tree.prove(0, |_| Some(entry()))?;
        let (root, statement) = (tree.root(), Height { height: k + 1 });
        let aggregate = certified(&self.plan.cluster, self.servers, &statement)?;
        let height = Some(HeightCertificate { statement, aggregate });
        self.say(
            broker,
            ClientMessage::Inclusion(Inclusion { root, k, shape, proof, height, closed: false }),
        );
        Some(root_commit(&domains, k, &shape, &root))
    }

    fn deliver(&mut self, broker: NodeId, commit: Hash, height: u64) {
        let (digest, exceptions_root, exc_count) = (Hash::of(&height.to_le_bytes()), Hash::ZERO, 0);
        let said = Delivered {
            height,
            kind: Kind::Messages,
            digest,
            root_commit: commit,
            exceptions_root,
            exc_count,
        };
        let (Some(root_commit), Some(aggregate)) =
            (commit.0.first_chunk().copied(), certified(&self.plan.cluster, self.servers, &said))
        else {
            return;
        };
        let exception = None;
        let delivery =
            Delivery { root_commit, height, digest, exceptions_root, exc_count, aggregate, exception };
        self.say(broker, ClientMessage::Delivery(Box::new(delivery)));
    }
}
