//! Out of one view and into the next.

use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::broadcast::Transferable;
use synod_machine::{Condition, Event, Log, Nested, Turn, Unrecoverable};
use synod_wire::Wire;

use super::job::Carried;
use super::machine::{Beside, Config, Member};
use super::words::{Output, Record};
use crate::config::{Config as ReplicaConfig, Setup};
use crate::replica::{Carrier, Replica};
use crate::shards::Shards;
use crate::views::{self, Entered, Kept, Reconfig, Refusal, Roll, SignedState, View, ViewId};

impl<B: Carrier, C: Transferable + Clone> Member<B, C> {
    /// Steps whoever changes the view, and does what that says.
    pub(super) fn beside(&mut self, event: Event<Reconfig<Carried<C>>>, turn: &mut Turn<'_, Self>) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let said: Vec<views::Output> = self.reconfig.step(event, &Beside, turn).collect();
            for output in said {
                events.extend(self.on_view(output, turn).map(Event::Input));
            }
        }
    }

    /// What is said of views, and what is answered.
    fn on_view(&mut self, output: views::Output, turn: &mut Turn<'_, Self>) -> Option<views::Input> {
        match output {
            views::Output::Stop(view) => return self.stop(view, turn),
            views::Output::Merge { rolls, states, .. } => return self.enter(&rolls, &states, turn),
            views::Output::Resume(roll) => self.resume(roll, turn),
            views::Output::Installed(_) => {}
            views::Output::Confirmed(change) => turn.output(Output::Confirmed(change)),
            views::Output::Left(view) => turn.output(Output::Left(view)),
            views::Output::Refused { change, why } => turn.output(Output::Refused { change, why }),
            views::Output::Contradiction { view, evidence } => {
                turn.output(Output::Contradiction { view, evidence });
            }
        }
        None
    }

    /// Step 6: nothing of the old view is answered any more, and this is what it was.
    fn stop(&mut self, view: ViewId, turn: &mut Turn<'_, Self>) -> Option<views::Input> {
        self.runs = false;
        turn.output(Output::Stopped(view));
        let replica = self.replica.as_mut().expect("a member of a view entered it");
        replica.get_mut().stop(&mut |promise| turn.persist(Record::In(promise.into())));
        match replica.get().state() {
            Some(kept) => Some(views::Input::Stopped { view, state: kept.encode() }),
            None => {
                turn.output(Output::Refused { change: None, why: Refusal::StateTooLong });
                None
            }
        }
    }

    /// Step 7: the states of a quorum are merged, and a replica goes on from them.
    fn enter(
        &mut self,
        rolls: &[Arc<Roll>],
        states: &[SignedState],
        turn: &mut Turn<'_, Self>,
    ) -> Option<views::Input> {
        let view = rolls.last().map(|roll| roll.id())?;
        if self.replica.is_none() || self.entered.views.last().map_or(0, View::number) != view.number {
            let kept = |state: &SignedState| Some((state.member, Kept::of(state.state.bytes())?));
            let mut entered = Entered::merged(rolls, states.iter().filter_map(kept).collect());
            if let Some(replica) = self.replica() {
                entered.keep_own(replica.own_slots(&entered));
            }
            if self.is_too_far(&entered) {
                turn.output(Output::TooFar(view));
                return None;
            }
            turn.persist(Record::Entered(Box::new(entered.clone())));
            let next = crossed(&self.config, self.replica(), Arc::new(entered));
            self.take(next.expect("what states tell was checked, and records are this node's own"));
        }
        Some(views::Input::Merged { view, state: Hash::of_value("synod astro entered", &*self.entered) })
    }

    /// A replica takes the place of the one before.
    pub(super) fn take(&mut self, (entered, replica): Taken<B>) {
        (self.view, self.entered, self.runs) = (entered.number(), entered, false);
        self.replica = Some(Nested::new(replica));
    }

    /// Whether lanes are so long that members may not keep what is missing here.
    fn is_too_far(&self, entered: &Entered) -> bool {
        let most = self.config.parameters.retain / 2;
        let here = |source: u8| self.replica().map_or(0, |replica| replica.frontier(source));
        entered.tips.iter().any(|tip| tip.sequence > here(tip.source).saturating_add(most))
    }

    /// Step 7: nothing was left over.
    fn resume(&mut self, roll: Arc<Roll>, turn: &mut Turn<'_, Self>) {
        self.runs = true;
        assert!(roll.id().number == self.view, "a view is entered before it resumes");
        turn.output(Output::Resumed(roll));
        self.within(Event::Start, turn);
    }
}

/// A replica, and how its view began.
pub(super) type Taken<B> = (Arc<Entered>, Replica<B>);

/// The replica in a view that it enters, from the one that it had.
pub(super) fn crossed<B: Carrier>(
    config: &Config<B>,
    before: Option<&Replica<B>>,
    entered: Arc<Entered>,
) -> Result<Taken<B>, Unrecoverable> {
    let records = before.map(|before| before.crossing(&entered)).unwrap_or_default();
    let replica = replica(config, Arc::clone(&entered), records)?;
    Ok((entered, replica))
}

/// The replica in a view from its records.
pub(super) fn replica<B: Carrier>(
    config: &Config<B>,
    entered: Arc<Entered>,
    records: Vec<crate::Record<B::Record>>,
) -> Result<Replica<B>, Unrecoverable> {
    let first = Entered { views: vec![View::default()].try_into().unwrap_or_default(), ..Entered::default() };
    let of = if entered.views.is_empty() { &first } else { &*entered };
    let (view, begun) =
        of.begun(&config.founding).ok_or_else(|| Unrecoverable("what was entered is no view".into()))?;
    let Config { me, parameters, .. } = *config;
    let channel = (config.network)(me, Arc::clone(&view), begun, parameters.bounds());
    let (genesis, caps) = (config.genesis.clone(), config.caps.clone());
    let config = ReplicaConfig { me, view, genesis, caps, shards: Shards::default(), parameters };
    let log = Log { condition: Condition::Clean, records: &mut records.into_iter() };
    Replica::recover_in(Setup { config, channel }, entered, log)
}
