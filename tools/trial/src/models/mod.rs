//! Small instances of the real machines, explored in every schedule.
//!
//! *What it gives.* [`hotstuff`] is a cluster with twins, [`astro`] members beside an owner and a representative who
//! lie, [`joins`] two members that join at once, [`journal`] a journal on a disk that loses power, [`ctb`] a broadcast whose broadcaster lies,
//! [`register`] a register word by word, [`slot`] replicas that leave views, [`rejoin`] the end of an epoch. They are models of the checker stateright, searched depth first. An instance
//! bounds what is explored; the report says whether its frontier was emptied. [`explore`](explore::explore) runs a model as `synod sim explore` does.
//!
//! *Controls.* A model that cannot fail proves nothing: in a build with planted bugs each control must be found.
//!
//! *Bounds.* A deadline per instance, and 100,000 states of single machines: about 3 GB.

pub mod astro;
mod bounded;
pub mod ctb;
pub mod explore;
pub mod hotstuff;
pub mod joins;
pub mod journal;
pub mod register;
pub mod rejoin;
pub mod report;
pub mod slot;
