//! Faults that only a real process can meet, made on purpose.
//!
//! *What.* [`fs`] is a file system in memory, mounted through FUSE, that forgets at a power cut what was not synced,
//! fills up, fails, writes short and slows down on command. [`identity`] shows a running node identities that it must
//! refuse, [`poison`] gives it bad input, [`flood`] more than it can take, all over connections that [`stranger`] speaks
//! by hand. [`links`] carries what members say to one another, and hurts it. [`linear`] judges what clients saw. [`Draw`]
//! is the source of every choice of a run.
//!
//! *Why.* SIGKILL leaves the page cache in place, so killing processes never shows whether a promise was on the disk
//! before it was sent. A file system below the page cache can.
//!
//! *Bounds.* An unsynced backlog over 64 MiB is written back; the log of syncs holds the newest 4,096.

mod draw;
pub mod flood;
pub mod fs;
pub mod identity;
pub mod linear;
pub mod links;
pub mod poison;
pub mod stranger;

pub use draw::Draw;
