//! Stepping a machine by hand, for tests: events in, the whole vector of effects out.

mod world;

use synod_quorum::NodeId;

pub use world::{Seat, Users, World, pick};

use crate::{Effect, Event, Machine, Rng, Time, Turn, Wall};

/// Steps `machine` once at `now` and gives its effects. The wall clock equals the monotonic one, the random
/// stream starts anew.
pub fn effects<M: Machine>(machine: &mut M, event: Event<M>, now: Time) -> Vec<Effect<M>> {
    let mut rng = Rng::new(0, NodeId(0), 0);
    let mut effects = Vec::new();
    machine.step(event, &mut Turn::new(now, Wall(now.0 / 1_000_000), &mut rng, &mut effects));
    machine.invariants();
    effects
}
