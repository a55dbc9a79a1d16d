//! A running node: its threads, and the handle through which the rest of the process speaks to it.

use core::any::Any;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use synod_crypto::PublicKey;
use synod_quorum::NodeId;
use tokio::sync::watch;

use crate::config::Address;
use crate::counters::Counters;
use crate::handshake::Registry;
use crate::mailbox::{Exchange, Mail};
use crate::pool::Pool;
use crate::reactor::Guests;
use crate::{Busy, Config, Error, NodeBuilder};

/// A node's threads. Dropping it stops them and waits.
pub struct Node {
    pub(crate) handle: Handle,
    pub(crate) reactors: Vec<JoinHandle<()>>,
    pub(crate) workers: Vec<JoinHandle<()>>,
    pub(crate) pool: Pool,
}

/// Speaks to a node from any thread; cheap to copy.
#[derive(Clone)]
pub struct Handle {
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) guests: Guests,
    pub(crate) registry: Registry,
    pub(crate) addresses: Arc<Vec<watch::Sender<Option<Address>>>>,
}

impl Node {
    /// Starts describing a node; see [`NodeBuilder`].
    #[must_use]
    pub fn builder(config: Config) -> NodeBuilder {
        NodeBuilder::new(config)
    }

    /// The handle of this node.
    #[must_use]
    pub const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Stops every thread: links close, queued frames are lost, appended records are with the journal.
    ///
    /// # Errors
    /// [`Error::Thread`] when a thread ended by a panic.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end()
    }

    /// Waits until the node's reactors end by themselves: after its brake was pulled, or a journal
    /// failed and the fatal hook returned.
    ///
    /// # Errors
    /// [`Error::Thread`] when a thread ended by a panic.
    pub fn wait(mut self) -> Result<(), Error> {
        let ended = join(self.reactors.drain(..));
        self.end().and(ended)
    }

    fn end(&mut self) -> Result<(), Error> {
        self.handle.exchange.mailboxes.iter().for_each(|mailbox| mailbox.push(Mail::Stop));
        let reactors = join(self.reactors.drain(..));
        self.pool.stop();
        reactors.and(join(self.workers.drain(..)))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A panic of a thread was printed by the thread; `stop` is for those who want to know.
        let _ = self.end();
    }
}

fn join(threads: impl Iterator<Item = JoinHandle<()>>) -> Result<(), Error> {
    let mut ended = Ok(());
    for thread in threads {
        let name = thread.thread().name().unwrap_or("unnamed").to_owned();
        if thread.join().is_err() {
            ended = Err(Error::Thread(format!("thread {name} panicked")));
        }
    }
    ended
}

impl Handle {
    /// Offers an input to a machine; it must be of the machine's input type.
    ///
    /// # Errors
    /// [`Busy`] gives the input back when the machine has no room, or there is no such machine.
    pub fn input<I: Any + Send>(&self, machine: u8, input: I) -> Result<(), Busy<I>> {
        self.exchange.offer(machine, Box::new(input)).map_err(|Busy(input)| match input.downcast::<I>() {
            Ok(input) => Busy(*input),
            Err(_) => unreachable!("the box that was offered comes back"),
        })
    }

    /// Inputs `machine` would take now; 0 for an unknown machine.
    #[must_use]
    pub fn room(&self, machine: u8) -> u32 {
        self.exchange.machines.get(&machine).map_or(0, |home| {
            let room = home.gauge.room.load(Ordering::Relaxed).min(self.exchange.inputs_max);
            room.saturating_sub(home.gauge.inputs.load(Ordering::Relaxed))
        })
    }

    /// Says that the machine of a damaged lane has rejoined by its protocol's rule: the next compaction makes its lane
    /// clean.
    pub fn readmit(&self, machine: u8) {
        if let Some(home) = self.exchange.machines.get(&machine) {
            home.mailbox.push(Mail::Readmit { machine });
        }
    }

    /// Bytes a machine holds and its formula's value, sampled some times a second.
    #[must_use]
    pub fn memory(&self, machine: u8) -> Option<(u64, u64)> {
        let gauge = &self.exchange.machines.get(&machine)?.gauge;
        Some((gauge.bytes.load(Ordering::Relaxed), gauge.bytes_max.load(Ordering::Relaxed)))
    }

    /// The node's counters.
    #[must_use]
    pub const fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Processes that spoke with the key of a live one, and whose Hellos are kept with that one's: key, live instance,
    /// refused instance. The first 16 pairs.
    #[must_use]
    pub fn second_instances(&self) -> Vec<(PublicKey, u64, u64)> {
        self.registry.pairs()
    }

    /// The key of a connected guest.
    #[must_use]
    pub fn guest(&self, guest: NodeId) -> Option<PublicKey> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner).get(&guest).copied()
    }

    /// Tells where a member listens, or that it is not to be dialled; takes effect at the next dial.
    pub fn set_address(&self, member: NodeId, address: Option<Address>) {
        let sender = usize::try_from(member.0).ok().and_then(|at| self.addresses.get(at));
        if let Some(sender) = sender {
            sender.send_replace(address);
        }
    }
}
