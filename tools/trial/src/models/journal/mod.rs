//! The real journal on a disk in memory: every order of four writes and two syncs, every moment at which the power may go
//! or an operation may fail, and every combination of what the disk kept, dropped or tore of what was not synced.
//!
//! *State.* What happened, in order; the disk follows from it, because nothing in the journal is random. Of a write of up
//! to four sectors every subset may survive, of a longer one all, none or either half; directory entries survive or not.
//!
//! *Judged* at every start: J-S1, J-S2 (a disk that only lost power is never damaged; a record that was reported durable
//! before the last sync and rots is never cut as if it were a torn tail), J-S3; and that what is written next is there at the start after.
//!
//! *Symmetry.* None: positions and lanes are all different.

mod instance;
mod life;
mod power;
mod run;

pub use instance::Instance;
pub use run::{CONTROLS, SMALL, explore, standard};
