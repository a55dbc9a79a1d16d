//! Floods: what a crowd of strangers, a faulty member and readers that do not read can do to a node.
//!
//! *What.* [`Strangers`] holds thousands of connections open before authentication and drips a byte a second into each.
//! [`Byzantine`] sends well-formed messages of far views and from nowhere as fast as a node takes them, and guests send
//! headers of oversized frames. [`Stalled`] asks for answers and reads none. Each runs until it is dropped.
//!
//! *Why.* testing.md, N3, N5 and N6: memory follows the configuration, and honest users are served on.
//!
//! *Whose processor.* An attacker sits elsewhere; here it shares the machine with its victims. So its threads run at the
//! lowest priority: they take what the nodes leave.
//!
//! *Bounds.* Connections as many as were asked for, within [`descriptors`]; a flood prepares its frames once.

mod byzantine;
mod descriptors;
mod stalled;
mod strangers;
mod thread;

pub use byzantine::{Byzantine, Sent};
pub use descriptors::descriptors;
pub use stalled::Stalled;
pub use strangers::{Counts, Strangers};
