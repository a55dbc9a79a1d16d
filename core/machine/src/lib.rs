//! The machine contract: events, turns, effects, nesting, recovery and the durability gate.
