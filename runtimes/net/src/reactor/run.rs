//! The reactor and its loop: turn after turn, asleep when nothing is to be done.

use core::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use synod_machine::host::At;
use synod_machine::{Span, Time};

use super::{Slot, Wires};
use crate::clock::Clock;
use crate::connector::Connector;
use crate::counters::Counters;
use crate::mailbox::{Exchange, Mail, Mailbox};
use crate::observer::Observer;
use crate::pool::Pool;

/// How often links are looked after and gauges published.
pub(crate) const TEND_EVERY: Span = Span::millis(250);

/// What a reactor is made from.
pub(crate) struct ReactorParts {
    pub(crate) number: usize,
    pub(crate) clock: Clock,
    pub(crate) slots: Vec<Slot>,
    pub(crate) wires: Wires,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) pool: Pool,
    pub(crate) counters: Arc<Counters>,
}

/// One thread's machines, and the sockets if it is the first.
pub(crate) struct Reactor {
    pub(super) parts: ReactorParts,
    /// Where each machine of the node is, in table order: a slot here, or elsewhere.
    pub(super) local: Vec<Option<usize>>,
    pub(super) mail: Vec<Mail>,
    pub(super) outputs: VecDeque<Box<dyn Any + Send>>,
    pub(super) inputs: Vec<(u8, Box<dyn Any + Send>)>,
    pub(super) ready: Vec<bool>,
    pub(super) at: At,
    pub(super) tended: Time,
    pub(super) jobs_wait: bool,
    /// The longest that a turn began after it was due, since the links were last looked after.
    pub(super) late: Span,
    pub(super) stop: bool,
}

impl Reactor {
    pub(crate) fn new(parts: ReactorParts) -> Self {
        let local = match &parts.wires {
            Wires::Own(net) => net
                .table()
                .machines()
                .iter()
                .map(|number| parts.slots.iter().position(|slot| slot.number == *number))
                .collect(),
            Wires::Remote(_) => Vec::new(),
        };
        let at = parts.clock.at();
        Self {
            parts,
            local,
            mail: Vec::new(),
            outputs: VecDeque::new(),
            inputs: Vec::new(),
            ready: Vec::new(),
            at,
            tended: at.now,
            jobs_wait: false,
            late: Span::ZERO,
            stop: false,
        }
    }

    /// Runs until told to stop or the brake is pulled.
    pub(crate) async fn run(mut self) {
        if let Wires::Own(net) = &mut self.parts.wires {
            net.open();
        }
        self.begin();
        let bell = self.parts.mailbox.bell.clone();
        loop {
            let more = self.turn();
            if self.stop || self.parts.exchange.is_halted() {
                break;
            }
            let deadline = self.deadline();
            // The system's timer counts whole milliseconds: what is due already must not wait for the next one.
            if more || deadline <= self.parts.clock.at().now {
                tokio::task::yield_now().await;
                continue;
            }
            let until = self.parts.clock.instant(deadline);
            tokio::select! {
                biased;
                () = bell.notified() => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
            self.late = self.late.max(self.parts.clock.at().now.since(deadline));
        }
        if self.parts.exchange.is_halted() {
            // Whoever pulled the brake may not have woken the others.
            self.parts.exchange.halt();
        }
        if let Wires::Own(net) = &mut self.parts.wires {
            net.stop();
        }
    }

    /// When the reactor has something to do though nobody rings.
    fn deadline(&self) -> Time {
        let mut deadline = self.tended + TEND_EVERY;
        for slot in &self.parts.slots {
            deadline = slot.hosted.deadline().map_or(deadline, |timer| deadline.min(timer));
        }
        if let Wires::Own(net) = &self.parts.wires {
            deadline = net.deadline().map_or(deadline, |opens| deadline.min(opens));
        }
        if self.jobs_wait {
            deadline = deadline.min(self.at.now + Span::millis(1));
        }
        deadline
    }
}
