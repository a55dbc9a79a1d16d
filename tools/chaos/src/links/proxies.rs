//! The proxies of a cluster.

use super::carry;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How one directed link behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// Everything passes.
    #[default]
    Pass,
    /// Nothing passes; connections stay, and what was held passes afterwards.
    Hold,
    /// Everything passes so much later.
    Late(Duration),
    /// One byte a second passes.
    Drip,
}

/// Which member dialled a connection, by the port it dialled from and the port it dialled.
pub type Who = Arc<dyn Fn(u16, u16) -> Option<usize> + Send + Sync>;

/// What happened to connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections between members that were carried.
    pub connections: u64,
    /// Those that were reset.
    pub reset: u64,
    /// Those that were closed to one side only.
    pub half_open: u64,
    /// Those in which a byte was changed.
    pub corrupted: u64,
}

/// What a directed link does now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) manner: Manner,
    /// Changes one byte of the next chunk of each connection whenever it grows.
    pub(super) corrupt: u64,
}

/// How a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// With a reset to both sides.
    Reset,
    /// With a reset to the dialler; the other side is told nothing.
    TellDialler,
    /// With a reset to the member that was dialled; the dialler is told nothing.
    TellDialled,
}

/// A connection that is open.
struct Open {
    dialler: usize,
    dialled: usize,
    order: watch::Sender<Option<Order>>,
    is_corrupted: bool,
}

/// What the thread and its owner share.
pub(super) struct Shared {
    members: Vec<SocketAddr>,
    links: Vec<watch::Sender<State>>,
    open: Mutex<BTreeMap<u64, Open>>,
    next: AtomicU64,
    counts: Mutex<Counts>,
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self, from: usize, to: usize) -> Option<&watch::Sender<State>> {
        if from >= self.members.len() || to >= self.members.len() {
            return None;
        }
        self.links.get(from * self.members.len() + to)
    }

    pub(super) fn corrupted(&self, connection: u64) {
        self.counts().corrupted += 1;
        if let Some(open) = self.open().get_mut(&connection) {
            open.is_corrupted = true;
        }
    }
}

/// The proxies of a cluster. Dropping it ends all connections.
pub struct Links {
    shared: Arc<Shared>,
    listening: Vec<SocketAddr>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Links {
    /// Listens once per member, on free ports of this machine, and carries what is dialled there to the member.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn start(members: Vec<SocketAddr>, who: Who) -> io::Result<Self> {
        let listeners = members
            .iter()
            .map(|_| {
                let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
                listener.set_nonblocking(true)?;
                Ok(listener)
            })
            .collect::<io::Result<Vec<_>>>()?;
        let listening = listeners.iter().map(std::net::TcpListener::local_addr).collect::<io::Result<_>>()?;
        let links =
            (0..members.len() * members.len()).map(|_| watch::Sender::new(State::default())).collect();
        let (open, counts) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { members, links, open, next: AtomicU64::new(0), counts });
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let carried = shared.clone();
        let work = move || runtime.block_on(serve(listeners, carried, who, stopped));
        let thread = std::thread::Builder::new().name("links".to_owned()).spawn(work)?;
        Ok(Self { shared, listening, stop, thread: Some(thread) })
    }

    /// Where each member is dialled, in the order of the members.
    #[must_use]
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    /// Makes a directed link behave so.
    pub fn set(&self, from: usize, to: usize, manner: Manner) {
        if let Some(link) = self.shared.link(from, to) {
            link.send_modify(|state| state.manner = manner);
        }
    }

    /// Makes all links pass everything again.
    pub fn heal(&self) {
        self.shared.links.iter().for_each(|link| link.send_modify(|state| state.manner = Manner::Pass));
    }

    /// Resets all connections between two members; how many.
    pub fn reset(&self, a: usize, b: usize) -> usize {
        let ended = self.order(a, b, |_| Order::Reset);
        self.shared.counts().reset += ended as u64;
        ended
    }

    /// Closes all connections between two members towards `closed` only: `other` is told nothing. How many.
    pub fn half_open(&self, closed: usize, other: usize) -> usize {
        let ended = self.order(closed, other, |dialler| {
            if dialler == closed { Order::TellDialler } else { Order::TellDialled }
        });
        self.shared.counts().half_open += ended as u64;
        ended
    }

    fn order(&self, a: usize, b: usize, order: impl Fn(usize) -> Order) -> usize {
        let open = self.shared.open();
        let between = open
            .values()
            .filter(|open| (open.dialler, open.dialled) == (a, b) || (open.dialler, open.dialled) == (b, a));
        between.filter(|open| open.order.send_replace(Some(order(open.dialler))).is_none()).count()
    }

    /// Changes one byte of what comes next on each connection, in this direction.
    pub fn corrupt(&self, from: usize, to: usize) {
        if let Some(link) = self.shared.link(from, to) {
            link.send_modify(|state| state.corrupt += 1);
        }
    }

    /// Connections between two members that are open.
    #[must_use]
    pub fn between(&self, a: usize, b: usize) -> usize {
        let is = |open: &&Open| [(a, b), (b, a)].contains(&(open.dialler, open.dialled));
        self.shared.open().values().filter(is).count()
    }

    /// Connections in which a byte was changed and that neither side has ended.
    #[must_use]
    pub fn uncut(&self) -> usize {
        self.shared.open().values().filter(|open| open.is_corrupted).count()
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        *self.shared.counts()
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // It panicked or it ended; either way nothing is carried any more.
            drop(thread.join());
        }
    }
}

async fn serve(
    listeners: Vec<std::net::TcpListener>,
    shared: Arc<Shared>,
    who: Who,
    mut stopped: watch::Receiver<bool>,
) {
    for (dialled, listener) in listeners.into_iter().enumerate() {
        let (shared, who) = (shared.clone(), who.clone());
        tokio::spawn(async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            let own = listener.local_addr().map_or(0, |address| address.port());
            loop {
                let Ok((stream, peer)) = listener.accept().await else { continue };
                // Whoever died since is no member any more.
                let Some(dialler) = who(peer.port(), own) else { continue };
                tokio::spawn(connection(shared.clone(), stream, dialler, dialled));
            }
        });
    }
    // An error means that the owner has gone, which is a stop, too.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

/// Carries one connection from its dial to its end.
async fn connection(shared: Arc<Shared>, dialling: TcpStream, dialler: usize, dialled: usize) {
    let (Some(there), Some(back)) = (shared.link(dialler, dialled), shared.link(dialled, dialler)) else {
        return;
    };
    let links = [there.subscribe(), back.subscribe()];
    for mut link in links.clone() {
        // Over a cut link no connection is made.
        if link.wait_for(|state| state.manner != Manner::Hold).await.is_err() {
            return;
        }
    }
    let Ok(reached) = TcpStream::connect(shared.members[dialled]).await else { return };
    let (order, orders) = watch::channel(None);
    let number = shared.next.fetch_add(1, Ordering::Relaxed);
    shared.open().insert(number, Open { dialler, dialled, order, is_corrupted: false });
    shared.counts().connections += 1;
    carry::carry((dialling, reached), links, orders, &|| shared.corrupted(number)).await;
    shared.open().remove(&number);
}
