//! One call of one machine, and the queue in front of it.

use synod_machine::host::{At, Frame, Hosted};
use synod_machine::{Span, Time};
use synod_quorum::NodeId;

use super::effects::cut;
use super::node::Status;
use super::run::World;
use crate::checker::{Moment, Violation};
use crate::deed::{Capture, Deed, Seen};
use crate::faulty::{Act, sent, touched};
use crate::happening::{Happening, Work};
use crate::harness::{Refused, Report};
use crate::network::Parcel;
use crate::storage::Loss;

/// Most inputs of connectors that wait for a machine to have room.
const INPUTS_MAX: usize = 65_536;

/// Which sends of a call a strategy touched.
#[derive(Default)]
pub(super) struct Touch {
    by: Option<&'static str>,
    /// Per deed; empty means all of them.
    deeds: Vec<bool>,
}

impl Touch {
    /// Everything that is sent.
    pub(super) const fn all(by: Option<&'static str>) -> Self {
        Self { by, deeds: Vec::new() }
    }

    /// Who touched the deed at this place.
    pub(super) fn of(&self, at: usize) -> Option<&'static str> {
        self.by.filter(|_| self.deeds.is_empty() || self.deeds.get(at).copied().unwrap_or(false))
    }
}

/// One call that was made: whose, about what, and what it wants.
pub(super) struct Call {
    pub(super) place: u32,
    pub(super) slot: u8,
    pub(super) event: u64,
    pub(super) cause: u64,
    pub(super) seen: Seen,
    pub(super) deeds: Vec<Deed>,
    pub(super) touch: Touch,
    pub(super) crash: Option<(Loss, Option<u64>)>,
    /// Of a frame: the strategy that touched it, and its name if the trace wants it.
    pub(super) heard: (Option<&'static str>, Option<u32>),
}

impl World {
    /// A frame came out of a link.
    pub(super) fn deliver(&mut self, parcel: Parcel) {
        if !self.is_heard(&parcel) {
            if let Some(channel) = parcel.channel {
                self.network.taken(channel);
            }
            self.network.stats.lost += 1;
            return;
        }
        let (from, to) = (self.nodes[parcel.from as usize].id, &self.nodes[parcel.to as usize]);
        let slot = to.slot_of((self.route)(from, parcel.machine, parcel.queue, to.id));
        let is_up = to.status == Status::Up;
        let slot = slot.or_else(|| self.answered_by_memory(&parcel));
        match slot.filter(|_| is_up) {
            Some(slot) => self.offer(parcel.to, slot, parcel.cause, Work::Frame(parcel)),
            None => self.network.stats.unlinked += 1,
        }
    }

    /// Queues something for a machine and works on the queue.
    pub(super) fn offer(&mut self, place: u32, slot: u8, cause: u64, work: Work) {
        self.nodes[place as usize].backlog.push_back((cause, slot, work));
        self.pump(place);
    }

    /// Works on a node's queue while its processor is free.
    pub(super) fn pump(&mut self, place: u32) {
        loop {
            let node = &mut self.nodes[place as usize];
            if node.status != Status::Up || self.violation.is_some() {
                return;
            }
            let free = node.free_at();
            if free > self.now {
                if node.resuming != free {
                    node.resuming = free;
                    let tie = node.ties.tie();
                    self.plan.push(free, tie, 0, Happening::Resume { place });
                }
                return;
            }
            let Some((cause, slot, work)) = self.next_work(place) else { return };
            self.turn(place, slot, cause, work);
        }
    }

    /// The next thing a machine of this node can take.
    fn next_work(&mut self, place: u32) -> Option<(u64, u8, Work)> {
        let node = &mut self.nodes[place as usize];
        for (at, slot) in node.slots.iter_mut().enumerate() {
            let Some(hosted) = slot.hosted.as_ref() else { continue };
            if slot.frames.is_empty() && slot.inputs.is_empty() || !hosted.ready() {
                continue;
            }
            let open = hosted.room() > 0;
            let next = slot.frames.pop_front().or_else(|| slot.inputs.pop_front_if(|_| open));
            if let Some((cause, work)) = next {
                return Some((cause, u8::try_from(at).unwrap_or(u8::MAX), work));
            }
        }
        while let Some((cause, at, work)) = self.nodes[place as usize].backlog.pop_front() {
            let slot = &mut self.nodes[place as usize].slots[usize::from(at)];
            let Some(hosted) = slot.hosted.as_ref() else { continue };
            match work {
                Work::Frame(_) if !slot.frames.is_empty() || !hosted.ready() => {
                    slot.frames.push_back((cause, work));
                }
                Work::Input { value, external: true } if hosted.room() == 0 => {
                    let machine = slot.number;
                    self.refuse(place, machine, value);
                }
                Work::Input { external: false, .. } if !slot.inputs.is_empty() || hosted.room() == 0 => {
                    slot.inputs.push_back((cause, work));
                    if slot.inputs.len() > INPUTS_MAX {
                        let what = "a connector outran the machine it feeds";
                        self.violate(Violation::new("connector", what), None);
                    }
                }
                work => return Some((cause, at, work)),
            }
        }
        None
    }

    pub(super) fn refuse(&mut self, place: u32, machine: u8, input: Box<dyn core::any::Any + Send>) {
        self.stats.refused += 1;
        let node = self.nodes[place as usize].id;
        self.reports.push_back(Report::Refused(Refused { time: Time(self.now), node, machine, input }));
    }

    /// Calls a machine and does what it asks for.
    fn turn(&mut self, place: u32, slot: u8, cause: u64, work: Work) {
        self.stats.events += 1;
        let (seen, armed) = self.seen(place, slot, &work);
        let cause = armed.unwrap_or(cause);
        let (touched, frame) = match &work {
            Work::Frame(parcel) => (parcel.touched, self.trace.is_full().then(|| parcel.name())),
            _ => (None, None),
        };
        if let Work::Frame(Parcel { channel: Some(channel), .. }) = work {
            self.network.taken(channel);
        }
        let mut deeds = core::mem::take(&mut self.deeds);
        let outcome = self.call(place, slot, (work, &seen), &mut deeds);
        if let Err(text) = outcome {
            deeds.clear();
            let (event, touch, crash, heard) = (self.stats.events, Touch::default(), None, (touched, frame));
            self.deeds = self
                .remember(Call { place, slot, event, cause, seen, deeds, touch, crash, heard }, Vec::new());
            return self.panicked(place, &text);
        }
        let event = self.stats.events;
        let mut call = Call {
            place,
            slot,
            event,
            cause,
            seen,
            deeds,
            touch: Touch::default(),
            crash: None,
            heard: (touched, frame),
        };
        self.corrupt(&mut call);
        self.bound(&mut call);
        self.charge(&call);
        if let Some(by) = touched {
            self.swallow(&call, by);
        }
        self.conclude(call);
    }

    /// An honest node processed a frame that a strategy touched, unless it did not even decode.
    fn swallow(&mut self, call: &Call, by: &'static str) {
        let node = &self.nodes[call.place as usize];
        if !node.honest() || blames_frame(&call.deeds) {
            return;
        }
        self.stats.swallowed += 1;
        let Seen::Frame(frame) = &call.seen else { return };
        if let Some(kind) = (self.kinds)(node.slots[usize::from(call.slot)].number, &frame.body) {
            *self.stats.cells.entry((by, kind)).or_insert(0) += 1;
        }
    }

    /// Makes the call itself.
    fn call(
        &mut self,
        place: u32,
        slot: u8,
        (work, seen): (Work, &Seen),
        deeds: &mut Vec<Deed>,
    ) -> Result<(), String> {
        let node = &mut self.nodes[place as usize];
        let at = node.clock.at(self.now);
        let Some(mut hosted) = node.slots[usize::from(slot)].hosted.take() else { return Ok(()) };
        let mut platform = Capture { deeds, storage: &mut *node.storage, lane: slot };
        let outcome = crate::panics::catch(|| dispatch(&mut *hosted, work, (at, seen), &mut platform));
        let (bytes, bytes_max) = (hosted.bytes(), hosted.bytes_max());
        node.slots[usize::from(slot)].hosted = Some(hosted);
        outcome?;
        let share =
            u64::try_from(u128::from(bytes) * 1_000 / u128::from(bytes_max.max(1))).unwrap_or(u64::MAX);
        self.stats.bytes_permille_max = self.stats.bytes_permille_max.max(share);
        if bytes > bytes_max {
            let id = node.id;
            let what = format!("machine {slot} holds {bytes} bytes, its formula allows {bytes_max}");
            self.violate(Violation::new("X2", what), Some(id));
        }
        Ok(())
    }

    /// What a checker sees of the work; for timers also the event that armed the first of them.
    fn seen(&mut self, place: u32, slot: u8, work: &Work) -> (Seen, Option<u64>) {
        let seen = match work {
            Work::Start => Seen::Start,
            Work::Input { .. } => Seen::Input,
            Work::Frame(parcel) => {
                let from = self.local(place, parcel.from);
                match self.reply_in(place, slot, parcel) {
                    Some(reply) => Seen::Registered { from, reply },
                    None => Seen::Frame(Frame { from, queue: parcel.queue, body: parcel.body.clone() }),
                }
            }
            Work::Tick => {
                let node = &mut self.nodes[place as usize];
                let now = Time(node.clock.local(self.now));
                node.slots[usize::from(slot)].ticking = false;
                let timers = &mut node.slots[usize::from(slot)].timers;
                let mut due: Vec<(Time, Box<str>, u64)> = timers
                    .extract_if(.., |_, (at, _)| *at <= now)
                    .map(|(name, (at, event))| (at, name, event))
                    .collect();
                due.sort_unstable();
                let armed = due.first().map(|(.., event)| *event);
                return (Seen::Timers(due.into_iter().map(|(_, name, _)| name).collect()), armed);
            }
            Work::Done(_) => Seen::Done,
            Work::Loaded { name, bytes } => Seen::Loaded { name: *name, found: bytes.is_some() },
            Work::Link { peer, link } => Seen::Link { peer: *peer, link: *link },
            Work::Durable(lsn) => Seen::Durable(*lsn),
        };
        (seen, None)
    }

    /// Lets the node's strategy edit the call.
    fn corrupt(&mut self, call: &mut Call) {
        call.touch = Touch::all(self.nodes[call.place as usize].mark);
        let Some(index) = self.nodes[call.place as usize].strategy else { return };
        let Some(mut actor) = self.actors.get_mut(index as usize).and_then(Option::take) else { return };
        let node = &self.nodes[call.place as usize];
        let (mut later, mut crash_after) = (Vec::new(), None);
        let peers = self.peers(call.place);
        let before = sent(&call.deeds);
        let changed = actor.strategy.act(&mut Act {
            now: Time(self.now),
            node: node.id,
            machine: node.slots[usize::from(call.slot)].number,
            seen: &call.seen,
            deeds: &mut call.deeds,
            peers: &peers,
            later: &mut later,
            crash_after: &mut crash_after,
            draws: &mut actor.draws,
            board: &mut self.board,
            keys: &self.corrupted,
        });
        // What an honest node's strategy does to its frames is no lie.
        let name = Some(actor.strategy.name()).filter(|name| name.starts_with("byz."));
        for (after, deed) in later {
            let tie = actor.draws.tie();
            let event = Happening::Strategy { place: call.place, slot: call.slot, by: name, deed };
            self.plan.push(self.now.saturating_add(after.0), tie, call.event, event);
        }
        if let Some(units) = crash_after {
            let restart = actor.draws.log_uniform(Span::millis(10).0, Span::secs(10).0);
            cut(&mut call.deeds, units, self.local(call.place, call.place));
            call.crash = Some((Loss::Drawn, Some(restart)));
        }
        if changed && name.is_some() {
            // A crash in the middle of a send is a touch of all that was sent.
            let deeds = if call.crash.is_some() { Vec::new() } else { touched(&before, &call.deeds) };
            call.touch = Touch { by: name, deeds };
        }
        self.actors[index as usize] = Some(actor);
    }

    /// Counts boundaries and cuts the call where a crash falls.
    fn bound(&mut self, call: &mut Call) {
        let own = self.local(call.place, call.place);
        let units: u64 = call.deeds.iter().map(Deed::units).sum();
        let node = &mut self.nodes[call.place as usize];
        if let Some(crash) = node.crash.as_mut().filter(|_| call.crash.is_none()) {
            if units < crash.after {
                crash.after -= units;
            } else {
                call.crash = Some((crash.loss, crash.restart));
                cut(&mut call.deeds, crash.after, own);
            }
        }
        node.boundaries += call.deeds.iter().map(Deed::units).sum::<u64>();
    }

    /// Charges the processor for the call.
    fn charge(&mut self, call: &Call) {
        let prices = &self.options.prices;
        let mut cost = prices.turn;
        if let Seen::Frame(frame) = &call.seen {
            cost += prices.frame + frame.body.len() as u64 * prices.coded_kib / 1_024;
        }
        if matches!(call.seen, Seen::Registered { .. }) {
            cost += prices.frame;
        }
        for deed in &call.deeds {
            if matches!(deed, Deed::Register { .. }) {
                cost += prices.frame;
            }
            if let Deed::Send { body, .. } = deed {
                cost += deed.units() * prices.frame + body.len() as u64 * prices.coded_kib / 1_024;
            }
        }
        self.nodes[call.place as usize].charge(self.now, cost);
    }

    /// Audits the call, shows it, carries it out, and crashes the node if that is due.
    pub(super) fn conclude(&mut self, mut call: Call) {
        call.seen.audit(&mut self.audit);
        self.audit.word(self.now);
        self.audit.word(u64::from(call.place) << 8 | u64::from(call.slot));
        for deed in &call.deeds {
            deed.audit(&mut self.audit);
        }
        self.judge(&call);
        let outputs = self.outputs(&call);
        self.carry_out(&mut call);
        let Call { place, slot, crash, .. } = call;
        self.deeds = self.remember(call, outputs);
        match crash {
            Some((loss, restart)) => self.crash_place(place, loss, restart),
            None => self.settle(place, slot),
        }
    }

    /// Shows the call to every checker.
    fn judge(&mut self, call: &Call) {
        let node = &self.nodes[call.place as usize];
        let moment = Moment {
            event: call.event,
            cause: call.cause,
            time: Time(self.now),
            node: node.id,
            twin: node.twin,
            incarnation: node.incarnation,
            honest: node.honest(),
            machine: node.slots[usize::from(call.slot)].number,
            seen: &call.seen,
            deeds: &call.deeds,
            crashed: call.crash.is_some(),
        };
        let mut found = None;
        for checker in &mut self.checkers {
            if let Err(violation) = checker.see(&moment) {
                found.get_or_insert(violation);
            }
        }
        let id = node.id;
        if let Some(violation) = found {
            self.violate(violation, Some(id));
        }
    }

    /// A step panicked. The node stops; on an honest node that is X1.
    pub(super) fn panicked(&mut self, place: u32, text: &str) {
        let node = &self.nodes[place as usize];
        let (id, honest) = (node.id, node.honest());
        if honest {
            let what = format!("panic: {text}; run {}", self.options.token);
            self.violate(Violation::new("X1", what), Some(id));
        }
        self.halt_place(place);
    }

    /// Everybody this place has a link to, in its own naming.
    fn peers(&self, place: u32) -> Vec<NodeId> {
        let linked = self.all_places().filter(|peer| self.network.dir(place, *peer).is_some());
        linked.map(|peer| self.local(place, peer)).collect()
    }
}

fn blames_frame(deeds: &[Deed]) -> bool {
    let undecodable = synod_machine::host::UNDECODABLE;
    deeds.iter().any(|deed| matches!(deed, Deed::Blame { fault, .. } if fault.code == undecodable))
}

fn dispatch(hosted: &mut dyn Hosted, work: Work, (at, seen): (At, &Seen), platform: &mut Capture<'_>) {
    match work {
        Work::Start => hosted.start(at, platform),
        Work::Input { value, .. } => hosted.input(value, at, platform),
        Work::Frame(_) => match seen {
            Seen::Frame(frame) => hosted.frame(frame.clone(), at, platform),
            Seen::Registered { from, reply } => hosted.registered(*from, *reply, at, platform),
            _ => {}
        },
        Work::Tick => hosted.tick(at, platform),
        Work::Done(done) => hosted.done(done, at, platform),
        Work::Loaded { name, bytes } => hosted.loaded(name, bytes, at, platform),
        Work::Link { peer, link } => hosted.link(peer, link, at, platform),
        Work::Durable(lsn) => hosted.durable(lsn, platform),
    }
}
