//! The scoreboard: what commands found, held against what a release needs.
//!
//! [`record`] writes what a command found, [`files`] reads what was found at one commit, [`rows`] names the figures and
//! [`bar`] what they must reach, [`board`] puts them together, [`history`] keeps one line per full gate and sums over
//! them, [`plot`] draws those. The page docs/testing/score.md says how to read a row.

pub(crate) mod bar;
pub(crate) mod board;
pub(crate) mod files;
pub(crate) mod history;
pub(crate) mod plot;
mod reading;
pub(crate) mod record;
mod rows;
pub(crate) mod stamp;
