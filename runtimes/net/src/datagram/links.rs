//! The datagram links of a node: sockets on one side, one machine on the other.
//!
//! *Bounds.* 256 packets are read per socket and turn, none while `inbox_max` bodies wait for the machine.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use synod_crypto::{Hash, Keys};
use synod_machine::host::Frame;
use synod_machine::{Link, Queue, Time};
use synod_quorum::NodeId;
use synod_wire::Bytes;
use tokio::sync::Notify;

use super::accept::{Acceptor, Heard, Rates};
use super::burst::{self, BURST_MAX, Draft};
use super::dial::{Act, Dialler, LinkPeer};
use super::format::{Datagram, Dropped};
use super::pace::Pace;
use super::settings::{LinkLimits, LinkSockets};
use super::socket::{Inbound, Wire};
use crate::counters::{Counters, LinkCounters};
use crate::frames::Route;
use crate::reactor::ReadyList;

/// The first id of a peer that opened a link here: its link's number above this.
pub const LINKED: NodeId = NodeId(1 << 31);

/// Calls of the system per socket and turn.
const READS: usize = 4;

/// Sockets, the machine and queues they serve, and whom to call.
pub(crate) struct LinkParts {
    /// The machine, and the queue that datagrams from its peers are.
    pub(crate) inward: Route,
    /// The same machine, and the queue that datagrams to its peers are.
    pub(crate) outward: Route,
    /// Sockets that accept.
    pub(crate) accepting: Option<LinkSockets>,
    /// Sockets that call, and whom.
    pub(crate) calling: Option<(LinkSockets, Vec<LinkPeer>)>,
    /// Signs and checks acceptances.
    pub(crate) keys: Arc<Keys>,
    pub(crate) cluster: Hash,
}

/// A node's datagram links.
pub(crate) struct Links {
    inward: Route,
    outward: Route,
    wires: Vec<Wire>,
    /// Wires before this one accept, the others call.
    callers: usize,
    acceptor: Option<Acceptor>,
    dialler: Option<Dialler>,
    accepting: LinkLimits,
    inbox_max: usize,
    ready: Arc<ReadyList>,
    listed: Vec<usize>,
    inbound: Inbound,
    inbox: VecDeque<Frame>,
    is_paused: bool,
    acts: Vec<Act>,
    news: Vec<(NodeId, Link)>,
    forged: Option<SocketAddr>,
    counters: Arc<Counters>,
    now: Time,
}

impl Links {
    pub(crate) fn new(parts: LinkParts, counters: Arc<Counters>, bell: Arc<Notify>) -> Self {
        let LinkParts { inward, outward, accepting, calling, keys, cluster } = parts;
        let now = Time::ZERO;
        let ready = ReadyList::new(bell);
        let mut wires = Vec::new();
        let mut limits = LinkLimits::default();
        let mut inbox_max = 0;
        let mut add = |sockets: LinkSockets, wires: &mut Vec<Wire>| {
            let limits = sockets.limits;
            for socket in sockets.sockets {
                let pace = Pace::new(limits.packets_per_second, limits.burst, now);
                wires.push(Wire::new(socket, limits.queue_max, pace, ready.waker(wires.len())));
            }
            inbox_max = inbox_max.max(usize::try_from(limits.inbox_max).unwrap_or(usize::MAX));
            limits
        };
        let acceptor = accepting.map(|sockets| {
            limits = add(sockets, &mut wires);
            let LinkLimits { links_max, links_per_second, links_per_address, .. } = limits;
            let rates = Rates { links_max, links_per_second, links_per_address };
            Acceptor::new(keys.clone(), cluster, rates, now)
        });
        let callers = wires.len();
        let dialler = calling.map(|(sockets, peers)| {
            let rto_min = add(sockets, &mut wires).rto_min;
            Dialler::new(&peers, keys, cluster, rto_min)
        });
        Self {
            inward,
            outward,
            wires,
            callers,
            acceptor,
            dialler,
            accepting: limits,
            inbox_max,
            ready,
            listed: Vec::new(),
            inbound: Inbound::new(),
            inbox: VecDeque::new(),
            is_paused: false,
            acts: Vec::new(),
            news: Vec::new(),
            forged: None,
            counters,
            now,
        }
    }

    /// Registers the sockets with the runtime of this thread.
    pub(crate) fn open(&mut self) {
        for wire in &mut self.wires {
            if let Err(error) = wire.open() {
                tracing::error!(%error, "a socket of datagram links is not served");
            }
        }
    }

    /// The machine that links serve.
    pub(crate) const fn machine(&self) -> u8 {
        self.inward.machine
    }

    fn count(&self) -> &LinkCounters {
        &self.counters.datagrams
    }

    /// Starts a turn: what is due, then every socket that has something.
    pub(crate) fn read(&mut self, now: Time) {
        self.now = now;
        let mut acts = core::mem::take(&mut self.acts);
        if let Some(dialler) = &mut self.dialler {
            dialler.tick(now, &mut acts);
        }
        self.acts = acts;
        self.perform();
        let mut listed = core::mem::take(&mut self.listed);
        self.ready.take(&mut listed);
        for token in listed.drain(..) {
            self.read_one(token);
        }
        self.listed = listed;
    }

    fn read_one(&mut self, token: usize) {
        let mut inbound = core::mem::replace(&mut self.inbound, Inbound::empty());
        for _ in 0..READS {
            let Some(wire) = self.wires.get(token) else { break };
            wire.waker().seen();
            if self.inbox.len() >= self.inbox_max {
                self.is_paused = true;
                break;
            }
            match wire.read(&mut inbound) {
                Ok(true) => self.take_in(token, &inbound),
                Ok(false) => {
                    self.inbound = inbound;
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, "a socket of datagram links failed to read");
                    break;
                }
            }
        }
        self.inbound = inbound;
        // More may wait: look again next turn, after the others; or when the machine has taken what it was given.
        if !self.is_paused
            && let Some(wire) = self.wires.get(token)
        {
            wire.waker().list();
        }
    }

    fn take_in(&mut self, token: usize, inbound: &Inbound) {
        let mut burst = Vec::new();
        for (from, bytes) in inbound.packets() {
            self.count().received.add(1);
            self.count().received_bytes.add(bytes.len() as u64);
            match Datagram::read(bytes) {
                Ok(Datagram::Sealed(sealed)) => {
                    burst.push((from, sealed));
                    if burst.len() == BURST_MAX {
                        self.open_each(token, &mut burst);
                    }
                }
                Ok(_) => {
                    // It may change links: what came before it is opened by those that stand.
                    self.open_each(token, &mut burst);
                    let taken = self.word(token, from, bytes);
                    self.judge(from, taken);
                }
                Err(dropped) => self.judge(from, Err(dropped)),
            }
        }
        self.open_each(token, &mut burst);
        self.perform();
    }

    /// Opens datagrams of links that came together, and forgets them.
    fn open_each(&mut self, token: usize, burst: &mut Vec<burst::Heard<'_>>) {
        if token < self.callers {
            // A socket that accepts has an acceptor, one that calls a dialler.
            let opened = self.acceptor.as_mut().map(|acceptor| acceptor.open_each(burst));
            for ((from, _), opened) in burst.drain(..).zip(opened.into_iter().flatten()) {
                let taken = opened.map(|heard| self.heard(token, from, heard));
                self.judge(from, taken);
            }
        } else {
            let acts = &mut self.acts;
            let opened = self.dialler.as_mut().map(|dialler| dialler.open_each(burst, acts));
            for ((from, _), taken) in burst.drain(..).zip(opened.into_iter().flatten()) {
                self.judge(from, taken);
            }
        }
    }

    /// A word of the handshake.
    fn word(&mut self, token: usize, from: SocketAddr, bytes: &[u8]) -> Result<(), Dropped> {
        let now = self.now;
        if token >= self.callers {
            let Some(dialler) = &mut self.dialler else { return Err(Dropped::Unknown) };
            return dialler.receive(from, bytes, now, &mut self.acts);
        }
        let Some(acceptor) = &mut self.acceptor else { return Err(Dropped::Unknown) };
        let socket = u8::try_from(token).map_err(|_| Dropped::Unknown)?;
        let heard = acceptor.receive(from, socket, bytes, now)?;
        self.heard(token, from, heard);
        Ok(())
    }

    /// Counts a datagram that was dropped.
    fn judge(&mut self, from: SocketAddr, taken: Result<(), Dropped>) {
        if let Err(dropped) = taken {
            self.count().drop(dropped);
            if dropped == Dropped::Forged {
                self.forged = Some(from);
            }
        }
    }

    /// What a datagram brought to a socket that accepts.
    fn heard(&mut self, token: usize, from: SocketAddr, heard: Heard) {
        let answer = match heard {
            Heard::Answer(answer) => answer,
            Heard::Opened { link, evicted, answer } => {
                self.count().accepted.add(1);
                if let Some(evicted) = evicted {
                    self.count().evicted.add(1);
                    self.news.push((guest(evicted), Link::Down));
                }
                self.news.push((guest(link), Link::Up));
                answer
            }
            Heard::Body { link, body } => return self.bring(guest(link), body),
        };
        self.put(token, from, answer.into());
    }

    fn perform(&mut self) {
        let mut acts = core::mem::take(&mut self.acts);
        for act in acts.drain(..) {
            match act {
                Act::Send { call, to, datagram } => {
                    let own = self.wires.len() - self.callers;
                    self.put(self.callers + call % own.max(1), to, datagram);
                }
                Act::News { peer, link } => self.news.push((peer, link)),
                Act::Body { peer, body } => self.bring(peer, body),
            }
        }
        self.acts = acts;
    }

    fn bring(&mut self, from: NodeId, body: Bytes) {
        self.counters.peer(from).received(self.inward.queue, body.len());
        self.inbox.push_back(Frame { from, queue: Queue(self.inward.queue), body });
    }

    fn put(&mut self, token: usize, to: SocketAddr, datagram: Draft) {
        if !self.wires.get_mut(token).is_some_and(|wire| wire.put(to, datagram)) {
            self.count().lost.add(1);
        }
    }

    /// Whether a peer is of these links.
    pub(crate) fn knows(&self, peer: NodeId) -> bool {
        peer >= LINKED || self.dialler.as_ref().is_some_and(|dialler| dialler.knows(peer))
    }

    /// Sends a body to a peer; whether there is a link, and a datagram holds the body.
    pub(crate) fn send(&mut self, route: Route, peer: NodeId, body: &Bytes) -> bool {
        if route != self.outward {
            return false;
        }
        let sent = if peer >= LINKED {
            let sealed = self.acceptor.as_mut().and_then(|acceptor| acceptor.seal(peer.0 - LINKED.0, body));
            let is_sealed = sealed.is_some();
            if let Some((socket, to, datagram)) = sealed {
                self.put(usize::from(socket), to, datagram);
            }
            is_sealed
        } else {
            let (now, acts) = (self.now, &mut self.acts);
            let sent = self.dialler.as_mut().is_some_and(|dialler| dialler.send(peer, body, now, acts));
            self.perform();
            sent
        };
        if sent {
            self.counters.peer(peer).sent(self.outward.queue, body.len());
        }
        sent
    }

    /// A body of this peer did not decode, or brings more than a quota allows.
    pub(crate) fn strike(&mut self, peer: NodeId, is_last: bool) {
        let now = self.now;
        if peer < LINKED {
            if let (true, Some(dialler)) = (is_last, &mut self.dialler) {
                dialler.cut(peer, now, &mut self.acts);
                self.perform();
            }
            return;
        }
        let (number, strikes_max) = (peer.0 - LINKED.0, self.accepting.strikes_max);
        let Some(acceptor) = &mut self.acceptor else { return };
        let Some(link) = acceptor.table.get(number) else { return };
        link.strikes = link.strikes.saturating_add(1);
        if (is_last || link.strikes >= strikes_max) && acceptor.table.close(number) {
            self.news.push((peer, Link::Down));
        }
    }

    /// The next body, if the machine takes one.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        let frame = self.inbox.pop_front();
        if self.is_paused && self.inbox.len() < self.inbox_max {
            self.is_paused = false;
            self.wires.iter().for_each(|wire| wire.waker().list());
        }
        frame
    }

    /// Whether bodies wait.
    pub(crate) fn has_frames(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Ends a turn: sends what waits. Whether more could be sent at once.
    pub(crate) fn flush(&mut self) -> bool {
        let mut more = false;
        for wire in &mut self.wires {
            let sent = wire.flush(self.now);
            let counters = &self.counters.datagrams;
            counters.sent.add(sent.datagrams);
            counters.sent_bytes.add(sent.bytes);
            counters.writes.add(sent.calls);
            counters.lost.add(sent.refused);
            more |= sent.more;
        }
        more
    }

    /// Publishes gauges.
    pub(crate) fn tend(&self) {
        let open = self.acceptor.as_ref().map_or(0, |acceptor| acceptor.table.len());
        self.count().open.set(open as u64);
        let waiting: usize = self.wires.iter().map(Wire::waiting).sum();
        self.count().queue.set(waiting as u64);
    }

    /// When something is to be done though nothing comes.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let calls = self.dialler.as_ref().and_then(Dialler::deadline);
        self.wires.iter().filter_map(Wire::deadline).chain(calls).min()
    }

    /// Who accepted a link with another key than expected, the latest.
    pub(crate) fn forged(&mut self) -> Option<SocketAddr> {
        self.forged.take()
    }

    /// Links that came up or went down.
    pub(crate) fn news(&mut self) -> Vec<(NodeId, Link)> {
        core::mem::take(&mut self.news)
    }
}

/// The id of the peer at the other end of an accepted link.
const fn guest(link: u32) -> NodeId {
    NodeId(LINKED.0 + link)
}

#[cfg(test)]
mod tests;
