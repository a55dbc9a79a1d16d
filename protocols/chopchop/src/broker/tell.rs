//! Telling clients their places and deliveries: in turn, at the pace of their answers, and again where none comes.
//!
//! *Bounds.* A step tells at most 1,024 clients; the rest of what the windows admit follows in steps of its own.

use synod_machine::{Span, Time};

use super::flow::{Flow, Told};
use super::open::{Batch, Messages, Phase, Slot};
use super::{Broker, Step, Timer};

/// Clients that one step tells something.
const STEP_MAX: u32 = 1_024;
/// Times that a delivery is sent on the broker's own account.
const DELIVERIES_MAX: u32 = 5;
/// How many of the longest waits for shares pass at most from the first place that is shown to the last.
const SHOWN_WITHIN: u64 = 8;

/// What clients are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Place,
    Delivery,
}

impl What {
    const fn of(self, slot: &mut Slot) -> &mut Told {
        match self {
            Self::Place => &mut slot.shown,
            Self::Delivery => &mut slot.delivered,
        }
    }

    /// Whether this client needs to hear no more of it.
    fn is_settled(self, slot: &Slot) -> bool {
        match self {
            Self::Place => slot.is_complete(),
            Self::Delivery => slot.is_answered(),
        }
    }
}

impl Broker {
    const fn flow(&mut self, what: What) -> &mut Flow {
        match what {
            What::Place => &mut self.places,
            What::Delivery => &mut self.deliveries,
        }
    }

    /// Tells clients what there is room for.
    pub(super) fn tell_more(&mut self, turn: &mut Step<'_>) {
        let mut left = STEP_MAX;
        for what in [What::Place, What::Delivery] {
            while left > 0 && self.flow(what).has_room() {
                let Some(number) = self.flow(what).turn() else { break };
                let Some(index) = self.next_of(number, what) else {
                    self.flow(what).pass();
                    continue;
                };
                left -= 1;
                match what {
                    What::Place => self.tell_place(number, index, turn),
                    What::Delivery => self.tell_delivery(number, index, turn),
                }
            }
        }
        if left == 0 {
            turn.arm(Timer::Tell, Span::ZERO);
        }
    }

    /// The messages of a batch, while there is something of this kind to tell about it.
    fn telling(&mut self, number: u64, what: What) -> Option<&mut Messages> {
        let batch = self.batches.get_mut(&number)?;
        let phase = batch.phase;
        let messages = batch.messages_mut()?;
        let is_open = match what {
            What::Place if messages.offered => phase == Phase::Distilling,
            What::Place => phase < Phase::Delivered,
            What::Delivery => phase == Phase::Delivered,
        };
        is_open.then_some(messages)
    }

    /// Who is told next: those that were not told yet, then those that did not answer.
    fn next_of(&mut self, number: u64, what: What) -> Option<u32> {
        let Messages { slots, places, deliveries, .. } = self.telling(number, what)?;
        let telling = match what {
            What::Place => places,
            What::Delivery => deliveries,
        };
        while let Some(slot) = slots.get(telling.next as usize) {
            telling.next += 1;
            if !what.is_settled(slot) {
                return Some(telling.next - 1);
            }
        }
        while let Some(index) = telling.again.pop_front() {
            let Some(slot) = slots.get_mut(index as usize) else { continue };
            what.of(slot).again = false;
            if !what.is_settled(slot) {
                return Some(index);
            }
        }
        None
    }

    fn tell_place(&mut self, number: u64, index: u32, turn: &mut Step<'_>) {
        let now = turn.now();
        let Some(messages) = self.telling(number, What::Place) else { return };
        let (offered, count) = (messages.offered, messages.shape.count);
        let Some(slot) = messages.slots.get_mut(index as usize) else { return };
        let is_first = offered && index == 0 && slot.shown.times == 0;
        let silent = slot.admitted.carriers.without(slot.heard);
        let waits = slot.shown.tell(now, offered);
        messages.places.waiting += u32::from(waits);
        let all = offered && messages.places.next >= count;
        // The wait begins when the last was shown its place, and is not put off by those that are shown it again.
        let is_last = all && !core::mem::replace(&mut messages.places.ended, true);
        if is_last {
            messages.silent_before = messages.silent;
        }
        if waits {
            self.places.told();
        }
        if is_first {
            // Whoever says nothing makes room after a timeout: many of them cost time, and no more than this.
            let most = self.config.parameters.distil_max.times(SHOWN_WITHIN);
            turn.arm(Timer::Distil(number), most);
            turn.arm(Timer::Resend(number), self.places.timeout(1));
        }
        if is_last {
            turn.arm(Timer::Distil(number), self.distil_wait());
        }
        for link in silent.iter() {
            self.show(number, index, link, turn);
        }
    }

    fn tell_delivery(&mut self, number: u64, index: u32, turn: &mut Step<'_>) {
        let now = turn.now();
        let Some(messages) = self.telling(number, What::Delivery) else { return };
        let Some(slot) = messages.slots.get_mut(index as usize) else { return };
        let signs = slot.signs;
        let open = slot.admitted.carriers.without(slot.acknowledged);
        let waits = slot.delivered.tell(now, true);
        messages.deliveries.waiting += u32::from(waits);
        if waits {
            self.deliveries.told();
        }
        for link in open.iter() {
            // Those that did not sign cannot read the delivery without their place.
            if !signs {
                self.show(number, index, link, turn);
            }
            self.respond_to(number, index, link, turn);
        }
    }

    /// A client answered its place on every link.
    pub(super) fn heard_of_place(&mut self, number: u64, index: u32, now: Time) {
        let Some(messages) = self.telling(number, What::Place) else { return };
        let Some(slot) = messages.slots.get_mut(index as usize) else { return };
        if let (true, took) = slot.shown.answer(now) {
            messages.places.waiting -= 1;
            self.places.answered(took);
        }
    }

    /// A client has its delivery on every link.
    pub(super) fn heard_of_delivery(&mut self, number: u64, index: u32, now: Time) {
        let Some(messages) = self.telling(number, What::Delivery) else { return };
        let slot = messages.slots.get_mut(index as usize).filter(|slot| slot.is_answered());
        let Some(slot) = slot else { return };
        if let (true, took) = slot.delivered.answer(now) {
            messages.deliveries.waiting -= 1;
            self.deliveries.answered(took);
        }
    }

    /// Whoever did not answer in time makes room, and is told again.
    pub(super) fn resend(&mut self, number: u64, turn: &mut Step<'_>) {
        let is_delivered = self.kept.contains(&number);
        let what = if is_delivered { What::Delivery } else { What::Place };
        let (now, timeouts) = (turn.now(), [1, 2, 3, 4, 5].map(|times| self.flow(what).timeout(times)));
        let Some(messages) = self.telling(number, what) else { return };
        let mut silent = 0;
        let Messages { slots, places, deliveries, .. } = messages;
        let telling = if is_delivered { deliveries } else { places };
        for (index, slot) in (0..telling.next).zip(slots) {
            let told = what.of(slot);
            // Most were answered: nothing else of them is read.
            if !told.waits {
                continue;
            }
            let timeout = timeouts[(told.times.saturating_sub(1) as usize).min(timeouts.len() - 1)];
            if now.since(told.last) < timeout {
                continue;
            }
            told.waits = false;
            silent += 1;
            let comes = !told.again && (!is_delivered || told.times < DELIVERIES_MAX);
            if comes && !what.is_settled(slot) {
                what.of(slot).again = true;
                telling.again.push_back(index);
            }
        }
        telling.waiting -= silent;
        let (goes_on, again) = (telling.waiting > 0, !telling.again.is_empty());
        let is_whole = telling.next >= messages.shape.count;
        self.flow(what).given_up(silent);
        if again {
            self.flow(what).queue(number);
        }
        if goes_on || again || !is_whole {
            turn.arm(Timer::Resend(number), timeouts[0]);
        }
        self.tell_more(turn);
    }

    /// Nobody is shown a place in this batch any more.
    pub(super) fn end_places(&mut self, number: u64) {
        if let Some(messages) = self.batches.get_mut(&number).and_then(Batch::messages_mut) {
            let waited = messages.end_places();
            self.places.given_up(waited);
        }
    }

    /// Nobody of a batch that is given up or forgotten is waited for.
    pub(super) fn tell_no_more(&mut self, batch: &Batch) {
        if let Some(messages) = batch.messages() {
            self.places.given_up(messages.places.waiting);
            self.deliveries.given_up(messages.deliveries.waiting);
        }
    }
}
