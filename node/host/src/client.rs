//! The client library: a session with a cluster that believes nobody alone.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use synod_config::{Genesis, Protocol, SynError, code};
use synod_crypto::Seed;
use synod_machine::host::{Host, HostConfig, Hosted};
use synod_machine::{Condition, Span};
use synod_net::{Address, Deliveries, Handle, Hosting, Node, Role, Transport};
use synod_quorum::NodeId;
use synod_service::client::SendMode;
use synod_service::matching::Trust;
use synod_service::{Client, ClientConfig, ClientInput, ClientOutput, Command, Outcome as Result_, ReadMode};
use tokio::sync::oneshot;

use crate::backend::{Backend, Call, Mode, Outcome, RequestId};
use crate::error::network;
use crate::plan::{self, EXECUTOR};
use crate::random;
use crate::settings::authentication;
use crate::ubft::Front;
use crate::watch::Watch;

/// Most operations of one call.
pub const OPERATIONS_MAX: usize = 1 << 16;

/// How a client reaches and believes its cluster.
pub struct ClientSetup {
    /// The cluster.
    pub genesis: Genesis,
    /// Client addresses by member; those left out are not asked.
    pub addresses: Vec<(NodeId, String)>,
    /// Whether every command goes to all members at once.
    pub send_all: bool,
    /// `verified` beside the user, `gateway` inside a node.
    pub trust: &'static str,
    /// The member to ask first.
    pub nearest: NodeId,
    /// Sessions to spread lanes over.
    pub sessions: usize,
    /// Believes this member alone: for audits that look at one node, and for nothing else.
    pub believe: Option<NodeId>,
}

/// Who a client is. A later process with the same key, number and session asks again for what an earlier one asked: the
/// same operations in the same order have the same names, and none is executed twice.
#[derive(Clone)]
pub struct Identity {
    /// Signs the session's frames.
    pub key: Seed,
    /// Tells the session from others of the key.
    pub number: u64,
    /// The session of the earlier process. If the cluster has closed it meanwhile, nothing is sent.
    pub resume: Option<u64>,
    /// The first number of its requests: 1, or behind those of earlier processes, which it does not ask for again.
    pub first: u64,
}

impl Identity {
    /// A new one, from the system's randomness.
    ///
    /// # Panics
    /// When the system has no randomness.
    #[must_use]
    pub fn draw() -> Self {
        Self { key: Seed::new(random::bytes()), number: random::number(), resume: None, first: 1 }
    }
}

struct Pending {
    outcomes: Vec<Option<Outcome>>,
    missing: usize,
    reply: oneshot::Sender<Vec<Outcome>>,
}

#[derive(Default)]
struct Calls {
    pending: Mutex<HashMap<u64, Pending>>,
    /// The cluster's name for the session once it is open, else 0.
    session: AtomicU64,
}

/// One session: a guest node with one client machine.
struct Session {
    _node: Node,
    handle: Handle,
    calls: Arc<Calls>,
}

/// Sessions by what the cluster's members understand.
enum Sessions {
    /// Ordered frames, executed by executors.
    Framed(Vec<Session>),
    /// Requests of uBFT.
    Ubft(Vec<Front>),
}

/// A cluster as its users reach it: every result is the word of f + 1 members.
pub struct ClusterClient {
    sessions: Sessions,
    next: AtomicU64,
    watch: Arc<Watch>,
    trust: &'static str,
    genesis: Genesis,
}

impl ClusterClient {
    /// Opens the sessions; connections are made in the background and made again when they break.
    ///
    /// # Errors
    /// The code of the thread or description that was refused.
    pub fn connect(setup: &ClientSetup) -> Result<Self, SynError> {
        let identities = (0..setup.sessions.max(1)).map(|_| Identity::draw());
        Self::connect_all(setup, identities)
    }

    /// Opens one session of this identity.
    ///
    /// # Errors
    /// Those of [`Self::connect`].
    pub fn connect_as(setup: &ClientSetup, identity: Identity) -> Result<Self, SynError> {
        Self::connect_all(setup, std::iter::once(identity))
    }

    /// The same with a cluster of uBFT, but the client runs inside what `wrap` makes of it: for tests in which a client lies.
    ///
    /// # Errors
    /// Those of [`Self::connect`]; unsupported with any other cluster.
    pub fn connect_hosted(
        setup: &ClientSetup,
        identity: Identity,
        wrap: impl FnOnce(u8, Box<dyn Hosted>) -> Box<dyn Hosted>,
    ) -> Result<Self, SynError> {
        if setup.genesis.cluster().protocol != Protocol::Ubft {
            let what = "a client that lies to a cluster that is not ubft";
            return Err(SynError::of(code::UNSUPPORTED, &[("verb", what)]));
        }
        let watch = Arc::new(Watch::default());
        let sessions = Sessions::Ubft(vec![Front::open(setup, identity, &watch, wrap)?]);
        Ok(Self::over(setup, sessions, watch))
    }

    fn connect_all(
        setup: &ClientSetup,
        identities: impl Iterator<Item = Identity>,
    ) -> Result<Self, SynError> {
        if setup.genesis.pay().is_some() {
            return Err(SynError::of(code::UNSUPPORTED, &[("verb", "a session with a payment system")])
                .because("payments are not ordered; `synod pay` speaks with the node of an institution"));
        }
        let watch = Arc::new(Watch::default());
        let sessions = if setup.genesis.cluster().protocol == Protocol::Ubft {
            let open = |identity| Front::open(setup, identity, &watch, |_, hosted| hosted);
            Sessions::Ubft(identities.map(open).collect::<Result<_, _>>()?)
        } else {
            let open = |identity| session(setup, identity, &watch);
            Sessions::Framed(identities.map(open).collect::<Result<_, _>>()?)
        };
        Ok(Self::over(setup, sessions, watch))
    }

    fn over(setup: &ClientSetup, sessions: Sessions, watch: Arc<Watch>) -> Self {
        let genesis = setup.genesis.clone();
        Self { sessions, next: AtomicU64::new(0), watch, trust: setup.trust, genesis }
    }

    /// What was seen of the members: links and contradictions.
    #[must_use]
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The name of the `sequence`th operation of the first session; `None` until that is open.
    #[must_use]
    pub fn request(&self, sequence: u64) -> Option<RequestId> {
        let session = match &self.sessions {
            Sessions::Framed(sessions) => sessions.first()?.calls.session.load(Ordering::Relaxed),
            Sessions::Ubft(fronts) => fronts.first()?.session()?,
        };
        (session > 0).then(|| RequestId { cluster: self.genesis.id(), session, sequence })
    }

    /// Calls and waits.
    ///
    /// # Errors
    /// [`Outcome::Unknown`] stands for every operation when the client stops meanwhile.
    pub async fn ask(
        &self,
        operations: Vec<crate::Operation>,
        deadline: std::time::Duration,
    ) -> Vec<Outcome> {
        let (reply, answer) = oneshot::channel();
        let count = operations.len();
        self.call(Call { lane: 0, operations, deadline, reply });
        answer.await.unwrap_or_else(|_| vec![Outcome::Unknown(None); count])
    }
}

fn session(setup: &ClientSetup, identity: Identity, watch: &Arc<Watch>) -> Result<Session, SynError> {
    let Identity { key: seed, number, resume, first } = identity;
    let roster = setup.genesis.roster();
    let trust = match setup.believe {
        Some(node) => Trust::Gateway(node),
        None => Trust::Members(roster.weights().clone()),
    };
    let mut config = ClientConfig::new(trust, setup.genesis.id(), seed.public(), number);
    config.resume = resume;
    config.first = first;
    config.auth = authentication(&setup.genesis);
    config.nearest = setup.nearest;
    config.send = if setup.send_all { SendMode::All } else { SendMode::One };
    config.window = setup.genesis.parameters().session_window;
    let own = NodeId::GUESTS;
    let host = HostConfig {
        own,
        machine: EXECUTOR,
        seed: random::number(),
        jobs_max: 4_096,
        checked: cfg!(debug_assertions),
    };
    let machine = Host::<Client>::open(host, config, plan::empty(Condition::Fresh))
        .map_err(|why| crate::error::invalid(&why.to_string()))?;
    let calls = Arc::new(Calls::default());
    let to = calls.clone();
    let cluster = setup.genesis.id();
    let connector = move |_: u8, output: Box<dyn Any + Send>, _: &mut Deliveries<'_>| {
        let Ok(output) = output.downcast::<ClientOutput>() else { return };
        match *output {
            ClientOutput::Ready { session } => to.session.store(session, Ordering::Relaxed),
            ClientOutput::Outcome { tag, id, outcome } => {
                let name = RequestId { cluster, session: id.session, sequence: id.sequence };
                to.settle(tag, translate(outcome, name));
            }
            ClientOutput::Closed => {}
        }
    };
    let net = synod_net::Config {
        own,
        role: Role::Guest,
        seed,
        cluster_name: setup.genesis.cluster().name.clone(),
        cluster,
        roster: roster.clone(),
        transport: Transport::Tls,
        limits: synod_net::Limits::default(),
    };
    let mut builder = Node::builder(net)
        .machine(Hosting::new(EXECUTOR, Box::new(machine)))
        .connector(connector)
        .observer(watch.clone());
    for (member, address) in &setup.addresses {
        builder = builder.address(*member, Address::Tcp(address.clone()));
    }
    let node = builder.start().map_err(|e| network(&e))?;
    Ok(Session { handle: node.handle().clone(), _node: node, calls })
}

fn translate(outcome: Result_, name: RequestId) -> Outcome {
    match outcome {
        Result_::Accepted { value, position, .. } => Outcome::Accepted { value, position: position.0 },
        Result_::Rejected(why) => Outcome::Rejected { code: why.code(), retry_ms: 0 },
        Result_::Unknown(_, _) => Outcome::Unknown((name.sequence > 0).then_some(name)),
    }
}

const fn tag(call: u64, index: u64) -> u64 {
    call << 16 | index
}

impl Calls {
    fn pending(&self) -> MutexGuard<'_, HashMap<u64, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes one outcome; answers the call with its last.
    fn settle(&self, tag: u64, outcome: Outcome) {
        let mut pending = self.pending();
        let (call, index) = (tag >> 16, usize::try_from(tag & 0xffff).unwrap_or(usize::MAX));
        let Some(waiting) = pending.get_mut(&call) else { return };
        if let Some(place) = waiting.outcomes.get_mut(index)
            && place.is_none()
        {
            *place = Some(outcome);
            waiting.missing -= 1;
        }
        if waiting.missing == 0
            && let Some(done) = pending.remove(&call)
        {
            drop(pending);
            let outcomes = done.outcomes.into_iter().flatten().collect();
            // A caller that went away no longer wants its answer.
            let _ = done.reply.send(outcomes);
        }
    }
}

/// Inputs of one call: runs of ordered operations share a submission, reads go one by one.
fn inputs(call: u64, operations: Vec<crate::Operation>, deadline: Span) -> Vec<ClientInput> {
    let mut inputs = Vec::new();
    let mut commands: Vec<Command> = Vec::new();
    for (index, operation) in (0_u64..).zip(operations) {
        let (tag, body) = (tag(call, index), operation.body);
        let mode = match operation.mode {
            Mode::Ordered => {
                commands.push(Command { tag, body });
                continue;
            }
            Mode::Quorum => ReadMode::Quorum,
            Mode::Local => ReadMode::Local,
        };
        if !commands.is_empty() {
            inputs.push(ClientInput::Submit { commands: std::mem::take(&mut commands), deadline });
        }
        inputs.push(ClientInput::Query { tag, question: body.clone(), mode, fallback: Some(body), deadline });
    }
    if !commands.is_empty() {
        inputs.push(ClientInput::Submit { commands, deadline });
    }
    inputs
}

fn tags(input: &ClientInput) -> Vec<u64> {
    match input {
        ClientInput::Submit { commands, .. } => commands.iter().map(|command| command.tag).collect(),
        ClientInput::Query { tag, .. } => vec![*tag],
        ClientInput::Close => Vec::new(),
    }
}

impl Backend for ClusterClient {
    fn call(&self, call: Call) {
        let Call { lane, mut operations, deadline, reply } = call;
        operations.truncate(OPERATIONS_MAX);
        if operations.is_empty() {
            let _ = reply.send(Vec::new());
            return;
        }
        let lane_of = |count: usize| usize::try_from(lane).unwrap_or(0) % count.max(1);
        let sessions = match &self.sessions {
            Sessions::Framed(sessions) => sessions,
            Sessions::Ubft(fronts) => {
                if let Some(front) = fronts.get(lane_of(fronts.len())) {
                    front.call(Call { lane, operations, deadline, reply });
                }
                return;
            }
        };
        let id = self.next.fetch_add(1, Ordering::Relaxed) & (u64::MAX >> 16);
        let Some(session) = sessions.get(lane_of(sessions.len())) else { return };
        let count = operations.len();
        let pending = Pending { outcomes: vec![None; count], missing: count, reply };
        session.calls.pending().insert(id, pending);
        let deadline = Span(u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX).max(1));
        for input in inputs(id, operations, deadline) {
            if let Err(refused) = session.handle.input(EXECUTOR, input) {
                for tag in tags(&refused.0) {
                    session.calls.settle(tag, Outcome::Rejected { code: 3_402, retry_ms: 10 });
                }
            }
        }
    }

    fn trust(&self) -> &'static str {
        self.trust
    }

    fn status(&self) -> serde_json::Value {
        let seen = self.watch.look();
        let members: Vec<serde_json::Value> = (0_u32..)
            .zip(self.genesis.members())
            .map(|(id, member)| {
                let connected = seen.up.get(&id).copied().unwrap_or(false);
                let faults: u64 =
                    seen.faults.iter().filter(|((peer, _), _)| *peer == id).map(|(_, n)| n).sum();
                serde_json::json!({ "name": member.name, "connected": connected, "contradictions": faults })
            })
            .collect();
        serde_json::json!({
            "schema": "synod-status/1",
            "cluster": self.genesis.cluster().name,
            "id": self.genesis.id().to_string(),
            "rules": self.genesis.parameters().rules.as_str(),
            "trust": self.trust,
            "members": members,
        })
    }
}
