//! One established connection: what it reads waits per machine, what it writes waits per queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use synod_crypto::PublicKey;
use synod_machine::host::{Frame, QUOTA_EXCEEDED, UNDECODABLE};
use synod_machine::{Queue, Span, Time};
use synod_quorum::NodeId;
use synod_wire::{Bytes, Limits as WireLimits, Wire};

use super::waker::ConnWaker;
use crate::config::Limits;
use crate::counters::PeerCounters;
use crate::frames::{BadFrame, HEADER, LINK, LINK_MAX, QueueTable, Speaker};
use crate::handshake::{Beat, Claim, Line};
use crate::link::{Channel, Read};
use crate::outgoing::{Outgoing, Put};
use crate::quotas::Allowance;

/// Reads of 64 KiB per connection and turn.
const READS_PER_TURN: u32 = 8;
/// Bytes put before the socket per connection and turn.
const WRITE_PER_TURN: usize = 512 << 10;

/// Why a connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// The other side closed, or the socket failed.
    Broken,
    /// The framing is broken, or undecodable frames reached their limit.
    Misbehaved(Wrong),
    /// Nothing came for too long.
    Silent,
    /// A queue whose rule says so is full.
    Full,
    /// The reader took nothing for too long.
    Stalled,
    /// A newer connection took its place, or its partner ended.
    Replaced,
    /// The node stops.
    Stopped,
}

/// The rule a peer broke, by its SYN code and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) code: u16,
    pub(crate) name: &'static str,
}

impl Wrong {
    pub(crate) const UNDECODABLE: Self = Self { code: UNDECODABLE, name: "undecodable_frame" };
    pub(crate) const QUOTA: Self = Self { code: QUOTA_EXCEEDED, name: "quota_exceeded" };
    const TOO_LARGE: Self = Self { code: 4_002, name: "frame_too_large" };
    const UNKNOWN: Self = Self { code: 4_003, name: "unknown_machine" };
    const FLAGS: Self = Self { code: 4_004, name: "reserved_flags" };
}

/// What a connection is made from.
pub(crate) struct ConnParts {
    pub(crate) peer: NodeId,
    pub(crate) key: PublicKey,
    pub(crate) line: Line,
    pub(crate) channel: Channel,
    pub(crate) claim: Claim,
    pub(crate) allowance: Allowance,
    /// Whether it is a guest that the plan names.
    pub(crate) named: bool,
}

/// An established connection.
pub(crate) struct Conn {
    pub(crate) peer: NodeId,
    pub(crate) key: PublicKey,
    pub(crate) line: Line,
    channel: Channel,
    _claim: Claim,
    out: Outgoing,
    speaker: Speaker,
    inbox: Vec<VecDeque<Frame>>,
    waiting: usize,
    inbox_bytes: u64,
    inbox_bytes_max: u64,
    next: usize,
    pub(crate) allowance: Allowance,
    strikes: u32,
    heard: Time,
    told: Time,
    progress: Time,
    paused: bool,
    /// When an empty bucket lets it be read again.
    pub(crate) throttled: Option<Time>,
    /// Whether it is on the list of connections with something to write.
    pub(crate) dirty: bool,
    /// Whether it is on a list of connections with frames for machines.
    pub(crate) busy: bool,
    waker: Arc<ConnWaker>,
}

/// What the functions of a connection share and do not own.
pub(crate) struct Around<'a> {
    pub(crate) table: &'a QueueTable,
    pub(crate) limits: &'a Limits,
    pub(crate) counters: &'a PeerCounters,
    pub(crate) now: Time,
}

impl Conn {
    pub(crate) fn new(parts: ConnParts, waker: Arc<ConnWaker>, around: &Around<'_>) -> Self {
        let ConnParts { peer, key, line, channel, claim, allowance, named } = parts;
        let Around { table, limits, now, .. } = *around;
        let frame_max = if named { u32::MAX } else { limits.guest_frame_max };
        let speaker = if peer.is_member() { Speaker::Member } else { Speaker::Guest { frame_max } };
        let (bytes_max, inbox_bytes_max) = if peer.is_member() || named {
            (limits.peer_bytes_max, limits.inbox_bytes_max)
        } else {
            (limits.guest_bytes_max, limits.guest_inbox_bytes_max)
        };
        Self {
            peer,
            key,
            line,
            channel,
            _claim: claim,
            out: Outgoing::new(table, bytes_max),
            speaker,
            inbox: table.machines().iter().map(|_| VecDeque::new()).collect(),
            waiting: 0,
            inbox_bytes: 0,
            inbox_bytes_max,
            next: 0,
            allowance,
            strikes: 0,
            heard: now,
            told: now,
            progress: now,
            paused: false,
            throttled: None,
            dirty: false,
            busy: false,
            waker,
        }
    }

    /// Takes what the socket has, within the turn's budget and the inbox's bounds.
    pub(crate) fn read(&mut self, scratch: &mut [u8], around: &Around<'_>) -> Result<(), Close> {
        self.waker.seen();
        if self.throttled.is_some_and(|until| until > around.now) {
            return Ok(());
        }
        self.throttled = None;
        self.allowance.refill(around.now);
        for _ in 0..READS_PER_TURN {
            self.sort(around)?;
            if self.full(around.limits) {
                self.paused = true;
                return Ok(());
            }
            if let Some(opens) = self.allowance.opens() {
                self.throttled = Some(opens);
                return Ok(());
            }
            match self.channel.read(scratch) {
                Ok(Read::Bytes(count)) => {
                    self.heard = around.now;
                    self.allowance.bytes.take(count as u64);
                    around.counters.received_bytes.add(count as u64);
                }
                Ok(Read::Blocked) => {
                    let waker = self.waker.waker();
                    match self.channel.socket.poll_read_ready(&mut Context::from_waker(&waker)) {
                        Poll::Pending => return Ok(()),
                        Poll::Ready(_) => {}
                    }
                }
                Ok(Read::Closed) => {
                    self.sort(around)?;
                    return Err(Close::Broken);
                }
                Err(_) => return Err(Close::Broken),
            }
        }
        // More may wait: look again next turn, after the others.
        self.waker.list();
        self.sort(around)
    }

    /// Cuts frames out of what was read, as far as the inbox has room.
    fn sort(&mut self, around: &Around<'_>) -> Result<(), Close> {
        while !self.full(around.limits) && self.allowance.frames.open() {
            let (route, body) = match self.channel.frame(around.table, self.speaker) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(()),
                Err(BadFrame::TooLarge(_)) => return Err(Close::Misbehaved(Wrong::TOO_LARGE)),
                Err(BadFrame::Unknown(_)) => return Err(Close::Misbehaved(Wrong::UNKNOWN)),
                Err(BadFrame::Flags(_)) => return Err(Close::Misbehaved(Wrong::FLAGS)),
            };
            self.allowance.frames.take(1);
            if route.machine == LINK {
                self.beat(body, around)?;
                continue;
            }
            around.counters.received(route.queue, HEADER + body.len());
            let slot = around.table.machines().iter().position(|m| *m == route.machine);
            let Some(inbox) = slot.and_then(|slot| self.inbox.get_mut(slot)) else {
                return Err(Close::Misbehaved(Wrong::UNKNOWN));
            };
            self.inbox_bytes += body.len() as u64;
            self.waiting += 1;
            inbox.push_back(Frame { from: self.peer, queue: Queue(route.queue), body });
        }
        Ok(())
    }

    fn beat(&mut self, body: Bytes, around: &Around<'_>) -> Result<(), Close> {
        match Beat::decode(body, &WireLimits { frame_max: LINK_MAX }) {
            Ok(Beat::Ask(at)) => self.out.put_word(Beat::Answer(at).encode()),
            Ok(Beat::Answer(at)) => around.counters.rtt_ns.set(around.now.since(Time(at)).0),
            Err(_) => return Err(Close::Misbehaved(Wrong::UNDECODABLE)),
        }
        Ok(())
    }

    fn full(&self, limits: &Limits) -> bool {
        let max = usize::try_from(limits.inbox_frames_max).unwrap_or(usize::MAX);
        self.inbox_bytes >= self.inbox_bytes_max || self.inbox.iter().any(|inbox| inbox.len() >= max)
    }

    /// The next frame for a machine that is ready, machines in turn.
    pub(crate) fn next_frame(&mut self, ready: &[bool], limits: &Limits) -> Option<(usize, Frame)> {
        let count = self.inbox.len();
        for step in 0..count {
            let slot = (self.next + step) % count;
            if !ready.get(slot).is_some_and(|ready| *ready) {
                continue;
            }
            if let Some(frame) = self.inbox.get_mut(slot).and_then(VecDeque::pop_front) {
                self.next = slot;
                self.waiting -= 1;
                self.inbox_bytes -= frame.body.len() as u64;
                if self.paused && !self.full(limits) {
                    self.paused = false;
                    self.waker.list();
                }
                return Some((slot, frame));
            }
        }
        self.next = (self.next + 1) % count.max(1);
        None
    }

    /// Whether frames wait for machines.
    pub(crate) const fn has_frames(&self) -> bool {
        self.waiting > 0
    }

    /// Queues a body for the peer.
    pub(crate) fn put(&mut self, index: usize, body: Bytes, around: &Around<'_>) -> Result<(), Close> {
        if self.out.is_empty() && !self.channel.wants_write() {
            self.progress = around.now;
        }
        if self.out.is_full(index, body.len(), around.table) {
            // The rule is for readers that lag, not for a turn that says much.
            self.flush(around)?;
        }
        match self.out.put(index, body, around.table) {
            Put::Queued => {}
            Put::Evicted { frames } => around.counters.dropped_frames.add(frames),
            Put::Dropped => around.counters.dropped_frames.add(1),
            // A guest has the stall time to read; a member's protocol counts on all or nothing.
            Put::Reset if self.peer.is_member() => return Err(Close::Full),
            Put::Reset => around.counters.dropped_frames.add(1),
        }
        Ok(())
    }

    /// Writes what waits, within the turn's budget; whether more could be written at once.
    pub(crate) fn flush(&mut self, around: &Around<'_>) -> Result<bool, Close> {
        let mut left = WRITE_PER_TURN;
        loop {
            if !self.channel.wants_write() {
                let counters = around.counters;
                self.out.pull(&mut self.channel.outward, left.min(256 << 10), around.table, |q, size| {
                    counters.sent(q, size)
                });
            }
            if !self.channel.wants_write() {
                return Ok(false);
            }
            let written = self.channel.write().map_err(|_| Close::Broken)?;
            around.counters.sent_bytes.add(written.bytes as u64);
            around.counters.writes.add(written.calls);
            if written.bytes > 0 {
                self.told = around.now;
                self.progress = around.now;
            }
            left = left.saturating_sub(written.bytes);
            if written.blocked {
                let waker = self.waker.waker();
                match self.channel.socket.poll_write_ready(&mut Context::from_waker(&waker)) {
                    Poll::Pending => return Ok(false),
                    Poll::Ready(_) => {}
                }
            }
            if left == 0 {
                return Ok(true);
            }
        }
    }

    /// Whether something waits to be written.
    pub(crate) fn wants_flush(&self) -> bool {
        !self.out.is_empty() || self.channel.wants_write()
    }

    /// A frame of this connection did not decode, or what it brings exceeds a quota: that ends it at once.
    pub(crate) fn strike(&mut self, wrong: Wrong, limits: &Limits) -> Result<(), Close> {
        self.strikes += 1;
        let over = wrong == Wrong::QUOTA || self.strikes >= limits.strikes_max;
        if over { Err(Close::Misbehaved(wrong)) } else { Ok(()) }
    }

    /// Looks after a connection on which nothing may be happening.
    pub(crate) fn tend(&mut self, around: &Around<'_>) -> Result<(), Close> {
        let Around { limits, now, .. } = *around;
        if now.since(self.heard) >= limits.silence && !self.paused && self.throttled.is_none() {
            return Err(Close::Silent);
        }
        let waits = !self.out.is_empty() || self.channel.wants_write();
        if waits && !self.peer.is_member() && now.since(self.progress) >= limits.stall {
            return Err(Close::Stalled);
        }
        if now.since(self.told.min(self.heard)) >= limits.heartbeat && limits.heartbeat > Span::ZERO {
            self.out.put_word(Beat::Ask(now.0).encode());
        }
        if self.throttled.is_some_and(|until| until <= now) {
            self.waker.list();
        }
        Ok(())
    }

    /// Bytes that wait to be sent.
    pub(crate) fn queue_bytes(&self) -> u64 {
        self.out.bytes() + self.channel.outward.bytes() as u64
    }

    /// Frames that wait to be sent.
    pub(crate) const fn queue_frames(&self) -> usize {
        self.out.frames()
    }

    /// Lists the connection for the next turn.
    pub(crate) fn look(&self) {
        self.waker.list();
    }

    /// Says goodbye without waiting.
    pub(crate) fn goodbye(mut self) {
        self.channel.goodbye();
    }
}
