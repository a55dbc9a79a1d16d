//! Byzantine reliable broadcast (Astro, section IV and Appendix B): what one correct member delivers in a slot, no correct
//! member delivers otherwise.
//!
//! *What it gives.* [`Bracha`]: authenticated links, no signatures. **Agreement**: no two correct members deliver different
//! payloads in one slot. **Integrity**: each slot is delivered once, and what a correct source did not broadcast is never
//! delivered. **Reliability**: what a correct source broadcasts and every correct member endorses is delivered by all.
//! **Totality**: what one correct member delivers, all deliver.
//!
//! *Model.* n >= 3f + 1 members, asynchronous authenticated links that may lose; what is lost is said again by timers, which
//! decide nothing.
//!
//! *Endorsing.* A member promises nothing before its user has judged a payload: `Proposed` is answered by `Judge`. Bracha's
//! broadcast takes a payload as a whole: while anything is excepted, nothing is echoed, and the user may judge again.
//!
//! *Deviations* from Listing 5. Votes carry digests (E5): a payload that is missing is asked of those who are ready for it. One
//! vote per member and slot counts, and slots are worked on within a window (E6). A delivery lets the source's next slot be
//! delivered (E7). An ECHO quorum is ceil((n + f + 1) / 2), not 2f + 1 (E8). Promises are recorded before they are said, and
//! said again after a restart.
//!
//! *Bounds.* n (window (2 payload_max + 192 n) + 320 retain) bytes; see [`synod_machine::Bounded`].

pub mod bracha;
mod config;
mod fault;
mod lot;
pub mod signed;
mod slots;
mod trace;

pub use bracha::Bracha;
pub use config::{Config, PAYLOAD_MAX, RETAIN_MAX, Unsound, WINDOW_MAX};
pub use fault::Fault;
pub use lot::Lot;
pub use signed::SignedBroadcast;
pub use trace::Rule;
