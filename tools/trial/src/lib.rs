//! Systems, scenarios, strategies, oracles and plants for the simulator.

pub mod oracle;
