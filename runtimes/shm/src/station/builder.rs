//! What a station is made from.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::{Keys, Seed};
use synod_machine::Queue;
use synod_machine::host::Hosted;
use synod_quorum::NodeId;

use super::desk::Slot;
use super::lines::Drained;
use super::tick::{Parts, Station};
use crate::connector::{Connector, Observer, Silent};
use crate::doorbell::Ropes;
use crate::error::Error;
use crate::jobs::{Crypto, Jobs};
use crate::lanes::{Fatal, Lane, Lanes};
use crate::line::{QUEUES_MAX, Shape, Spot};
use crate::mailbox::{Handle, Mailbox};

/// A machine and how it is hosted.
pub struct Hosting {
    number: u8,
    hosted: Box<dyn Hosted>,
    routes: BTreeMap<u8, u8>,
    order: Vec<Queue>,
}

impl Hosting {
    /// A machine under its number in the plan, which is that of the peers' machines it speaks to. Its queues are
    /// drained in the order of their numbers.
    #[must_use]
    pub fn new(number: u8, hosted: Box<dyn Hosted>) -> Self {
        Self { number, hosted, routes: BTreeMap::new(), order: Vec::new() }
    }

    /// What it says in these queues is for another machine of the peers.
    #[must_use]
    pub fn route(mut self, number: u8, queues: impl IntoIterator<Item = Queue>) -> Self {
        self.routes.extend(queues.into_iter().map(|queue| (queue.0, number)));
        self
    }

    /// Drains these queues first, in this order, in every tick.
    #[must_use]
    pub fn first(mut self, queues: impl IntoIterator<Item = Queue>) -> Self {
        self.order.extend(queues);
        self
    }
}

/// Which queues a node of the plan has: those of peers are alike.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// In the order of machines and queues; [`Spot::machine`] is the machine of the peer that hears it.
    pub(crate) outgoing: Vec<Spot>,
    /// The same with the machine here that hears it.
    pub(crate) incoming: Vec<Spot>,
    /// The machines that guests speak to.
    pub(crate) for_guests: Vec<u8>,
}

impl Plan {
    /// Whether a peer is spoken to by what this machine of its hears.
    pub(crate) fn hears(&self, peer: NodeId, machine: u8) -> bool {
        peer.is_member() || self.for_guests.contains(&machine)
    }
}

/// Describes a station.
pub struct Builder {
    own: NodeId,
    hostings: Vec<Hosting>,
    lanes: Option<Lanes>,
    crypto: Option<Crypto>,
    connector: Arc<dyn Connector>,
    observer: Arc<dyn Observer>,
    fatal: Fatal,
    for_guests: Vec<u8>,
}

impl Builder {
    /// A node without machines.
    #[must_use]
    pub fn new(own: NodeId) -> Self {
        let fatal: Fatal = Arc::new(|error| {
            tracing::error!(%error, "the journal failed");
            std::process::exit(9)
        });
        Self {
            own,
            hostings: Vec::new(),
            lanes: None,
            crypto: None,
            connector: Arc::new(|_: u8, _, _: &mut crate::Deliveries<'_>| {}),
            observer: Arc::new(Silent),
            fatal,
            for_guests: Vec::new(),
        }
    }

    /// Hosts a machine. Users come before what they use.
    #[must_use]
    pub fn machine(mut self, hosting: Hosting) -> Self {
        self.hostings.push(hosting);
        self
    }

    /// Keeps records in a journal, one lane for each machine in the order they were given; without, a restart forgets
    /// all of them.
    #[must_use]
    pub fn lanes(mut self, lanes: Lanes) -> Self {
        self.lanes = Some(lanes);
        self
    }

    /// Who runs jobs; without, nobody has keys and jobs run between ticks.
    #[must_use]
    pub fn crypto(mut self, crypto: Crypto) -> Self {
        self.crypto = Some(crypto);
        self
    }

    /// Where outputs go; they are dropped without.
    #[must_use]
    pub fn connector(mut self, connector: impl Connector + 'static) -> Self {
        self.connector = Arc::new(connector);
        self
    }

    /// Who hears of faults, rules, notes and links.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// What is called once when the journal fails; without, the process ends with code 9.
    #[must_use]
    pub fn fatal(mut self, fatal: Fatal) -> Self {
        self.fatal = fatal;
        self
    }

    /// The machines that guests speak to.
    #[must_use]
    pub fn for_guests(mut self, machines: &[u8]) -> Self {
        self.for_guests = machines.to_vec();
        self
    }

    /// The station, to be polled by the poller of this bell, and the handle to it.
    ///
    /// # Errors
    /// A plan that cannot work, in words, or a queue that no ring can carry.
    pub fn build(self, bell: &Ropes) -> Result<(Station, Handle), Error> {
        let Self { own, hostings, lanes, crypto, connector, observer, fatal, for_guests } = self;
        let numbers: std::collections::BTreeSet<u8> = hostings.iter().map(|hosting| hosting.number).collect();
        if hostings.is_empty() || numbers.len() != hostings.len() {
            return Err(Error::Plan("a node hosts machines, each under a number of its own"));
        }
        let plan = plan(&hostings, for_guests)?;
        let mailbox = Mailbox::new(hostings.iter().map(|hosting| hosting.number), bell.button()?);
        let count = hostings.len();
        for (hosting, (_, gauge)) in hostings.iter().zip(&mailbox.gauges) {
            gauge.room.store(hosting.hosted.room(), std::sync::atomic::Ordering::Relaxed);
        }
        let lanes = match lanes {
            Some(lanes) => lanes.open(count, &mailbox, fatal)?,
            None => (0..count).map(|_| Lane::volatile()).collect(),
        };
        let drain = Drained::new(drain(&hostings));
        let mut first = 0;
        let mut slots = Vec::with_capacity(count);
        for (hosting, lane) in hostings.into_iter().zip(lanes) {
            let queues = hosting.hosted.queues().len();
            slots.push(Slot {
                number: hosting.number,
                hosted: hosting.hosted,
                lane,
                jobs: Jobs::default(),
                memories: super::memory::Memories::default(),
                inputs: std::collections::VecDeque::new(),
                feeds: Vec::new(),
                first,
                issued: 0,
                reported: 0,
                heard: 0,
            });
            first += queues;
        }
        // Jobs of machines that sign nothing need no secret of anybody's.
        let crypto = crypto.unwrap_or_else(|| Crypto::inline(Keys::ed25519(&Seed::new([0; 32]), [0; 32])));
        let handle = Handle(Arc::clone(&mailbox));
        let parts = Parts { own, plan: Arc::new(plan), slots, drain, mailbox, crypto, connector, observer };
        Ok((Station::new(parts)?, handle))
    }
}

fn plan(hostings: &[Hosting], for_guests: Vec<u8>) -> Result<Plan, Error> {
    let mut plan = Plan { outgoing: Vec::new(), incoming: Vec::new(), for_guests };
    for hosting in hostings {
        for (queue, spec) in (0_u8..).zip(hosting.hosted.queues()) {
            let machine = hosting.routes.get(&queue).copied().unwrap_or(hosting.number);
            plan.outgoing.push(Spot { machine, queue, spec: *spec });
            plan.incoming.push(Spot { machine: hosting.number, queue, spec: *spec });
        }
    }
    if plan.outgoing.len() > QUEUES_MAX {
        return Err(Error::Plan("a node has at most 256 queues"));
    }
    plan.outgoing.iter().try_for_each(|spot| Shape::of(spot).map(drop))?;
    Ok(plan)
}

/// Places of incoming queues in the order in which they are drained, each with the slot that hears it.
fn drain(hostings: &[Hosting]) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    let mut first = 0;
    for (slot, hosting) in hostings.iter().enumerate() {
        let count = hosting.hosted.queues().len();
        let named = hosting.order.iter().map(|queue| usize::from(queue.0)).filter(|queue| *queue < count);
        let mut order: Vec<usize> = named.collect();
        order.extend(
            (0..count).filter(|queue| !hosting.order.iter().any(|first| usize::from(first.0) == *queue)),
        );
        all.extend(order.into_iter().map(|queue| (slot, first + queue)));
        first += count;
    }
    all
}
