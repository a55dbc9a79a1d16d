//! Faults in a cluster of real processes under load, and the audit behind them.
//!
//! *What it shows.* Each lane of the load counts its own key up and is told every new value, so that one number per
//! lane says whether every acknowledged write is there exactly once; equal digests of all members' states say that it
//! is so everywhere. The schedule kills leaders, stops followers and restarts everybody; or one member lies to clients,
//! signs twice or says nothing, and no client may notice. Links between members are split, late, reset, half-open, slow or
//! wrong. Beside the lanes other clients keep everything they see of a few keys, which must be linearizable.

mod attacked;
mod breakage;
pub(crate) mod flood;
mod histories;
mod hurt;
pub(crate) mod identities;
mod ledger;
mod load;
mod mix;
mod plan;
pub(crate) mod poison;
pub(crate) mod power;
mod report;
mod run;
mod schedule;
mod timeline;

pub(crate) use hurt::Hurt;
pub(crate) use ledger::Lane;
pub(crate) use load::Load;
pub(crate) use plan::{Lie, Plan};
pub(crate) use run::run;
pub(crate) use timeline::{Phase, Timeline};
