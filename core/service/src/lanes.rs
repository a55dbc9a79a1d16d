//! Parallel deterministic execution: applications over batches, in supersteps of lanes (chopchop 4.10).
//!
//! *What it gives.* A [`LaneApp`] executes one batch in [`LaneApp::STEPS`] supersteps. In each, every lane works alone on
//! the cells it holds, reads the mail that was posted to it in the step before, by source lane and then in the order
//! posted, and posts by key. So lanes may run at once, in any order, on any number of threads.
//!
//! *Why a result does not depend on lanes.* A key belongs to one lane; lanes are ranges of keys and entries rise by id,
//! so mail by source lane and order posted is mail in entry order, whatever the number of lanes. An application whose
//! mail of later steps is not posted in entry order makes its order itself, by ranks ([`At::rank`](crate::At::rank)).
//!
//! *State.* A [`State`] is a header, which holds the number of keys of each space, and the cells of each space by keys, in
//! chunks of 64 KiB. Its root is the Merkle root over them: `chunk 0 = header | chunks of space 0 | chunks of space 1`.
//! Chunks know whether they changed, so a checkpoint copies and hashes only those that did.
//!
//! *Composition.* [`crate::BatchExecutor`] is the machine that runs the steps as jobs. [`Lanes`] is the same application
//! for ordering layers that order requests: an [`App`](crate::App), executed one lane after another.
//!
//! *Bounds.* The cells, one byte per chunk, and while a batch runs its mail.

mod cells;
mod layout;
mod ordered;
mod state;
pub mod text;
mod turn;

use core::fmt::Debug;
use core::ops::Range;

use synod_wire::Bytes;

pub use cells::{Cell, Cells, Shard, Space, chunk_shift};
pub use layout::{Extent, KEYS_MAX, Layout};
pub use ordered::Lanes;
pub use state::State;
pub(crate) use state::{Step, freeze, mail_by_lane, runs, whole};
pub(crate) use turn::Run;
pub use turn::{Batch, Entries, Entry, LaneTurn, NEAR, NOT_DELIVERED, OPERATION_BYTES, UNREADABLE};

/// Which lane an entry belongs to in the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The one that holds the sender's cell of space 0.
    Sender,
    /// Any: entries are spread evenly.
    Anywhere,
}

/// An application whose batches lanes execute at once. Deterministic and total: a bad operation yields a code and
/// changes nothing.
pub trait LaneApp: Clone + Debug + Send + Sync + 'static {
    /// Supersteps of a batch, at least one.
    const STEPS: usize;
    /// Bytes of a cell of each space.
    const CELLS: &'static [usize];
    /// Where the entries of a batch are read.
    const HOME: Home;
    /// What one lane holds.
    type Shard: Shard;
    /// What lanes post.
    type Mail: Copy + Debug + Send + Sync + 'static;

    /// Keys of each space under a directory of `directory` clients; never fewer than under a shorter one.
    fn lens(&self, directory: u32) -> Vec<u64>;

    /// Gives the new cells of `keys` in `space` their first value. They are defaults already.
    fn open(&self, shard: &mut Self::Shard, space: usize, keys: Range<u64>);

    /// One lane's part of superstep `step`, from 0. In the last step nothing may be posted.
    fn step(&self, step: usize, turn: &mut LaneTurn<'_, Self>);

    /// Answers a read of the present state; `None` when the question is not understood.
    fn query(&self, state: &State<Self>, question: &[u8]) -> Option<Bytes>;

    /// Asserts what must hold between batches.
    fn invariants(&self, _state: &State<Self>) {}
}
