//! Reconfiguration without consensus: views, and how members move from one to the next (Appendix A; specification 4.11).
//!
//! *What it gives.* A [`View`] is a set of changes, members that joined and that left, ordered by inclusion. Whatever is asked for and
//! endorsed by a quorum of operators becomes part of a view; views in which somebody resumes form one sequence (A-S9), and none of them
//! is skipped: its members stop, and what a quorum of them kept is merged by the members of the next. No leader, no clock and no
//! consensus: a minority that is slow or lies delays nobody, and two changes at once are both made.
//!
//! *Model.* Of the members of each view at most f = floor((N-1)/3) lie, and of the operators at most floor((O-1)/3). A member that lost
//! its log counts as faulty and comes back under another number. A removed number never returns: 128 numbers are all there are.
//!
//! *How* ([`Reconfig`]). 1. *Request*: an endorsed [`Change`] goes to the members of the newest known view, who record and confirm it. 2.
//! *Propose*: a member signs its accepted views and one above them, the union of all that it knows. 3. *Accept*: what a quorum proposes in
//! the same words is accepted, and shown to all. No accepted view is dropped and the union never shrinks. 4. *Converge*: who accepts
//! exactly its own list signs that. 5. *Install*: a quorum of such signatures installs the least view of the list; the others are
//! its *rest*. 6. Members of the old view stop, and sign what they keep ([`SignedState`]). 7. With such words of a quorum a member of
//! the new view merges them. Where nothing is left over it resumes; else it goes on at 2, with the rest as its accepted views.
//!
//! *What is transferred* is the business of whoever uses the machine ([`Transfer`]): it is asked to stop, to merge and to resume by outputs.
//!
//! *Deviations* from the specification. What is newest of a member is told by a count that travels beside its proposal, for a smaller
//! rest can make a later list shorter. Whoever waits for states asks for them, and those who have them pass them on: members that
//! left may be gone. A state is acknowledged once it is recorded. A view can be reached from several older ones; whichever states come first are merged.
//!
//! *Bounds.* 128 member numbers, 256 changes, so 257 views. Of each sender the newest proposal, list and state; of messages for a view that
//! is not installed here one of each kind per sender, of 16 KiB at most. See [`synod_machine::Bounded`].

mod chain;
mod crossing;
mod entered;
mod install;
mod job;
mod propose;
mod reconfig;
mod recover;
mod resend;
mod roll;
mod state;
mod trace;
mod view;
mod words;

pub use chain::{BadChain, Step, claims_of, follow};
pub use crossing::{Crossing, Use};
pub(crate) use entered::BELOW_MAX;
pub use entered::{Entered, Pin, PinnedEntry, PinnedLot};
pub use job::{Done, IsState, Job, Transfer};
pub use reconfig::{Config, Reconfig};
pub use roll::{Founding, OPERATORS_MAX, Roll};
pub use state::{
    Kept, Merged, PROOF_MAX, SHOWN_MAX, Shown, ShownEntry, ShownLot, Tip, Verdict, merge_states,
};
pub use trace::{Fault, Rule};
pub use view::{CHANGES_MAX, Change, Sequence, View, ViewId, merged};
pub use words::{
    Agreed, Endorsement, Input, Message, Operator, Output, Proposal, Record, Refusal, STATE_MAX, SignedState,
    Sworn, Timer,
};
