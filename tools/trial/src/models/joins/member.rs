//! One node: its machine and its user, who stops, merges and resumes when it is told to.

use std::collections::VecDeque;
use std::sync::Arc;

use synod_astro::views::{Input, Message, Output, Reconfig, Roll, Transfer, View};
use synod_crypto::{Hash, Hasher, Keys};
use synod_machine::{
    Condition, Effect, Event, Job as _, Log, Machine as _, Recover as _, Rng, Span, Time, To, Turn, Wall,
};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use super::cast::Cast;

/// Events of one step; a machine that does not come to rest is a bug.
const EVENTS_MAX: u32 = 10_000;

/// States without content: who stopped in which view.
#[derive(Clone, Debug)]
pub(super) struct Names;

impl Transfer for Names {
    fn is_state(of: &[Arc<Roll>], state: &Bytes, _: &Keys) -> bool {
        let number = of.last().map_or(0, |roll| roll.id().number);
        state.len() == 5 && state[1..] == number.to_be_bytes()
    }
}

type Machine = Reconfig<Names>;

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Member {
    own: u8,
    machine: Machine,
    is_armed: bool,
    /// Views in which its user resumed.
    pub(super) resumed: Vec<View>,
    /// The view in which its user goes on now.
    pub(super) running: Option<View>,
    /// What its user merged: kept in this view, for that one.
    pub(super) merged: Vec<(View, View)>,
}

impl Member {
    pub(super) fn new(cast: &Cast, own: u8) -> Self {
        let log = Log { condition: Condition::Fresh, records: &mut core::iter::empty() };
        let machine = match Machine::recover(cast.config(own), log) {
            Ok(machine) => machine,
            Err(refused) => unreachable!("an empty log is a fresh member: {refused}"),
        };
        let (resumed, merged) = (Vec::new(), Vec::new());
        Self { own, machine, is_armed: false, resumed, running: None, merged }
    }

    /// Starts, and asks for a place if it has none; what it says.
    pub(super) fn begin(&mut self, cast: &Cast, asks: bool) -> Vec<(To, Message)> {
        let request = asks.then(|| Event::Input(Input::Request(cast.endorsement(self.own))));
        self.run(cast, core::iter::once(Event::Start).chain(request))
    }

    pub(super) fn hear(&mut self, cast: &Cast, from: u8, message: Message) -> Vec<(To, Message)> {
        let from = NodeId(u32::from(from));
        self.run(cast, [Event::Message { from, message }])
    }

    /// Whether its timer is armed.
    pub(super) const fn may_expire(&self) -> bool {
        self.is_armed
    }

    pub(super) fn expire(&mut self, cast: &Cast) -> Vec<(To, Message)> {
        self.is_armed = false;
        self.run(cast, [Event::Timer(synod_astro::views::Timer::Resend)])
    }

    /// What stands for all of it: equal names behave alike.
    pub(super) fn digest(&self) -> Hash {
        let mut hasher = Hasher::new("synod model member");
        hasher.add(format!("{self:?}").as_bytes());
        hasher.finish()
    }

    /// Events, and all that follows from them inside the machine; what is said.
    fn run(&mut self, cast: &Cast, events: impl IntoIterator<Item = Event<Machine>>) -> Vec<(To, Message)> {
        let mut waiting: VecDeque<Event<Machine>> = events.into_iter().collect();
        let (mut said, mut steps) = (Vec::new(), 0);
        while let Some(event) = waiting.pop_front() {
            steps += 1;
            assert!(steps < EVENTS_MAX, "a machine does not come to rest");
            let mut effects = Vec::new();
            let mut rng = Rng::new(0, NodeId(0), 0);
            let mut turn = Turn::new(Time(Span::secs(1).0), Wall(1_000_000), &mut rng, &mut effects);
            self.machine.step(event, &mut turn);
            for effect in effects {
                match effect {
                    Effect::Send { to, message } => said.push((to, message)),
                    Effect::Arm { .. } => self.is_armed = true,
                    Effect::Disarm(_) => self.is_armed = false,
                    Effect::Compute(job) => waiting.push_back(Event::Done(job.run(&cast.keys(self.own)))),
                    Effect::Output(output) => waiting.extend(self.told(output).map(Event::Input)),
                    _ => {}
                }
            }
        }
        said
    }

    fn told(&mut self, output: Output) -> Option<Input> {
        match output {
            Output::Stop(view) => {
                self.running = None;
                let mut state = vec![self.own];
                state.extend(view.number.to_be_bytes());
                Some(Input::Stopped { view, state: Bytes::from(state) })
            }
            Output::Merge { view, from, states, .. } => {
                self.merged.push((from.view().clone(), view.view().clone()));
                let who: Vec<u8> = states.iter().map(|state| state.member).collect();
                Some(Input::Merged { view: view.id(), state: Hash::of(&who) })
            }
            Output::Resume(view) => {
                self.resumed.push(view.view().clone());
                self.running = Some(view.view().clone());
                None
            }
            _ => None,
        }
    }
}
