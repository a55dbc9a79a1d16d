//! Members, sets of members, quorum arithmetic and vote sets.
//!
//! *What it gives.* Every threshold of every protocol comes from here: [`Quorums`] for members of equal power,
//! [`Weights`] for stake. Handlers never compute with n and f. [`VoteSet`] holds one vote per signer, so a
//! repeated signer can never complete a quorum.
//!
//! *Bounds.* At most [`MEMBERS_MAX`] members; sets are one `u128`.
//!
//! ```
//! use synod_quorum::{Model, Quorums};
//! let quorums = Quorums::new(Model::Byzantine, 4).expect("four members tolerate one");
//! assert_eq!((quorums.faulty(), quorums.available(), quorums.one_correct()), (1, 3, 2));
//! ```

mod member;
mod nodes;
mod quorums;
mod votes;
mod weights;

pub use member::{Epoch, Member, NodeId, PublicKey, Roster, RosterError};
pub use nodes::NodeSet;
pub use quorums::{Model, Quorums, TooFew};
pub use votes::{VoteSet, Voted};
pub use weights::Weights;

/// The most members a cluster has; their ids are `0..MEMBERS_MAX`.
pub const MEMBERS_MAX: u32 = 128;
