//! The machine: a replica in the current view, and who changes that.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_ledger::{Opening, Owner, Units};
use synod_machine::broadcast::{Begun, Bounds, Transferable, View as BroadcastView};
use synod_machine::{Bounded, Event, Lift, Machine, Nested, Span, Turn, planted};
use synod_quorum::NodeId;

use super::job::{Carried, Done, Job};
use super::words::{Input, Message, Output, Record, Timer};
use crate::config::{Channel, Parameters};
use crate::replica::{Carrier, Replica};
use crate::views::{self, Entered, Founding, Reconfig, ViewId};
use crate::words::Refusal;

/// When orders that come while nothing is promised are to be tried again, in ms.
const RETRY_MS: u32 = 50;

/// How the broadcast is set up in a view: by this node's number, the view, what of older ones is good in it, and what is kept.
pub type Network<B> = dyn Fn(NodeId, Arc<BroadcastView>, Begun, Bounds) -> Channel<B> + Send + Sync;

/// What a member needs to know.
pub struct Config<B: Carrier> {
    /// This node: a member of the first view, or one that is to join.
    pub me: NodeId,
    /// The members of the first view, and whose quorum endorses changes.
    pub founding: Arc<Founding>,
    /// Accounts there are from the beginning.
    pub genesis: Vec<Opening>,
    /// See [`crate::Config::caps`].
    pub caps: BTreeMap<u32, Units>,
    /// Those of payments. Owners may not sign ([`Parameters::owners_sign`]), unless they are trusted.
    pub parameters: Parameters,
    /// Whether no owner signs two entries for one place. One that does could, with a lying member and a view in which few of those who
    /// settled the one are left, have the other settle too: a state does not tell of what it settled by a certificate that others lack.
    pub trusts_owners: bool,
    /// See there.
    pub network: Arc<Network<B>>,
}

impl<B: Carrier> Clone for Config<B> {
    fn clone(&self) -> Self {
        Self {
            founding: Arc::clone(&self.founding),
            genesis: self.genesis.clone(),
            caps: self.caps.clone(),
            network: Arc::clone(&self.network),
            ..*self
        }
    }
}

impl<B: Carrier> Config<B> {
    /// What cannot work, in words.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let checks = [
            (!self.parameters.profile.funds_first(), "views change in profile II-F alone"),
            (self.parameters.checkpoint_every != Span::ZERO, "members that change make no cuts"),
            (
                self.is_of_owners(),
                "what owners sign is not carried from view to view: owners_sign has to be off",
            ),
            (self.parameters.lane_window > 64, "a state has place for 64 batches of each lane"),
        ];
        checks.into_iter().find(|(is_wrong, _)| *is_wrong).map(|(_, why)| why)
    }

    /// Whether somebody might sign who is not trusted.
    fn is_of_owners(&self) -> bool {
        let is_own = |opening: &Opening| !matches!(opening.terms.owner, Owner::Custodial(_));
        !self.trusts_owners && (self.parameters.owners_sign || self.genesis.iter().any(is_own))
    }

    pub(super) fn views(&self) -> views::Config {
        views::Config {
            me: self.me,
            founding: Arc::clone(&self.founding),
            resend: self.parameters.resend,
            resend_max: self.parameters.resend_max,
        }
    }
}

/// One member's part in payments, while members come and go.
pub struct Member<B: Carrier, C: Transferable + Clone> {
    pub(super) config: Config<B>,
    pub(super) reconfig: Nested<Reconfig<Carried<C>>>,
    /// None before this node entered a view.
    pub(super) replica: Option<Nested<Replica<B>>>,
    /// How its view began.
    pub(super) entered: Arc<Entered>,
    /// The view's number.
    pub(super) view: u32,
    /// Whether anything is promised in it now.
    pub(super) runs: bool,
    /// Whether a newer view was asked for a moment ago.
    pub(super) has_asked: bool,
}

/// The vocabulary of the replica in the member's.
pub(super) struct Within(pub(super) u32);

impl<B: Carrier, C: Transferable + Clone> Lift<Replica<B>, Member<B, C>> for Within {
    fn message(&self, message: crate::Message<B::Message>) -> Message<B::Message> {
        Message::In { view: self.0, message }
    }

    fn timer(&self, timer: crate::Timer<B::Timer>) -> Timer<B::Timer> {
        Timer::In { view: self.0, timer }
    }

    fn record(&self, record: crate::Record<B::Record>) -> Record<B::Record> {
        Record::In(record)
    }

    fn job(&self, job: crate::Job<B::Job>) -> Job<B::Job> {
        Job::In { view: self.0, job }
    }
}

/// The vocabulary of whoever changes the view.
pub(super) struct Beside;

impl<B: Carrier, C: Transferable + Clone> Lift<Reconfig<Carried<C>>, Member<B, C>> for Beside {
    fn message(&self, message: views::Message) -> Message<B::Message> {
        Message::Views(message)
    }

    fn timer(&self, timer: views::Timer) -> Timer<B::Timer> {
        Timer::Views(timer)
    }

    fn record(&self, record: views::Record) -> Record<B::Record> {
        Record::Views(record)
    }

    fn job(&self, job: views::Job) -> Job<B::Job> {
        Job::Views(job)
    }
}

impl<B: Carrier, C: Transferable + Clone> Member<B, C> {
    /// The replica, once this node entered a view.
    #[must_use]
    pub fn replica(&self) -> Option<&Replica<B>> {
        self.replica.as_ref().map(Nested::get)
    }

    /// The newest view that is installed here.
    #[must_use]
    pub fn view(&self) -> ViewId {
        self.reconfig.get().current().id()
    }

    /// Whether anything is promised in it now.
    #[must_use]
    pub const fn runs(&self) -> bool {
        self.runs
    }

    /// Steps the replica, which tells the user.
    pub(super) fn within(&mut self, event: Event<Replica<B>>, turn: &mut Turn<'_, Self>) {
        let Some(replica) = &mut self.replica else { return };
        for output in replica.step(event, &Within(self.view), turn) {
            turn.output(Output::Pay(output));
        }
    }

    /// What is of the view that runs here reaches the replica, and nothing else.
    fn is_current(&self, view: u32) -> bool {
        view == self.view && (self.runs || planted!(A15))
    }

    fn on_message(&mut self, from: NodeId, message: Message<B::Message>, turn: &mut Turn<'_, Self>) {
        match message {
            Message::In { view, message } if self.is_current(view) => {
                self.within(Event::Message { from, message }, turn);
            }
            Message::In { view, .. } => self.on_newer(from, view, turn),
            Message::Views(message) => self.beside(Event::Message { from, message }, turn),
        }
    }

    /// Somebody speaks in a view that is not entered here: what led to it is asked for, once in a while.
    fn on_newer(&mut self, from: NodeId, view: u32, turn: &mut Turn<'_, Self>) {
        let current = self.view();
        if view > current.number && from.is_member() && !self.has_asked {
            self.has_asked = true;
            turn.arm(Timer::Ask, self.config.parameters.resend);
            turn.send(from, Message::Views(views::Message::AskChain { view: current }));
        }
    }

    fn on_input(&mut self, input: crate::Input, turn: &mut Turn<'_, Self>) {
        let tickets: Vec<u64> = match &input {
            crate::Input::Orders(orders) => orders.iter().map(|(ticket, _)| *ticket).collect(),
            crate::Input::Order { ticket, .. }
            | crate::Input::Signed { ticket, .. }
            | crate::Input::Open { ticket, .. }
            | crate::Input::Check { ticket, .. } => vec![*ticket],
            _ => Vec::new(),
        };
        let is_away = !self.runs || self.replica.is_none();
        if tickets.is_empty() || !is_away {
            return self.within(Event::Input(input), turn);
        }
        for ticket in tickets {
            let why = Refusal::Busy(RETRY_MS);
            turn.output(Output::Pay(crate::Output::Refused { ticket, why }));
        }
    }
}

impl<B: Carrier, C: Transferable + Clone> Machine for Member<B, C> {
    type Input = Input;
    type Message = Message<B::Message>;
    type Timer = Timer<B::Timer>;
    type Record = Record<B::Record>;
    type Job = Job<B::Job>;
    type Output = Output;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => self.beside(Event::Start, turn),
            Event::Input(Input::Pay(input)) => self.on_input(input, turn),
            Event::Input(Input::Change(endorsement)) => {
                self.beside(Event::Input(views::Input::Request(endorsement)), turn);
            }
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Timer(Timer::In { view, timer }) if self.is_current(view) => {
                self.within(Event::Timer(timer), turn);
            }
            Event::Timer(Timer::Views(timer)) => self.beside(Event::Timer(timer), turn),
            Event::Timer(Timer::Ask) => self.has_asked = false,
            Event::Done(Done::In { view, done }) if self.is_current(view) => {
                self.within(Event::Done(done), turn);
            }
            Event::Done(Done::Views(done)) => self.beside(Event::Done(done), turn),
            Event::Loaded { name, bytes } if self.runs => self.within(Event::Loaded { name, bytes }, turn),
            Event::Link { peer, link } if self.runs => self.within(Event::Link { peer, link }, turn),
            // Of a view that is over.
            Event::Timer(Timer::In { .. })
            | Event::Done(Done::In { .. })
            | Event::Loaded { .. }
            | Event::Link { .. } => {}
        }
    }

    fn room(&self) -> u32 {
        self.replica().filter(|_| self.runs).map_or(0, Machine::room)
    }

    fn invariants(&self) {
        self.reconfig.get().invariants();
        assert!(!self.runs || self.view == self.view().number, "it promises in a view that is not current");
        assert!(!self.runs || self.replica.is_some(), "it promises without a replica");
        if let Some(replica) = self.replica() {
            replica.invariants();
        }
    }
}

impl<B: Carrier, C: Transferable + Clone> Bounded for Member<B, C> {
    fn bytes(&self) -> u64 {
        self.reconfig.get().bytes() + self.replica().map_or(0, Bounded::bytes)
    }

    fn bytes_max(&self) -> u64 {
        self.reconfig.get().bytes_max() + self.replica().map_or(0, Bounded::bytes_max)
    }
}
