//! The wires between members: every connection passes a relay that can cut it.
//!
//! For each pair the lower member dials the relay and the relay dials the higher one, wherever it listens now.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

use synod_net::Address;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// The relay of one pair.
struct Relay {
    address: Address,
    cuts: watch::Sender<u64>,
}

/// All relays of a rig, on one thread.
pub(super) struct Switch {
    relays: BTreeMap<(usize, usize), Relay>,
    listeners: Vec<watch::Sender<Option<SocketAddr>>>,
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What one relay works with.
struct Line {
    socket: TcpListener,
    cuts: watch::Receiver<u64>,
    target: watch::Receiver<Option<SocketAddr>>,
}

impl Switch {
    pub(super) fn start(members: usize) -> Self {
        let listeners: Vec<_> = (0..members).map(|_| watch::channel(None).0).collect();
        let mut relays = BTreeMap::new();
        let mut lines = Vec::new();
        for (higher, listener) in listeners.iter().enumerate() {
            for lower in 0..higher {
                let socket = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
                socket.set_nonblocking(true).expect("sockets can be made so");
                let address = socket.local_addr().expect("a bound socket has an address").into();
                let (sender, cuts) = watch::channel(0);
                lines.push(Line { socket, cuts, target: listener.subscribe() });
                relays.insert((lower, higher), Relay { address, cuts: sender });
            }
        }
        let (stop, stopped) = watch::channel(());
        let thread = std::thread::spawn(move || run(lines, stopped));
        Self { relays, listeners, stop: Some(stop), thread: Some(thread) }
    }

    /// Where `from` dials the higher member `to`; `None` when it waits to be dialled.
    pub(super) fn address(&self, from: usize, to: usize) -> Option<Address> {
        self.relays.get(&(from, to)).map(|relay| relay.address.clone())
    }

    /// Says where a member listens.
    pub(super) fn listens(&self, place: usize, at: &Address) {
        let at = match at {
            Address::Tcp(text) => text.parse().ok(),
            Address::Unix(_) => None,
        };
        self.listeners[place].send_replace(at);
    }

    /// Cuts every connection of a pair.
    pub(super) fn cut(&self, a: usize, b: usize) {
        if let Some(relay) = self.relays.get(&(a.min(b), a.max(b))) {
            relay.cuts.send_modify(|count| *count += 1);
        }
    }

    /// Cuts every connection of a member, which listens no more.
    pub(super) fn unplug(&self, place: usize) {
        self.listeners[place].send_replace(None);
        (0..self.listeners.len()).for_each(|other| self.cut(place, other));
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed by the thread.
            let _ = thread.join();
        }
    }
}

fn run(lines: Vec<Line>, mut stopped: watch::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("the system grants a poller").block_on(async move {
        for line in lines {
            tokio::spawn(accept(line));
        }
        // An error says that the switch was dropped.
        let _ = stopped.changed().await;
    });
}

async fn accept(line: Line) {
    let socket = tokio::net::TcpListener::from_std(line.socket).expect("inside the runtime");
    while let Ok((dialled, _)) = socket.accept().await {
        let target = *line.target.borrow();
        if let Some(target) = target {
            let mut cuts = line.cuts.clone();
            cuts.mark_unchanged();
            tokio::spawn(relay(dialled, target, cuts));
        }
    }
}

/// Passes bytes both ways until an end closes or the line is cut.
async fn relay(mut dialled: TcpStream, target: SocketAddr, mut cuts: watch::Receiver<u64>) {
    let pass = async {
        if let Ok(mut far) = TcpStream::connect(target).await {
            // Small frames must not wait for acknowledgements; failing to say so costs latency only.
            let _ = (dialled.set_nodelay(true), far.set_nodelay(true));
            // However it ends, both sockets are closed.
            let _ = tokio::io::copy_bidirectional(&mut dialled, &mut far).await;
        }
    };
    tokio::select! {
        () = pass => {}
        _ = cuts.changed() => {}
    }
}
