//! The same payments in an order: HotStuff beside, under a closed loop of clients.
//!
//! A member hosts the replica (machine 0) and the executor (machine 1) of an application that books payments; a guest hosts a client
//! (machine 1), which believes f + 1 equal answers.

use std::cell::RefCell;
use std::collections::BTreeMap;

use synod_crypto::merkle::{Tree, leaf};
use synod_crypto::{Hash, PublicKey};
use synod_hotstuff::{Config, Identity, Leaders, Pack, Parameters, Replica, Terms, View};
use synod_machine::broadcast::{Delivered, Position};
use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{Span, Time, Unrecoverable};
use synod_payments::Payments;
use synod_quorum::{Epoch, Member, NodeId, Roster, Weights};
use synod_service::matching::Trust;
use synod_service::{
    App, At, Client, ClientAuth, ClientConfig, ClientInput, ClientOutput, Command, Executor, ExecutorConfig,
    ExecutorInput, ExecutorLimits, ExecutorOutput, Outcome, Replies, Request,
};
use synod_sim::{Desk, Harness, Keyring, Mode, Refused, Routed, Seat, Told, Violation, World};
use synod_wire::Bytes;

use crate::astro::BEGIN;
use crate::circumstances::Circumstances;
use crate::timeline::Timeline;

const REPLICA: u8 = 0;
const EXECUTOR: u8 = 1;
/// Views of a term: one leader leads through a whole run, as in the paper's baseline.
const TERM: u64 = 1_024;
/// What an account has at first.
const GRANT: u64 = 1 << 30;
/// When a client gives up a payment and makes the next.
const PATIENCE: Span = Span::secs(20);

/// Books payments of numbered accounts: a command is the payer, 4 bytes, and an operation of [`synod_payments`].
struct Books {
    payments: Payments,
    length: u32,
}

impl App for Books {
    fn execute(&mut self, _: &At, requests: &mut dyn Iterator<Item = Request<'_>>, replies: &mut Replies) {
        let parsed = |request: Request<'_>| {
            let (payer, operation) = request.body.split_first_chunk::<4>()?;
            Some((u32::from_le_bytes(*payer), u64::from_le_bytes(operation.try_into().ok()?)))
        };
        for request in requests {
            let code = parsed(request).map(|operation| self.payments.execute([operation]));
            let code = code.and_then(|codes| codes.first().map(|code| code.byte()));
            replies.push(Bytes::copy_from_slice(&[code.unwrap_or(u8::MAX)]));
        }
    }

    fn query(&self, _: &[u8]) -> Option<Bytes> {
        None
    }

    fn root(&mut self) -> Hash {
        Tree::new(vec![leaf(&self.chunk(0))]).root()
    }

    fn chunks(&self) -> u32 {
        1
    }

    fn chunk(&self, _: u32) -> Bytes {
        let balances = (0..self.length).filter_map(|id| self.payments.balance(id));
        balances.flat_map(u64::to_le_bytes).collect()
    }

    fn restore(&mut self, _: u32, chunk: &[u8]) -> Result<(), Unrecoverable> {
        let balances = chunk.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let restored = Payments::new(balances);
        self.payments = restored.ok_or_else(|| Unrecoverable("no balances".to_owned()))?;
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.payments.bytes()
    }
}

/// What a cluster is built from.
#[derive(Clone, Copy, Debug)]
pub struct Cluster {
    /// Members.
    pub members: u32,
    /// Clients.
    pub clients: u32,
    /// Payments that each keeps under way.
    pub each: u32,
    /// Length of a bin of the timeline.
    pub bin: Span,
}

struct Plan {
    of: Cluster,
    roster: Roster,
    keyring: Keyring,
    seed: u64,
    resume: RefCell<BTreeMap<NodeId, Position>>,
}

fn cluster() -> Hash {
    Hash::of(b"synod lab cluster")
}

/// A cluster at work.
pub struct Running {
    /// The world.
    pub world: World,
    /// Its clients.
    pub clients: Clients,
}

impl Running {
    /// Goes on until this time.
    ///
    /// # Errors
    /// A machine broke a rule of the simulator, or panicked.
    pub fn run(&mut self, until: Span) -> Result<(), Violation> {
        self.world.run(Time(until.0), &mut self.clients)
    }
}

impl Cluster {
    /// Who leads in the first term.
    #[must_use]
    pub fn leader(&self) -> NodeId {
        Leaders::new(&Weights::equal(self.members), Terms::new(TERM), true).after_tc(View(1))
    }

    /// The member that a client turns to first.
    #[must_use]
    pub const fn nearest(&self, client: u32) -> NodeId {
        NodeId(client % self.members)
    }

    /// The world of a cluster; its clients have not begun.
    ///
    /// # Errors
    /// There are no members, or more than 128.
    pub fn open(self, circumstances: &Circumstances) -> Result<Running, String> {
        let options = circumstances.options();
        let keyring = Keyring::new(options.crypto, options.seed);
        let key = |id: u32| Member { key: keyring.public(u64::from(id)), power: 1 };
        let roster =
            Roster::new(Epoch(0), (0..self.members).map(key).collect()).map_err(|e| e.to_string())?;
        let plan = Plan { of: self, roster, keyring, seed: options.seed, resume: RefCell::default() };
        plan.config(NodeId(0), Position(0)).map_err(|e| e.0)?;
        let member = |id| Seat::new(NodeId(id), &[EXECUTOR, REPLICA]);
        let guests = (0..self.clients).map(|at| Seat {
            region: self.nearest(at).0,
            ..Seat::new(NodeId(NodeId::GUESTS.0 + at), &[EXECUTOR])
        });
        let setup = synod_sim::Setup {
            connector: Box::new(connect),
            links: Box::new(|a, b| (a.is_member() || b.is_member()).then_some(Mode::Connection)),
            options,
            ..synod_sim::Setup::new((0..self.members).map(member).chain(guests).collect(), {
                move |node, machine, log, life| plan.machine(node, machine, log, life)
            })
        };
        let clients = Clients {
            of: self,
            begun: false,
            open: BTreeMap::new(),
            payments: 0,
            timeline: Timeline::new(self.bin),
            unknown: 0,
        };
        Ok(Running { world: World::new(setup), clients })
    }
}

fn connect(node: NodeId, machine: u8, output: Box<dyn core::any::Any + Send>) -> Vec<Routed> {
    let routed = match (node.is_member(), machine) {
        (false, _) => Err(output),
        (true, REPLICA) => output
            .downcast::<Delivered>()
            .map(|delivered| Routed::Machine(EXECUTOR, Box::new(ExecutorInput::Delivered(*delivered)))),
        (true, _) => output.downcast::<ExecutorOutput>().map(|output| match *output {
            ExecutorOutput::Submit(submit) => Routed::Machine(REPLICA, Box::new(submit)),
            other => Routed::Harness(Box::new(other)),
        }),
    };
    vec![routed.unwrap_or_else(Routed::Harness)]
}

impl Plan {
    fn config(&self, own: NodeId, resume: Position) -> Result<Config, synod_hotstuff::Invalid> {
        let identity = Identity { own, cluster: cluster(), roster: self.roster.clone() };
        let parameters =
            Parameters { term_views: TERM, ..Parameters::of(Pack::Chain2Order, self.of.members) };
        Config::new(identity, parameters, resume)
    }

    fn machine(
        &self,
        node: NodeId,
        machine: u8,
        log: LaneLog,
        life: u32,
    ) -> Result<Box<dyn Hosted>, Unrecoverable> {
        let seed = self.seed ^ u64::from(life) << 48;
        let config = HostConfig { own: node, machine, seed, jobs_max: 4_096, checked: false };
        if !node.is_member() {
            return Ok(Box::new(Host::<Client>::open(config, self.client(node, life), log)?));
        }
        if machine == EXECUTOR {
            let host = Host::<Executor<Books>>::open(config, self.executor(node), log)?;
            self.resume.borrow_mut().insert(node, host.machine().resume_position());
            return Ok(Box::new(host));
        }
        let resume = self.resume.borrow().get(&node).copied().unwrap_or_default();
        let replica = self.config(node, resume).map_err(|e| Unrecoverable(e.0.to_owned()))?;
        Ok(Box::new(Host::<Replica>::open(config, replica, log)?))
    }

    fn executor(&self, own: NodeId) -> ExecutorConfig<Books> {
        let length = self.of.clients + 1;
        let payments = Payments::granting(GRANT, length).unwrap_or_default();
        ExecutorConfig {
            app: Books { payments, length },
            own,
            roster: self.roster.clone(),
            cluster: cluster(),
            auth: ClientAuth::Channel,
            limits: ExecutorLimits::default(),
        }
    }

    fn client(&self, node: NodeId, life: u32) -> ClientConfig {
        let trust = Trust::Members(Weights::equal(self.of.members));
        let key: PublicKey = self.keyring.public(u64::from(node.0));
        let at = node.0 - NodeId::GUESTS.0;
        ClientConfig {
            auth: ClientAuth::Channel,
            nearest: self.of.nearest(at),
            ..ClientConfig::new(trust, cluster(), key, u64::from(life))
        }
    }
}

/// The clients of a cluster.
pub struct Clients {
    of: Cluster,
    begun: bool,
    /// When payments that have no outcome were made, by name.
    open: BTreeMap<u64, (u32, Time)>,
    payments: u64,
    /// What was executed when, as clients know.
    pub timeline: Timeline,
    /// Payments whose outcome nobody knows.
    pub unknown: u64,
}

impl Clients {
    fn next(&mut self, client: u32, desk: &mut Desk) {
        self.payments += 1;
        let recipient = (client + 1) % self.of.clients;
        let Some(operation) = synod_payments::operation(recipient, 1) else { return };
        let body = Bytes::from([&client.to_le_bytes()[..], &operation.to_le_bytes()].concat());
        let command = Command { tag: self.payments, body };
        self.open.insert(self.payments, (client, desk.now()));
        let input = ClientInput::Submit { commands: vec![command], deadline: PATIENCE };
        desk.input(NodeId(NodeId::GUESTS.0 + client), EXECUTOR, Span::ZERO, input);
    }
}

impl Harness for Clients {
    fn told(&mut self, told: Told, desk: &mut Desk) {
        let Some(ClientOutput::Outcome { tag, outcome, .. }) = told.output.downcast_ref() else { return };
        let Some((client, since)) = self.open.remove(tag) else { return };
        match outcome {
            Outcome::Accepted { value, .. } if value.first() == Some(&0) => {
                self.timeline.count(told.time, Span(told.time.0.saturating_sub(since.0)));
            }
            _ => self.unknown += 1,
        }
        self.next(client, desk);
    }

    fn refused(&mut self, refused: Refused, desk: &mut Desk) {
        let Some(ClientInput::Submit { commands, .. }) = refused.input.downcast_ref::<ClientInput>() else {
            return;
        };
        for command in commands {
            if let Some((client, _)) = self.open.remove(&command.tag) {
                desk.wake(Span::millis(5), u64::from(client) + 1);
            }
        }
    }

    /// Token 0 begins; another is a client, counted from one, that pays again.
    fn wake(&mut self, token: u64, desk: &mut Desk) {
        match u32::try_from(token).ok().and_then(|token| token.checked_sub(1)) {
            Some(client) => self.next(client, desk),
            None => {
                for client in 0..self.of.clients {
                    (0..self.of.each).for_each(|_| self.next(client, desk));
                }
            }
        }
    }

    fn started(&mut self, _: NodeId, _: u32, desk: &mut Desk) {
        if !self.begun {
            self.begun = true;
            desk.wake(BEGIN, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, Cluster};
    use crate::circumstances::{Circumstances, PriceList, Scale};
    use crate::timeline::later;
    use synod_machine::Span;
    use synod_sim::Loss;

    #[test]
    fn payments_are_ordered_and_a_leader_that_goes_takes_them_along_for_a_while() {
        let circumstances = Circumstances { seed: 3, prices: PriceList::Today, scale: Scale::Quick };
        let cluster = Cluster { members: 4, clients: 3, each: 1, bin: Span::millis(100) };
        let mut running = cluster.open(&circumstances).expect("four members");
        let (crash, end) = (later(BEGIN, Span::secs(1)), later(BEGIN, Span::secs(4)));
        running.run(crash).expect("nothing breaks");
        let before = running.clients.timeline.between(BEGIN, crash);
        running.world.crash(cluster.leader(), Loss::Nothing, None);
        running.run(end).expect("nothing breaks");
        let timeline = &running.clients.timeline;
        assert!(before > 20, "{before} payments in a second");
        assert!(timeline.gap_ms(crash, end) > 100, "{}", timeline.gap_ms(crash, end));
        assert!(timeline.between(later(crash, Span::secs(2)), end) > 20, "they are ordered again");
        assert_eq!(running.clients.unknown, 0);
    }
}
