//! Commands on their way: queue, frames, sending and sending again.

use synod_machine::{Span, Time, Turn};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes, List};

use super::latency::back_off;
use super::open::reject;
use super::{
    Client, ClientOutput, ClientTimer, Command, Doubt, Outcome, Rejection, RequestId, SendMode, Waiting,
};
use crate::frame::{COMMANDS_BYTES_MAX, COMMANDS_MAX, ClientFrame, Item, UNSIGNED};
use crate::matching::Matching;
use crate::message::ClientMessage;
use synod_crypto::Hash;

/// Most frames in flight: what comes meanwhile waits, and gathers. A burst of single commands would otherwise be as many
/// frames at once, more than a link takes.
pub(super) const FLIGHTS_MAX: usize = 64;

/// Commands that are due within so long of each other may share a frame, which is given up with the last of them.
pub(super) const GATHERED: Span = Span::millis(50);

/// One frame in flight.
#[derive(Debug)]
pub(super) struct Flight {
    /// The caller's names for its commands.
    pub(super) tags: Vec<u64>,
    /// The signed item; the same bytes on every retry.
    payload: Option<Bytes>,
    pub(super) bytes: u64,
    /// What it acknowledges.
    acked: u64,
    pub(super) matching: Matching<Hash>,
    /// When it was first sent.
    pub(super) sent: Time,
    /// Whether all nodes were asked.
    pub(super) escalated: bool,
    pub(super) wait: Span,
    /// Nodes that refused it for the time being since it was last sent; each is heard once.
    pub(super) advised: NodeSet,
    /// The member named for the body.
    pub(super) full: NodeId,
}

impl Client {
    /// Takes commands; those that do not fit are rejected at once.
    pub(super) fn on_submit(&mut self, commands: Vec<Command>, deadline: Span, turn: &mut Turn<'_, Self>) {
        let due = turn.now() + deadline;
        let mut behind = false;
        for Command { tag, body } in commands {
            let bytes = body.len() as u64;
            let why = match () {
                () if self.closed => Some(Rejection::Closed),
                () if deadline == Span::ZERO => Some(Rejection::Malformed),
                () if body.len() > COMMANDS_BYTES_MAX => Some(Rejection::TooLarge),
                () if !self.has_room(bytes) => Some(Rejection::Busy),
                () => None,
            };
            match why {
                Some(why) => reject(tag, why, turn),
                None => {
                    self.enqueue(Waiting { tag, body, due, behind }, turn);
                    behind = true;
                }
            }
        }
    }

    /// Whether the queue takes one more command of so many bytes.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let held = self.queue_bytes + self.flight_bytes;
        (self.queue.len() as u64) < u64::from(self.config.queue) && held + bytes <= self.config.queue_bytes
    }

    /// Appends a command that fits; the turn's commands leave together.
    pub(super) fn enqueue(&mut self, waiting: Waiting, turn: &mut Turn<'_, Self>) {
        if self.queue.is_empty() {
            turn.arm(ClientTimer::Flush, Span::ZERO);
            turn.arm(ClientTimer::Queue, waiting.due.since(turn.now()));
        }
        self.queue_bytes += waiting.body.len() as u64;
        self.queue.push_back(waiting);
    }

    /// Puts what waits into frames, as far as the window reaches.
    pub(super) fn on_flush(&mut self, turn: &mut Turn<'_, Self>) {
        // The rest of a submission whose first part was given up at its deadline is never sent.
        if self.queue.front().is_some_and(|front| front.due <= turn.now()) {
            self.on_queue_due(turn);
        }
        if self.queue.is_empty() {
            return;
        }
        if self.is_used_up() {
            self.lose_session(turn);
        }
        self.ensure_open(turn);
        let Some(session) = self.session() else { return };
        while self.flights.len() < FLIGHTS_MAX
            && let Some((commands, tags, due)) = self.next_commands()
        {
            let full = self.preferred();
            let first = self.next;
            self.next += tags.len() as u64;
            let acked = self.flights.keys().next().copied().unwrap_or(first);
            let bytes: u64 = commands.iter().map(|command| command.len() as u64).sum();
            let Ok(commands) = List::try_from(commands) else {
                unreachable!("a frame is cut at its maximum")
            };
            let wait = self.latency.escalate(self.config.escalate_min);
            let flight = Flight {
                tags,
                payload: None,
                bytes,
                acked,
                matching: Matching::default(),
                sent: turn.now(),
                escalated: false,
                wait,
                advised: NodeSet::EMPTY,
                full,
            };
            self.flight_bytes += bytes;
            self.flights.insert(first, flight);
            turn.arm(ClientTimer::Deadline(first), due.since(turn.now()));
            let full = full.member().unwrap_or_default();
            let frame = ClientFrame { session, first, acked, full, commands, signature: UNSIGNED };
            self.sign(Item::Frame(frame), turn);
        }
        match self.queue.front() {
            Some(oldest) => turn.arm(ClientTimer::Queue, oldest.due.since(turn.now())),
            None => turn.disarm(ClientTimer::Queue),
        }
    }

    /// The first sequence that may not be sent: an executed frame moves the base by at most one window, whatever it
    /// acknowledges.
    fn reach(&self) -> u64 {
        let window = u64::from(self.config.window);
        let lowest = self.flights.keys().next().copied().unwrap_or(self.next);
        lowest.min(self.base + window) + window
    }

    /// Whether so much was given up without an answer that the session takes nothing any more.
    fn is_used_up(&self) -> bool {
        self.session().is_some() && self.flights.is_empty() && self.next == self.reach()
    }

    /// A frame was executed: the base followed what it acknowledged.
    pub(super) fn rebase(&mut self, flight: &Flight) {
        let farthest = self.base + u64::from(self.config.window);
        self.base = self.base.max(flight.acked.min(farthest));
    }

    /// The commands of the next frame, within the window and the frame's maxima, and when the last of them is due.
    fn next_commands(&mut self) -> Option<(Vec<Blob<COMMANDS_BYTES_MAX>>, Vec<u64>, Time)> {
        let mut due = self.queue.front()?.due;
        let count = self.next_count();
        let (mut commands, mut tags) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for Waiting { tag, body, due: last, .. } in self.queue.drain(..count) {
            due = last;
            self.queue_bytes -= body.len() as u64;
            let Ok(body) = Blob::try_from(body) else {
                unreachable!("its size was checked when it was taken")
            };
            commands.push(body);
            tags.push(tag);
        }
        (!commands.is_empty()).then_some((commands, tags, due))
    }

    /// How many commands the next frame takes: whole submissions. One that is too large for a frame, or for what is left
    /// of the window, waits until nothing is in flight, and so does its rest.
    fn next_count(&self) -> usize {
        let alone = self.flights.is_empty();
        let Some(front) = self.queue.front().filter(|front| alone || !front.behind) else { return 0 };
        let room = usize::try_from(self.reach() - self.next).unwrap_or(usize::MAX).min(COMMANDS_MAX);
        let (mut count, mut whole, mut bytes) = (0, 0, 0);
        for waiting in self.queue.iter().take(room) {
            bytes += waiting.body.len();
            let together = waiting.due >= front.due && waiting.due.since(front.due) <= GATHERED;
            if !together || bytes > COMMANDS_BYTES_MAX {
                break;
            }
            count += 1;
            if !self.queue.get(count).is_some_and(|next| next.behind) {
                whole = count;
            }
        }
        if whole == 0 && alone { count } else { whole }
    }

    pub(super) fn on_frame_signed(
        &mut self,
        session: u64,
        first: u64,
        payload: Bytes,
        turn: &mut Turn<'_, Self>,
    ) {
        if self.session() != Some(session) {
            return;
        }
        let Some(flight) = self.flights.get_mut(&first).filter(|flight| flight.payload.is_none()) else {
            return;
        };
        flight.payload = Some(payload);
        flight.sent = turn.now();
        turn.arm(ClientTimer::Retry(first), flight.wait);
        let to = match self.config.send {
            SendMode::One => NodeSet::only(self.preferred()),
            SendMode::All => self.config.trust.nodes(),
        };
        self.transmit(first, to, turn);
    }

    fn transmit(&self, first: u64, to: NodeSet, turn: &mut Turn<'_, Self>) {
        let Some(payload) = self.flights.get(&first).and_then(|flight| flight.payload.clone()) else {
            return;
        };
        let Ok(item) = Blob::try_from(payload) else { unreachable!("a frame fits an item") };
        for node in to.iter() {
            turn.send(node, ClientMessage::Item(item.clone()));
        }
    }

    /// No result was accepted in time: the same bytes go to all, and nodes that are silent are told where to reply.
    pub(super) fn on_late(&mut self, first: u64, turn: &mut Turn<'_, Self>) {
        let trust = self.config.trust.clone();
        let Some(flight) = self.flights.get_mut(&first) else { return };
        // The member that was named did not send a body: other frames name, and go to, another.
        self.missed.insert(flight.full);
        flight.escalated = true;
        flight.advised = NodeSet::EMPTY;
        let silent = trust.nodes().minus(flight.matching.answered());
        turn.arm(ClientTimer::Retry(first), flight.wait);
        flight.wait = back_off(flight.wait, turn.rng());
        self.transmit(first, trust.nodes(), turn);
        for node in silent.iter() {
            self.attach(node, turn);
        }
    }

    /// What went to this node alone may be lost with it: nobody waits for the timer to tell the others.
    pub(super) fn on_link_down(&mut self, peer: NodeId, turn: &mut Turn<'_, Self>) {
        let alone = |flight: &Flight| {
            self.config.send == SendMode::One
                && flight.full == peer
                && !flight.escalated
                && flight.payload.is_some()
        };
        let late: Vec<u64> =
            self.flights.iter().filter(|(_, flight)| alone(flight)).map(|(first, _)| *first).collect();
        for first in late {
            self.on_late(first, turn);
        }
    }

    /// Sends to one node again what was sent to it and is not answered.
    pub(super) fn resend(&self, to: NodeId, turn: &mut Turn<'_, Self>) {
        let everywhere = self.config.send == SendMode::All;
        let lost = self.flights.iter().filter(|(_, flight)| {
            (everywhere || flight.escalated || flight.full == to) && !flight.matching.answered().contains(to)
        });
        lost.for_each(|(first, _)| self.transmit(*first, NodeSet::only(to), turn));
    }

    /// Sends again after this pause.
    pub(super) fn pause(&self, first: u64, pause: Span, turn: &mut Turn<'_, Self>) {
        if self.flights.contains_key(&first) {
            let jitter = Span(turn.rng().below(pause.0 / 4 + 1));
            turn.arm(ClientTimer::Retry(first), Span(pause.0.saturating_add(jitter.0)));
        }
    }

    /// Takes a frame out of flight; the window may reach further then.
    pub(super) fn land(&mut self, first: u64, turn: &mut Turn<'_, Self>) -> Option<Flight> {
        let flight = self.flights.remove(&first)?;
        self.flight_bytes -= flight.bytes;
        turn.disarm(ClientTimer::Retry(first));
        turn.disarm(ClientTimer::Deadline(first));
        if !self.queue.is_empty() {
            turn.arm(ClientTimer::Flush, Span::ZERO);
        }
        Some(flight)
    }

    /// The outcome of a frame's commands stays unknown.
    pub(super) fn give_up(&mut self, first: u64, doubt: Doubt, turn: &mut Turn<'_, Self>) {
        let session = self.session().unwrap_or_default();
        let Some(flight) = self.land(first, turn) else { return };
        for (sequence, tag) in (first..).zip(flight.tags) {
            let id = RequestId { session, sequence };
            let outcome = Outcome::Unknown(id, doubt);
            turn.output(ClientOutput::Outcome { tag, id, outcome });
        }
    }

    /// Commands that waited until their deadline were never sent: they are rejected.
    pub(super) fn on_queue_due(&mut self, turn: &mut Turn<'_, Self>) {
        let now = turn.now();
        while let Some(waiting) = self.queue.pop_front_if(|waiting| waiting.due <= now) {
            self.queue_bytes -= waiting.body.len() as u64;
            reject(waiting.tag, Rejection::NoQuorum, turn);
        }
        if let Some(oldest) = self.queue.front() {
            turn.arm(ClientTimer::Queue, oldest.due.since(now));
        }
    }
}
