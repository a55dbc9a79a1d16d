//! Byzantine reliable broadcast (Astro, section IV and Appendix B): what one correct member delivers in a slot, no correct
//! member delivers otherwise.
//!
//! *What it gives.* **Agreement**: no two correct members deliver different payloads in one slot. **Integrity**: what a correct
//! source did not broadcast is never delivered. **Reliability**: what a correct source broadcasts and correct members endorse is
//! delivered by all. **Totality**: what one correct member delivers, all deliver. Two ways to it:
//!
//! - [`Bracha`] needs authenticated links and no signatures, and n messages of every member per slot. Nothing can be shown to
//!   others. A source's slots are delivered in order, once each.
//! - [`SignedBroadcast`] needs one signature of each member per slot, and gives a certificate that anybody can check. A payload
//!   has items, and members endorse all of them but those they name: an item is certified that a quorum did not except, and one
//!   bad item holds no other up. Slots are delivered in any order, and again with each certificate that certifies more.
//!
//! *Model.* n >= 3f + 1 members, asynchronous authenticated links that may lose; what is lost is said again by timers, which
//! decide nothing. A timer waits as long as slots of its lane take (`patience.rs`); a source fills half of the window that members
//! work on, for they are done with a slot after its source is.
//!
//! *Endorsing.* A member promises nothing before its user has judged a payload: `Proposed` is answered by `Judge`, with the
//! items that are not endorsed. The user may judge again, and endorse more. Bracha's broadcast takes a payload as a whole: while
//! anything is excepted, nothing is echoed.
//!
//! *Deviations* from Listing 5. Votes carry digests (E5): a payload that is missing is asked of those who are ready for it. One
//! vote per member and slot counts, and slots are worked on within a window (E6). A delivery lets the source's next slot be
//! delivered (E7). An ECHO quorum is ceil((n + f + 1) / 2), not 2f + 1 (E8).
//!
//! *Deviations* from Listing 6. A slot has one payload at each member for ever (E9), sent by a member of the view in its own lane
//! (E10). ACKs count by digest, at a quorum or above (E11). COMMIT names the digest, and delivers what has it (E12); a payload that
//! comes later is asked for (E13). Signers are distinct members of the view (E14). Each certificate is delivered once (E15).
//! Frontiers name what is certified above a gap, too: a source that lies may leave a slot without a certificate for ever, and
//! certify later ones at some members. Statements name protocol, cluster, view and shard (E16). A source that stops between PREPARE and COMMIT is helped by
//! whoever holds its payload, and certificates spread by what members tell of how far they are (lazy totality, 4.8).
//!
//! Promises are recorded before they are said, and said again after a restart.
//!
//! *Bounds.* Bracha: n (window (2 payload_max + 192 n) + 320 retain) bytes. Signed: payloads of n window slots, and per kept slot its
//! certificates of about 100 n bytes, lists of exceptions beside. See [`synod_machine::Bounded`].

pub mod bracha;
mod config;
mod fault;
mod patience;
pub mod signed;
mod slots;
mod trace;

pub use bracha::Bracha;
pub use config::{Config, RETAIN_MAX, Unsound, WINDOW_MAX};
pub use fault::Fault;
pub use signed::SignedBroadcast;
pub use synod_machine::broadcast::Lot;
pub use synod_machine::broadcast::PAYLOAD_MAX;
pub use trace::Rule;
