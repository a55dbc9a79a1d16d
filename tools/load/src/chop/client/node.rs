//! A load client that runs: sockets, links, threads.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use synod_chopchop::receipt::Receipt;
use synod_chopchop::vocabulary::{BROKER_CLIENTS, CLIENT as TO_CLIENTS};
use synod_crypto::{PublicKey, Seed};
use synod_machine::host::{Host, HostConfig, LaneLog};
use synod_machine::{Condition, Link, Span};
use synod_net::datagram::{LinkLimits, LinkQueues, LinkSockets};
use synod_net::{Busy, Deliveries, Handle, Hosting, Limits, Node, Observer, Role, Transport};
use synod_quorum::NodeId;

use super::config::{Crowd, links};
use super::machine::{Input, LoadClient, Output};
use super::stats::{Account, Stats};

/// The number of the machine, as that of every client.
const MACHINE: u8 = 4;
/// Silence of a link that is never a broker's thinking.
const RTO_MIN: Span = Span::secs(3);
/// Bytes of each socket's buffers.
const BUFFER: u32 = 8 << 20;
/// Pause before an input is offered again.
const AGAIN: Duration = Duration::from_millis(1);

/// Where receipts go; called on the thread that speaks with the brokers.
pub type Receipts = Box<dyn Fn(Box<Receipt>) + Send + Sync>;

/// What a load client is started from.
pub struct LoadSetup {
    /// Whom it plays.
    pub crowd: Crowd,
    /// Name of the cluster.
    pub cluster_name: String,
    /// The brokers: as many as the crowd knows.
    pub brokers: Vec<(SocketAddr, PublicKey)>,
    /// Sockets, 1 to 64: the links are dealt out among them.
    pub sockets: u32,
    /// Threads that sign.
    pub threads: u32,
    /// Where receipts go, if the crowd gives any.
    pub receipts: Option<Receipts>,
}

/// Links that are up.
#[derive(Default)]
struct Linked(AtomicU64);

impl Observer for Linked {
    fn link(&self, _: NodeId, link: Link) {
        match link {
            Link::Up => self.0.fetch_add(1, Ordering::Relaxed),
            Link::Down => self.0.fetch_sub(1, Ordering::Relaxed),
        };
    }
}

/// What went over the sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// Links that are up.
    pub links: u64,
    /// Datagrams sent and their bytes.
    pub sent: (u64, u64),
    /// Datagrams received and their bytes.
    pub received: (u64, u64),
    /// Datagrams that were not sent, for the socket's queue was full.
    pub lost: u64,
}

/// A running load client. Dropping it ends its threads.
pub struct LoadNode {
    node: Option<Node>,
    handle: Handle,
    answers: Mutex<mpsc::Receiver<Output>>,
    linked: Arc<Linked>,
}

impl LoadNode {
    /// Binds the sockets and calls the brokers, in the background.
    ///
    /// # Errors
    /// A crowd that contradicts itself; sockets or threads that the system does not grant.
    pub fn start(setup: LoadSetup) -> anyhow::Result<Self> {
        let LoadSetup { crowd, cluster_name, brokers, sockets, threads, receipts } = setup;
        crowd.check()?;
        anyhow::ensure!(brokers.len() == crowd.brokers as usize, "as many brokers as the crowd knows");
        let is_v6 = brokers.iter().any(|(address, _)| address.is_ipv6());
        let local = if is_v6 { "[::]:0" } else { "0.0.0.0:0" };
        let limits = LinkLimits { rto_min: RTO_MIN, buffer_bytes: BUFFER, ..LinkLimits::default() };
        let sockets = LinkSockets::caller(local, sockets, limits)?;
        let peers = links(&crowd, &brokers);
        let net = synod_net::Config {
            own: NodeId::GUESTS,
            role: Role::Guest,
            seed: Seed::new([1; 32]),
            cluster_name,
            cluster: crowd.cluster.digest(),
            roster: crowd.cluster.roster().clone(),
            transport: Transport::Tls,
            limits: Limits::default(),
        };
        let host =
            HostConfig { own: NodeId::GUESTS, machine: MACHINE, seed: 1, jobs_max: 4_096, checked: false };
        let log = LaneLog { condition: Condition::Fresh, records: Vec::new() };
        let machine = Host::<LoadClient>::open(host, crowd, log).map_err(|why| anyhow::anyhow!("{why}"))?;
        let (tell, answers) = mpsc::channel();
        let tell = Mutex::new(tell);
        let connector = move |_: u8, output: Box<dyn std::any::Any + Send>, _: &mut Deliveries<'_>| {
            match output.downcast::<Output>().map(|output| *output) {
                Ok(Output::Receipt(receipt)) => receipts.iter().for_each(|to| to(receipt.clone())),
                Ok(output) => {
                    // Whoever asked may have gone.
                    let _ = tell.lock().unwrap_or_else(PoisonError::into_inner).send(output);
                }
                Err(_) => {}
            }
        };
        let linked = Arc::new(Linked::default());
        let queues = LinkQueues { inward: TO_CLIENTS, outward: BROKER_CLIENTS };
        let node = Node::builder(net)
            .machine(Hosting::new(MACHINE, Box::new(machine)))
            .pool(threads)
            .connector(connector)
            .observer(linked.clone())
            .dial_links(sockets, MACHINE, queues, peers)
            .start()?;
        Ok(Self { handle: node.handle().clone(), node: Some(node), answers: Mutex::new(answers), linked })
    }

    /// Tells the machine something; waits while it has no room.
    pub fn tell(&self, mut input: Input) {
        while let Err(Busy(back)) = self.handle.input(MACHINE, input) {
            input = back;
            std::thread::sleep(AGAIN);
        }
    }

    fn answer<T>(&self, asked: Input, patience: Duration, of: impl Fn(Output) -> Option<T>) -> Option<T> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + patience;
        self.tell(asked);
        loop {
            let left = until.checked_duration_since(Instant::now())?;
            if let Some(found) = of(answers.recv_timeout(left).ok()?) {
                return Some(found);
            }
        }
    }

    /// What was counted; `None` when the machine does not answer in time.
    #[must_use]
    pub fn stats(&self, patience: Duration) -> Option<Stats> {
        self.answer(Input::Report, patience, |output| match output {
            Output::Stats(stats) => Some(*stats),
            _ => None,
        })
    }

    /// What each member knows of its messages; `None` when the machine does not answer in time.
    #[must_use]
    pub fn accounts(&self, patience: Duration) -> Option<Vec<Account>> {
        self.answer(Input::Accounts, patience, |output| match output {
            Output::Accounts(accounts) => Some(accounts),
            _ => None,
        })
    }

    /// What went over the sockets.
    #[must_use]
    pub fn wire(&self) -> Wire {
        let datagrams = &self.handle.counters().datagrams;
        Wire {
            links: self.linked.0.load(Ordering::Relaxed),
            sent: (datagrams.sent.get(), datagrams.sent_bytes.get()),
            received: (datagrams.received.get(), datagrams.received_bytes.get()),
            lost: datagrams.lost.get(),
        }
    }

    /// Ends the threads.
    ///
    /// # Errors
    /// What ended one of them.
    pub fn stop(mut self) -> anyhow::Result<()> {
        match self.node.take() {
            Some(node) => Ok(node.stop()?),
            None => Ok(()),
        }
    }
}
