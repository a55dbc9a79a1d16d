//! The connections of a node: which peer has which lines, who is up, what is to be written.
//!
//! *Links.* A member is up when its main and its bulk connection are; when either ends, both do, and machines hear
//! Down, then Up. No frame of a member is handled before its link is up. A guest has one connection.
//!
//! *Bounds.* Two connections per member, one per named guest and `guests_max` other guests. Ids of guests without a name are
//! never reused within a process.

mod lines;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use synod_crypto::PublicKey;
use synod_machine::{Link, Queue, QueueSpec, Time, To};
use synod_quorum::NodeId;
use synod_wire::Bytes;
use tokio::sync::{Notify, watch};

use super::conn::{Around, Close, Conn, Wrong};
use super::waker::ReadyList;
use crate::config::{Limits, Role};
use crate::counters::Counters;
use crate::datagram::Links;
use crate::frames::{QueueTable, Route};
use crate::handshake::{Line, Registry};
use crate::link::Channel;
use crate::observer::Observer;
use crate::quotas::Allowance;

/// Which lines to a member exist; dialling follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) main: bool,
    pub(crate) bulk: bool,
}

/// The keys of connected guests, by id; readable from other threads.
pub(crate) type Guests = Arc<Mutex<BTreeMap<NodeId, PublicKey>>>;

/// What a [`Net`] is made from.
pub(crate) struct NetParts {
    pub(crate) role: Role,
    pub(crate) members: u32,
    pub(crate) limits: Limits,
    pub(crate) table: Arc<QueueTable>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) registry: Registry,
    pub(crate) guests: Guests,
    /// Keys of guests that the plan names, in the order of their ids.
    pub(crate) named: Vec<PublicKey>,
    pub(crate) signals: Vec<watch::Sender<Lines>>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) bell: Arc<Notify>,
    pub(crate) links: Option<Links>,
}

#[derive(Clone, Copy, Default)]
struct Member {
    main: Option<usize>,
    bulk: Option<usize>,
    up: bool,
    met: bool,
    /// What its last main and bulk connection left.
    left: [Option<Allowance>; 2],
}

impl Member {
    const fn left(&mut self, line: Line) -> &mut Option<Allowance> {
        let [main, bulk] = &mut self.left;
        match line {
            Line::Main => main,
            Line::Bulk => bulk,
        }
    }
}

/// Members before guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Members,
    Guests,
}

/// All connections of a node.
pub(crate) struct Net {
    pub(super) parts: NetParts,
    pub(super) links: Option<Links>,
    conns: Vec<Option<Conn>>,
    free: Vec<usize>,
    members: Vec<Member>,
    by_guest: BTreeMap<NodeId, usize>,
    next_guest: u32,
    ready: Arc<ReadyList>,
    listed: Vec<usize>,
    dirty: Vec<usize>,
    busy_members: VecDeque<usize>,
    busy_guests: VecDeque<usize>,
    events: Vec<(NodeId, Link)>,
    scratch: Vec<u8>,
    pub(super) now: Time,
}

impl Net {
    pub(crate) fn new(mut parts: NetParts) -> Self {
        let ready = ReadyList::new(parts.bell.clone());
        let members = (0..parts.members).map(|_| Member::default()).collect();
        let named = u32::try_from(parts.named.len()).unwrap_or(u32::MAX);
        Self {
            links: parts.links.take(),
            parts,
            conns: Vec::new(),
            free: Vec::new(),
            members,
            by_guest: BTreeMap::new(),
            next_guest: NodeId::GUESTS.0.saturating_add(named),
            ready,
            listed: Vec::new(),
            dirty: Vec::new(),
            busy_members: VecDeque::new(),
            busy_guests: VecDeque::new(),
            events: Vec::new(),
            scratch: Channel::scratch(),
            now: Time::ZERO,
        }
    }

    /// Starts a turn at `now`: reads every connection whose socket is ready.
    pub(crate) fn read(&mut self, now: Time) {
        self.now = now;
        let mut listed = core::mem::take(&mut self.listed);
        self.ready.take(&mut listed);
        for token in listed.drain(..) {
            self.read_one(token);
        }
        self.listed = listed;
        self.read_links();
    }

    fn read_one(&mut self, token: usize) {
        let mut scratch = core::mem::take(&mut self.scratch);
        let outcome = self.with(token, |conn, around| {
            let outcome = conn.read(&mut scratch, around);
            (outcome, conn.has_frames(), conn.wants_flush(), conn.peer)
        });
        self.scratch = scratch;
        let Some((outcome, frames, flush, peer)) = outcome else { return };
        if frames {
            self.mark_busy(token, peer);
        }
        if flush {
            self.mark_dirty(token);
        }
        if let Err(close) = outcome {
            self.close(token, close);
        }
    }

    /// Calls `f` with a connection and what is around it.
    fn with<R>(&mut self, token: usize, f: impl FnOnce(&mut Conn, &Around<'_>) -> R) -> Option<R> {
        let conn = self.conns.get_mut(token)?.as_mut()?;
        let around = Around {
            table: &self.parts.table,
            limits: &self.parts.limits,
            counters: self.parts.counters.peer(conn.peer),
            now: self.now,
        };
        Some(f(conn, &around))
    }

    fn mark_busy(&mut self, token: usize, peer: NodeId) {
        // Frames wait until the link is up on this side too, or their answers would find no way back.
        if self.member(peer).is_some_and(|member| !member.up) {
            return;
        }
        let Some(conn) = self.conns.get_mut(token).and_then(Option::as_mut) else { return };
        if !conn.busy {
            conn.busy = true;
            if peer.is_member() { &mut self.busy_members } else { &mut self.busy_guests }.push_back(token);
        }
    }

    fn mark_dirty(&mut self, token: usize) {
        let Some(conn) = self.conns.get_mut(token).and_then(Option::as_mut) else { return };
        if !conn.dirty {
            conn.dirty = true;
            self.dirty.push(token);
        }
    }

    /// The next connection of a class with frames for machines; it leaves the list.
    pub(crate) fn next_busy(&mut self, class: Class) -> Option<usize> {
        let list = match class {
            Class::Members => &mut self.busy_members,
            Class::Guests => &mut self.busy_guests,
        };
        while let Some(token) = list.pop_front() {
            if let Some(conn) = self.conns.get_mut(token).and_then(Option::as_mut).filter(|conn| conn.busy) {
                conn.busy = false;
                return Some(token);
            }
        }
        None
    }

    /// Connections of a class with frames for machines.
    pub(crate) fn busy(&self, class: Class) -> usize {
        match class {
            Class::Members => self.busy_members.len(),
            Class::Guests => self.busy_guests.len(),
        }
    }

    /// Takes one frame of a connection for a machine that is ready.
    pub(crate) fn next_frame(
        &mut self,
        token: usize,
        ready: &[bool],
    ) -> Option<(usize, synod_machine::host::Frame)> {
        self.with(token, |conn, around| conn.next_frame(ready, around.limits)).flatten()
    }

    /// Puts a connection back on its list if frames are left.
    pub(crate) fn give_back(&mut self, token: usize) {
        let left = self.with(token, |conn, _| conn.has_frames().then_some(conn.peer)).flatten();
        if let Some(peer) = left {
            self.mark_busy(token, peer);
        }
    }

    /// Sends a body to every connected peer of `to`.
    pub(crate) fn send(&mut self, machine: u8, to: To, queue: Queue, body: &Bytes) {
        let route = Route { machine, queue: queue.0 };
        let Some(index) = self.parts.table.index(route) else {
            unreachable!("a machine sends on the queues of its table");
        };
        match to {
            To::Node(peer) => self.send_one(index, route, peer, body),
            To::Set(set) => set.iter().for_each(|peer| self.send_one(index, route, peer, body)),
        }
    }

    fn send_one(&mut self, index: usize, route: Route, peer: NodeId, body: &Bytes) {
        let spec = self.parts.table.specs().get(index).map(|(_, spec)| *spec);
        let token = self.token(peer, spec == Some(QueueSpec::BULK));
        let fits = u32::try_from(body.len()).is_ok_and(|length| spec.is_some_and(|s| length <= s.frame_max));
        assert!(fits, "machine {} made a frame of {} bytes for {route:?}", route.machine, body.len());
        if !peer.is_member() && self.send_linked(route, peer, body) {
            return;
        }
        let Some(token) = token else {
            self.parts.counters.peer(peer).dropped_frames.add(1);
            return;
        };
        match self.with(token, |conn, around| conn.put(index, body.clone(), around)) {
            Some(Err(close)) => self.close(token, close),
            Some(Ok(())) => self.mark_dirty(token),
            None => {}
        }
    }

    fn token(&self, peer: NodeId, is_bulk: bool) -> Option<usize> {
        if !peer.is_member() {
            return self.by_guest.get(&peer).copied();
        }
        let member = self.member(peer).filter(|member| member.up)?;
        if is_bulk && member.bulk.is_some() { member.bulk } else { member.main }
    }

    fn member(&self, peer: NodeId) -> Option<&Member> {
        self.members.get(usize::try_from(peer.0).ok()?)
    }

    fn member_mut(&mut self, peer: NodeId) -> Option<&mut Member> {
        self.members.get_mut(usize::try_from(peer.0).ok()?)
    }

    /// Ends the turn: one write per connection with something to say. Whether more could be written at once.
    pub(crate) fn flush(&mut self) -> bool {
        let mut more = false;
        let mut dirty = core::mem::take(&mut self.dirty);
        for token in dirty.drain(..) {
            let outcome = self.with(token, |conn, around| {
                conn.dirty = false;
                conn.flush(around)
            });
            match outcome {
                Some(Ok(true)) => {
                    more = true;
                    self.mark_dirty(token);
                }
                Some(Err(close)) => self.close(token, close),
                Some(Ok(false)) | None => {}
            }
        }
        if self.dirty.is_empty() {
            self.dirty = dirty;
        }
        more |= self.links.as_mut().is_some_and(Links::flush);
        more
    }

    /// Counts a frame that did not decode; who is above a quota is cut at once.
    pub(crate) fn strike(&mut self, peer: NodeId, wrong: Wrong) {
        self.parts.counters.peer(peer).strikes.add(1);
        if !peer.is_member() && self.strike_linked(peer, wrong) {
            return;
        }
        let tokens = match self.member(peer) {
            Some(member) => [member.main, member.bulk],
            None => [self.by_guest.get(&peer).copied(), None],
        };
        // The strikes of a pair are counted on its first connection.
        let Some(token) = tokens.into_iter().flatten().next() else { return };
        if let Some(Err(close)) = self.with(token, |conn, around| conn.strike(wrong, around.limits)) {
            self.close(token, close);
        }
    }

    /// Looks after every connection; called some times a second.
    pub(crate) fn tend(&mut self) {
        if let Some(links) = &self.links {
            links.tend();
        }
        let mut waiting: BTreeMap<NodeId, u64> = BTreeMap::new();
        for token in 0..self.conns.len() {
            let outcome = self.with(token, |conn, around| {
                (conn.tend(around), conn.peer, conn.queue_bytes(), conn.wants_flush())
            });
            let Some((outcome, peer, bytes, flush)) = outcome else { continue };
            let row = if peer.is_member() { peer } else { NodeId::GUESTS };
            *waiting.entry(row).or_default() += bytes;
            if flush {
                self.mark_dirty(token);
            }
            if let Err(close) = outcome {
                self.close(token, close);
            }
        }
        let rows = (0..self.parts.members).map(NodeId).chain([NodeId::GUESTS]);
        for row in rows {
            let bytes = waiting.get(&row).copied().unwrap_or(0);
            self.parts.counters.peer(row).queue_bytes.set(bytes);
        }
    }

    /// The earliest time a throttled connection may be read again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let links = self.links.as_ref().and_then(Links::deadline);
        self.conns.iter().flatten().filter_map(|conn| conn.throttled).chain(links).min()
    }

    /// Lists throttled connections whose time has come.
    pub(crate) fn unthrottle(&self, now: Time) {
        self.conns.iter().flatten().filter(|c| c.throttled.is_some_and(|t| t <= now)).for_each(Conn::look);
    }

    /// Takes the link events of this turn.
    pub(crate) fn events(&mut self) -> Vec<(NodeId, Link)> {
        self.link_news();
        core::mem::take(&mut self.events)
    }

    /// Ends every connection.
    pub(crate) fn stop(&mut self) {
        (0..self.conns.len()).for_each(|token| self.close(token, Close::Stopped));
    }

    pub(crate) fn table(&self) -> &Arc<QueueTable> {
        &self.parts.table
    }
}
