//! From a description to running threads.

mod outside;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use synod_crypto::{Keys, PublicKey};
use synod_machine::host::Hosted;
use synod_machine::{Queue, QueueSpec, Wall};
use synod_quorum::NodeId;
use synod_wire::List;
use tokio::sync::watch;

use self::outside::Outside;
use crate::clock::Clock;
use crate::config::{Address, Config, Listener, Role};
use crate::connector::{Connector, Deliveries};
use crate::counters::Counters;
use crate::datagram::{LinkPlan, Links};
use crate::frames::QueueTable;
use crate::handshake::{Hello, Line, Local, Registry, hello_name, nonce, versions};
use crate::journal::{Fatal, Lane, Reports, Volatile};
use crate::mailbox::{Exchange, Gauge, Home, Mailbox};
use crate::node::{Handle, Node};
use crate::observer::{Observer, Silent};
use crate::pool::Pool;
use crate::reactor::{Guests, Lines, Net, NetParts, Reactor, ReactorParts, Slot, SlotParts, Wires};
use crate::{Brake, Error};

/// One machine of a node's plan.
pub struct Hosting {
    number: u8,
    hosted: Box<dyn Hosted>,
    lane: Lane,
    reactor: usize,
    memory: Option<(u8, Vec<QueueSpec>)>,
    routes: BTreeMap<u8, u8>,
}

impl Hosting {
    /// Hosts `hosted` under its fixed number, which peers know it by, on reactor 0 and with a volatile lane.
    #[must_use]
    pub fn new(number: u8, hosted: Box<dyn Hosted>) -> Self {
        Self { number, hosted, lane: Volatile::lane(), reactor: 0, memory: None, routes: BTreeMap::new() }
    }

    /// Writes the machine's records to this lane.
    #[must_use]
    pub fn lane(mut self, lane: Lane) -> Self {
        self.lane = lane;
        self
    }

    /// Runs the machine on reactor `number`: 0 is the one with the sockets, each other is a thread of its own.
    #[must_use]
    pub const fn reactor(mut self, number: usize) -> Self {
        self.reactor = number;
        self
    }

    /// Sends what the machine says on these queues to machine `number` of its peers instead of to their machine of its
    /// own number: roles of one vocabulary share one numbering of queues.
    #[must_use]
    pub fn route(mut self, number: u8, queues: impl IntoIterator<Item = Queue>) -> Self {
        self.routes.extend(queues.into_iter().map(|queue| (queue.0, number)));
        self
    }

    /// Sends the machine's register operations to machine `number` of the memory nodes, on the first of
    /// queues like these.
    #[must_use]
    pub fn memory(mut self, number: u8, queues: Vec<QueueSpec>) -> Self {
        self.memory = Some((number, queues));
        self
    }
}

/// Describes a node: machines, connectors, addresses. [`NodeBuilder::start`] makes its threads.
///
/// ```no_run
/// # fn example(config: synod_net::Config, replica: Box<dyn synod_machine::host::Hosted>,
/// #     executor: Box<dyn synod_machine::host::Hosted>, keys: synod_crypto::Keys) -> Result<(), synod_net::Error> {
/// use synod_net::{Hosting, Listener, Node};
/// let listener = Listener::tcp("127.0.0.1:0")?;
/// let node = Node::builder(config)
///     .listen(listener)
///     .keys(keys)
///     .pool(1)
///     .machine(Hosting::new(0, replica))
///     .machine(Hosting::new(1, executor).reactor(1))
///     .connector(|machine, output: Box<dyn core::any::Any + Send>, deliveries: &mut synod_net::Deliveries<'_>| {
///         if machine == 0 && let Ok(entry) = output.downcast::<u64>() {
///             deliveries.input(1, *entry);
///         }
///     })
///     .start()?;
/// node.handle().input(0, 7_u64).map_err(|_| synod_net::Error::Config("busy".to_owned()))?;
/// node.stop()
/// # }
/// ```
pub struct NodeBuilder {
    config: Config,
    machines: Vec<Hosting>,
    plan: Option<Vec<u8>>,
    connector: Arc<dyn Connector>,
    observer: Arc<dyn Observer>,
    pub(crate) fatal: Fatal,
    pub(crate) brake: Brake,
    keys: Option<Keys>,
    threads: u32,
    peers: Option<Listener>,
    guests: Option<Listener>,
    for_guests: Vec<u8>,
    named: Vec<PublicKey>,
    addresses: BTreeMap<NodeId, Address>,
    pub(crate) links: LinkPlan,
}

impl NodeBuilder {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            machines: Vec::new(),
            plan: None,
            connector: Arc::new(|_: u8, _: Box<dyn core::any::Any + Send>, _: &mut Deliveries<'_>| {}),
            observer: Arc::new(Silent),
            fatal: Arc::new(|error| {
                tracing::error!(%error, "the node stops");
                std::process::exit(9);
            }),
            brake: Brake::default(),
            keys: None,
            threads: 0,
            peers: None,
            guests: None,
            for_guests: Vec::new(),
            named: Vec::new(),
            addresses: BTreeMap::new(),
            links: LinkPlan::default(),
        }
    }

    /// Adds a machine; numbers are distinct and below 255.
    #[must_use]
    pub fn machine(mut self, hosting: Hosting) -> Self {
        self.machines.push(hosting);
        self
    }

    /// Names the machines of the whole plan, in an order all nodes share; by default those hosted here. Members whose
    /// plans differ refuse each other, so nodes that host different parts of one plan name all of it.
    #[must_use]
    pub fn plan(mut self, machines: &[u8]) -> Self {
        self.plan = Some(machines.to_vec());
        self
    }

    /// Says where outputs go; without it they are dropped.
    #[must_use]
    pub fn connector(mut self, connector: impl Connector + 'static) -> Self {
        self.connector = Arc::new(connector);
        self
    }

    /// Says who hears faults, notes and links.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// The keys jobs see; by default Ed25519 keys of the node's own secret.
    #[must_use]
    pub fn keys(mut self, keys: Keys) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Threads for jobs; 0 runs them on the reactor.
    #[must_use]
    pub const fn pool(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    /// Listens for members.
    #[must_use]
    pub fn listen(mut self, listener: Listener) -> Self {
        self.peers = Some(listener);
        self
    }

    /// Listens for guests, who may speak to `machines` and to no other.
    #[must_use]
    pub fn listen_guests(mut self, listener: Listener, machines: &[u8]) -> Self {
        self.guests = Some(listener);
        self.for_guests = machines.to_vec();
        self
    }

    /// Names guests: each of these keys has the id [`NodeId::GUESTS`] plus its place whenever it is connected, always finds
    /// room, and may say as much as a member, to the machines that are open to guests.
    #[must_use]
    pub fn named_guests(mut self, keys: Vec<PublicKey>) -> Self {
        self.named = keys;
        self
    }

    /// Says where a member listens; a guest's node gives client listeners here.
    #[must_use]
    pub fn address(mut self, member: NodeId, address: Address) -> Self {
        self.addresses.insert(member, address);
        self
    }

    /// Starts the node's threads.
    ///
    /// # Errors
    /// [`Error::Config`] when the description contradicts itself, [`Error::Thread`] when a thread cannot start.
    pub fn start(mut self) -> Result<Node, Error> {
        let reactors = self.check()?;
        let table = self.table()?;
        let clock = Clock::start();
        let counters = Arc::new(Counters::new(self.config.roster.size()));
        let mailboxes: Vec<Arc<Mailbox>> = (0..reactors).map(|_| Arc::default()).collect();
        let exchange = Arc::new(self.exchange(&mailboxes));
        let local = Arc::new(self.local(clock, table.clone())?);
        let keys = self.keys.take().unwrap_or_else(|| Keys::ed25519(&self.config.seed, nonce()));

        let hosted: Vec<u8> = self.machines.iter().map(|hosting| hosting.number).collect();
        let vouching = (local.keys.clone(), self.config.cluster);
        let links =
            core::mem::take(&mut self.links).parts(&hosted, &table, self.guests.is_some(), vouching)?;
        let size = self.config.roster.size();
        let (signals, lines): (Vec<_>, Vec<_>) = (0..size).map(|_| watch::channel(Lines::default())).unzip();
        let (addresses, wanted): (Vec<_>, Vec<_>) =
            (0..size).map(|at| watch::channel(self.addresses.get(&NodeId(at)).cloned())).unzip();
        let guests = Guests::default();
        let net = Net::new(NetParts {
            role: self.config.role,
            members: size,
            limits: self.config.limits,
            table,
            counters: counters.clone(),
            registry: local.registry.clone(),
            guests: guests.clone(),
            named: core::mem::take(&mut self.named),
            signals,
            observer: self.observer.clone(),
            bell: mailboxes[0].bell.clone(),
            links: links.map(|links| Links::new(links, counters.clone(), mailboxes[0].bell.clone())),
        });
        let outside = self.outside(&local, &mailboxes[0], &counters)?.with_calls(lines, wanted);
        let handle = Handle {
            exchange: exchange.clone(),
            counters: counters.clone(),
            guests,
            registry: local.registry.clone(),
            addresses: Arc::new(addresses),
        };
        let (pool, workers) = Pool::start(self.threads, Arc::new(keys), counters.clone())?;
        // From here on an early return drops the node, which ends the threads that already run.
        let mut node = Node { handle, reactors: Vec::new(), workers, pool };
        let (mut net, mut outside) = (Some(net), Some(outside));
        for (number, slots) in self.slots(&exchange, &mailboxes).into_iter().enumerate() {
            let wires = match net.take() {
                Some(net) => Wires::Own(Box::new(net)),
                None => Wires::Remote(mailboxes[0].clone()),
            };
            let parts = ReactorParts {
                number,
                clock,
                slots,
                wires,
                mailbox: mailboxes[number].clone(),
                exchange: exchange.clone(),
                connector: self.connector.clone(),
                observer: self.observer.clone(),
                pool: node.pool.clone(),
                counters: counters.clone(),
            };
            node.reactors.push(spawn(parts, outside.take())?);
        }
        Ok(node)
    }

    /// The number of reactors.
    fn check(&self) -> Result<usize, Error> {
        let wrong = |why: &str| Err(Error::Config(why.to_owned()));
        let (own, size) = (self.config.own, self.config.roster.size());
        match self.config.role {
            Role::Member if self.config.roster.member(own).is_none() => return wrong("own is no member"),
            Role::Member => {
                let key = self.config.roster.member(own).map(|member| member.key);
                if key != Some(self.config.seed.public()) {
                    return wrong("the secret is not that of the member's key");
                }
            }
            Role::Guest if own.is_member() => return wrong("a guest's id is no member's"),
            Role::Guest if self.peers.is_some() || self.guests.is_some() => {
                return wrong("a guest does not listen");
            }
            Role::Guest => {}
        }
        if self.addresses.keys().any(|member| member.0 >= size || *member == own) {
            return wrong("an address is of another member");
        }
        let used: BTreeSet<usize> = self.machines.iter().map(|hosting| hosting.reactor).collect();
        let last = used.last().copied().unwrap_or(0);
        if (1..=last).any(|number| !used.contains(&number)) {
            return wrong("reactors are numbered without holes");
        }
        Ok(last + 1)
    }

    fn table(&self) -> Result<Arc<QueueTable>, Error> {
        let mut machines: Vec<(u8, &[QueueSpec])> = Vec::new();
        for hosting in &self.machines {
            machines.push((hosting.number, hosting.hosted.queues()));
            if let Some((number, queues)) = &hosting.memory {
                machines.push((*number, queues));
            }
        }
        let mut abroad = Vec::new();
        for hosting in &self.machines {
            for number in hosting.routes.values() {
                if machines.iter().all(|(known, _)| known != number) {
                    machines.push((*number, hosting.hosted.queues()));
                    abroad.push(*number);
                }
            }
        }
        let taken = || Error::Config("machine numbers are distinct and below 255".to_owned());
        QueueTable::new(&machines)
            .map(|table| Arc::new(table.open(&self.for_guests).abroad(&abroad)))
            .ok_or_else(taken)
    }

    fn exchange(&self, mailboxes: &[Arc<Mailbox>]) -> Exchange {
        let homes = self.machines.iter().map(|hosting| {
            let gauge = Gauge::default();
            gauge.room.store(hosting.hosted.room(), Ordering::Relaxed);
            let mailbox = mailboxes[hosting.reactor].clone();
            (hosting.number, Home { mailbox, gauge: Arc::new(gauge) })
        });
        Exchange {
            machines: homes.collect(),
            mailboxes: mailboxes.to_vec(),
            inputs_max: self.config.limits.inputs_max,
            brake: self.brake.clone(),
        }
    }

    fn local(&self, clock: Clock, table: Arc<QueueTable>) -> Result<Local, Error> {
        let config = &self.config;
        let hosted = || self.machines.iter().map(|hosting| hosting.number).collect();
        let numbers = self.plan.clone().unwrap_or_else(hosted);
        let machines =
            List::try_from(numbers).map_err(|_| Error::Config("at most 64 machines".to_owned()))?;
        let (oldest, newest) = versions();
        let [a, b, c, d, e, f, g, h, ..] = nonce();
        let hello = Hello {
            oldest,
            newest,
            cluster: config.cluster,
            name: hello_name(&config.cluster_name)?,
            epoch: config.roster.epoch(),
            role: config.role,
            line: Line::Main,
            machines,
            instance: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            wall: Wall(0),
            key: config.seed.public(),
        };
        Ok(Local {
            hello,
            own: config.own,
            roster: config.roster.clone(),
            keys: Arc::new(Keys::ed25519(&config.seed, nonce())),
            registry: Registry::default(),
            clock,
            table,
            skew_ms: config.limits.clock_skew.map(synod_machine::Span::as_millis),
        })
    }

    fn slots(&mut self, exchange: &Arc<Exchange>, mailboxes: &[Arc<Mailbox>]) -> Vec<Vec<Slot>> {
        let mut slots: Vec<Vec<Slot>> = mailboxes.iter().map(|_| Vec::new()).collect();
        for hosting in self.machines.drain(..) {
            let Hosting { number, hosted, lane, reactor, memory, routes } = hosting;
            let reports = Arc::new(Reports {
                machine: number,
                durable: Default::default(),
                mailbox: mailboxes[reactor].clone(),
                exchange: exchange.clone(),
                fatal: self.fatal.clone(),
            });
            slots[reactor].push(Slot::new(SlotParts {
                number,
                hosted,
                lane: lane(reports.clone()),
                reports,
                gauge: exchange.machines[&number].gauge.clone(),
                jobs_per_second: self.config.limits.jobs_per_second,
                memory: memory.map(|(number, _)| number),
                routes,
            }));
        }
        slots
    }
}

fn spawn(parts: ReactorParts, outside: Option<Outside>) -> Result<JoinHandle<()>, Error> {
    let failed = |error: std::io::Error| Error::Thread(error.to_string());
    // The runtime is made here, so that its failure is an error of the start and not a silent thread.
    let (made, told) = mpsc::sync_channel(1);
    let name = format!("synod-reactor-{}", parts.number);
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(made.send(Err(error))),
        };
        let _ = made.send(Ok(()));
        runtime.block_on(async move {
            if let Some(outside) = outside {
                outside.spawn();
            }
            Reactor::new(parts).run().await;
        });
    });
    let thread = thread.map_err(failed)?;
    match told.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => Err(Error::Thread("a reactor ended before it began".to_owned())),
    }
}
