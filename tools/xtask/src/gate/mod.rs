//! `gate full` and `gate release`: everything that is too long for every commit, in time boxes, two lanes at a time.
//!
//! Each stage is a command; what it finds goes to `target/score`, where `synod score` reads it. A stage that takes
//! longer than its box is ended and fails. A failure lets the commands beside it end and stops all that come after it;
//! nothing is tried again. Commands that this build does not have are told as missing: their rows then have no value,
//! so they are no pass. `target/score/gate.json` keeps the table, `target/score/logs` what each command said.

mod plan;
mod run;
mod stage;
mod tests;

pub(crate) use run::run;
pub(crate) use tests::run as counted;
