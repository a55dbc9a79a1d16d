//! Two members that join at once, without consensus (T54; Appendix A of the paper, 4.11 of the specification): four founders, of whom one may
//! lie, and two nodes that ask for a place in the same moment.
//!
//! *Machines.* Real machines of views with toy signatures; states that are kept have no content. A step is an event and all that follows
//! inside the machine.
//!
//! *Schedule.* Nodes take turns, and at its turn a node hears all that is on its way to it, link by link. When nothing is, all hear all
//! again and every timer fires. Everything else is a *deviation*, of which an instance allows a number: a node misses its turn, goes deaf to
//! one node or to all, or the liar says one thing to one or to all: that it proposes or converges on one of the lists of views that there
//! can be.
//!
//! *Judged* (A-S9, T54). Views in which somebody resumes are one chain, a quorum runs in one view at most, nobody whose user merged what was
//! kept in one view for another passes over a view between in which somebody resumed, and in the end all run in the view with both.
//!
//! *Control.* One list per view and member (A30): of two half-supported lists none is ever accepted.

mod cast;
mod member;
mod run;
mod table;
mod town;

pub use run::{CONTROLS, Instance, explore, standard};
