//! The end of an epoch of uBFT, a replica that is started again, and one that lags (specification, 4.4, 4.5, 4.9, 4.15): what the epoch that is
//! over left behind decides nothing a second time.
//!
//! *Machines.* Of two followers the real consensus with its broadcasts and registers, real memory nodes, and the real replica where one is
//! started again and where one comes to the next epoch: which lives an epoch lists, and what proves an epoch, is its judgement. The user vouches
//! for all, executes by hashing, and signs the checkpoint that ends the epoch. Signatures are toys and slots are signed.
//!
//! *Where it begins.* Of epoch 0 one slot is left, and everybody knows where it ends. The next epoch lists either the second life of the follower
//! that may be started again, or a new life of the leader and first lives of both followers.
//!
//! *The liar* leads. Of number 1 it can say LOCK and SIGNED of two proposals to each follower, each once; it backs what a follower certified by its own
//! shares, and shows the certificate as number 2, signed, to whom it pleases. It knows what followers say at once, and tells any of them that the
//! epoch is over when it can prove that. It asked memory nodes about the next epoch before, so a region is over as soon as one
//! correct follower asks. Where it speaks in both epochs it proposes the slot behind the end in epoch 1, and another batch of it in epoch 0.
//!
//! *Schedule.* Any order of these: the liar says something, a follower hears the next word of the other, a memory node serves the next
//! operation of a follower and epoch, and the second follower is killed and starts again, once. Whatever may happen may also never
//! happen: that is a link that is cut, a node that stopped and a follower that lags.
//!
//! *Bounds.* Proposals and certificates that the liar says, and whether followers hear each other at all: the one that lags is cut off in the
//! story that this is about (T46). Memory nodes that served nothing yet are alike.
//!
//! *Left out.* Words between followers keep their order, and so do operations of a follower and epoch at a node; an answer comes with its operation
//! and jobs are done at once, for `ctb` has them in any order. Timers, views, words between followers in epoch 1, and what the
//! liar says and writes of others' broadcasts. A life that is killed may have taken part in the last slot, after which a real epoch would list the next
//! life only one epoch later; so more is allowed than can be.
//!
//! *Judged.* U-S1: no two followers, and no two lives of one, speak of two proposals, show two certificates of the leader, or lock two
//! messages. U-S7 and U-S9: what is executed is one, and nothing else is accepted for its slot. U-S13: nothing is
//! promised, and no register written, in an epoch that lists another life. X6.
//!
//! *Controls.* V7, and a memory node that answers for a region that is over as if nothing had ever been written in it (E37). Both are also instances
//! that have the bug themselves, which a test finds in any build. V11 is none: streams are made anew with an epoch.

mod cast;
mod cluster;
mod run;
mod seat;
mod table;

pub use run::{Bug, CONTROLS, Instance, SMALL, explore, standard};
