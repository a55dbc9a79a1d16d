//! What a replica's messages amount to, in the order in which it sent them (paper, section 5.2; Algorithm 5).
//!
//! *What it gives.* Consistent Tail Broadcast keeps a replica from saying two things under one number; a stream keeps it from saying
//! two things under two numbers. Messages are applied strictly in order, each is judged by what came before it **of the same
//! replica alone**, and a message that may not be there halts the stream: at the same number at every correct replica.
//!
//! *Purity.* Nothing local is read: no own view, window, endorsement, clock or unchecked signature. So the states of correct replicas
//! for one number are equal, and f + 1 of them can sign its digest (E22). Certificates come here [`Verified`].
//! *Bounds.* W slots in each of three maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::{Hash, Verified};
use synod_machine::planted;
use synod_quorum::NodeId;
use synod_wire::{List, Wire, wire};

use crate::batch::{Batch, Op, Slot, View};
use crate::certificate::{Certified, Checkpoint, Committed, Judged, Left, WINDOW_MAX};
use crate::config::{Config, NUMBER_END};

/// A message whose certificates were checked.
#[derive(Clone, Debug)]
pub enum Checked {
    /// See [`crate::Body::Prepare`].
    Prepare {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// The batch.
        batch: Arc<Batch>,
        /// Of the batch.
        digest: Hash,
        /// Bytes of its encoding.
        length: usize,
    },
    /// See [`crate::Body::Commit`].
    Commit(Verified<Judged<Certified>>),
    /// See [`crate::Body::Checkpoint`].
    Checkpoint(Verified<Judged<Checkpoint>>),
    /// See [`crate::Body::SealView`].
    SealView(View),
    /// See [`crate::Body::NewView`].
    NewView {
        /// The view.
        view: View,
        /// Where replicas stood.
        left: Vec<Verified<Judged<Left>>>,
    },
}

impl Checked {
    /// Bytes that it holds, about.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let rest = match self {
            Self::Prepare { batch, .. } => batch.size_hint() + 64 * batch.requests.len(),
            Self::NewView { left, .. } => left
                .iter()
                .map(|left| left.subject().commits.len() * 56 + left.certificate().signed.len() * 72)
                .sum(),
            Self::Commit(certificate) => certificate.certificate().signed.len() * 72,
            Self::Checkpoint(certificate) => certificate.certificate().signed.len() * 72,
            Self::SealView(_) => 0,
        };
        (size_of::<Self>() + rest) as u64
    }
}

/// Why a message may not be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invalid {
    /// It is not the next one.
    Number,
    /// A view, a slot or a time of 2^62 or more.
    TooLarge,
    /// The sender does not lead the view.
    NotItsLead,
    /// Another view than the sender is in.
    View,
    /// A proposal in a view whose NEW_VIEW was not shown.
    NoNewView,
    /// A slot that is not the next to be proposed.
    Slot,
    /// Beyond the window, or the end of the epoch.
    Window,
    /// Another batch than must be proposed.
    MustPropose,
    /// A batch of another view that need not be proposed.
    Origin,
    /// A batch or a request that is larger than may be.
    Size,
    /// A second certificate for a slot in one view.
    Again,
    /// A checkpoint that is not above the one before, or of another epoch.
    NotAbove,
    /// A view that is not above the one the sender is in.
    Backwards,
    /// Not the first word of the view.
    NotFirst,
    /// Fewer than f + 1 replicas, two about one, of another view, or in no order.
    Certificates,
    /// Somebody stood above what the sender has.
    Below,
}

/// The newest checkpoint of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Low {
    /// The first slot that it does not have.
    pub low: Slot,
    /// Of the checkpoint.
    pub digest: Hash,
    /// The first slot that is none of the epoch's, once that is known.
    pub end: Option<Slot>,
}

wire! {
    /// A slot and a batch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Row {
        /// The slot.
        pub slot: Slot,
        /// Of the batch.
        pub digest: Hash,
    }

    /// A stream as it is summarized.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct State {
        /// The message that comes next.
        pub next_k: u64,
        /// The view that the replica is in.
        pub view: View,
        /// Whether it said nothing but checkpoints there.
        pub fresh: bool,
        /// Whether it showed what it must propose there.
        pub has_new_view: bool,
        /// The slot it may propose next, if it may.
        pub next_prepare: Option<Slot>,
        /// What it proposed in the view.
        pub prepared: List<Row, WINDOW_MAX>,
        /// What it must propose there.
        pub must: List<Row, WINDOW_MAX>,
        /// What it is committed to.
        pub commits: List<Committed, WINDOW_MAX>,
        /// The first slot that its checkpoint does not have.
        pub low: Slot,
        /// Of its checkpoint.
        pub checkpoint: Hash,
        /// The first slot that is none of the epoch's, once that is known.
        pub end: Option<Slot>,
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    sender: NodeId,
    next_k: u64,
    view: View,
    fresh: bool,
    has_new_view: bool,
    next_prepare: Option<Slot>,
    prepared: BTreeMap<Slot, Hash>,
    must: BTreeMap<Slot, Hash>,
    commits: BTreeMap<Slot, (View, Hash)>,
    checkpoint: Low,
}

impl Stream {
    /// The stream of a replica at the begin of an epoch, behind a checkpoint.
    #[must_use]
    pub fn new(config: &Config, sender: NodeId, checkpoint: Low) -> Self {
        Self {
            sender,
            next_k: 1,
            view: config.first_view,
            fresh: false,
            has_new_view: false,
            next_prepare: Some(checkpoint.low),
            prepared: BTreeMap::new(),
            must: BTreeMap::new(),
            commits: BTreeMap::new(),
            checkpoint,
        }
    }

    /// The number of the message that comes next.
    #[must_use]
    pub const fn next_k(&self) -> u64 {
        self.next_k
    }

    /// The view that the replica is in.
    #[must_use]
    pub const fn view(&self) -> View {
        self.view
    }

    /// Whether it may propose in its view.
    #[must_use]
    pub fn may_propose(&self, config: &Config) -> bool {
        config.leader(self.view) == self.sender && (self.view == config.first_view || self.has_new_view)
    }

    /// The slot that it proposes next.
    #[must_use]
    pub const fn next_prepare(&self) -> Option<Slot> {
        self.next_prepare
    }

    /// What it proposed for a slot in its view.
    #[must_use]
    pub fn prepared(&self, slot: Slot) -> Option<Hash> {
        self.prepared.get(&slot).copied()
    }

    /// What it must propose for a slot in its view.
    #[must_use]
    pub fn must(&self, slot: Slot) -> Option<Hash> {
        self.must.get(&slot).copied()
    }

    /// What it proposed in its view.
    pub fn prepares(&self) -> impl Iterator<Item = (Slot, Hash)> {
        self.prepared.iter().map(|(slot, digest)| (*slot, *digest))
    }

    /// The last slot whose batch it may not choose.
    #[must_use]
    pub fn last_must(&self) -> Option<Slot> {
        self.must.last_key_value().map(|(slot, _)| *slot)
    }

    /// Bytes beside the stream itself.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        ((self.prepared.len() + self.must.len()) * 64 + self.commits.len() * 80) as u64
    }

    /// What it is committed to.
    pub fn commits(&self) -> impl Iterator<Item = Committed> {
        self.commits.iter().map(|(slot, (view, digest))| Committed {
            slot: *slot,
            view: *view,
            digest: *digest,
        })
    }

    /// Its newest checkpoint.
    #[must_use]
    pub const fn checkpoint(&self) -> Low {
        self.checkpoint
    }

    /// Applies message `k`. What is refused changes nothing, and the caller halts the stream.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn apply(&mut self, config: &Config, k: u64, message: &Checked) -> Result<(), Invalid> {
        if k != self.next_k {
            return Err(Invalid::Number);
        }
        match message {
            Checked::Prepare { view, slot, batch, digest, length } => {
                self.prepare(config, (*view, *slot), (batch, *length), *digest)?
            }
            Checked::Commit(certificate) => self.commit(config, *certificate.subject())?,
            Checked::Checkpoint(certificate) => self.check_point(config, certificate.subject())?,
            Checked::SealView(view) => self.seal_view(*view)?,
            Checked::NewView { view, left } => self.new_view(config, *view, left)?,
        }
        self.fresh = match message {
            Checked::SealView(_) => true,
            Checked::Checkpoint(_) => self.fresh,
            Checked::Prepare { .. } | Checked::Commit(_) | Checked::NewView { .. } => false,
        };
        self.next_k += 1;
        Ok(())
    }

    /// Whether a slot is between the checkpoint and the end of the window and of the epoch.
    fn is_open(&self, config: &Config, slot: Slot) -> bool {
        let end = self.checkpoint.low.0.saturating_add(u64::from(config.parameters.window));
        let end = self.checkpoint.end.map_or(end, |last| end.min(last.0));
        (self.checkpoint.low.0..end).contains(&slot.0)
    }

    /// Whether this proposal may come next.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn may_prepare(
        &self,
        config: &Config,
        (view, slot): (View, Slot),
        (batch, length): (&Batch, usize),
        digest: Hash,
    ) -> Result<(), Invalid> {
        if view.0 >= NUMBER_END
            || slot.0 >= NUMBER_END
            || batch.time_ms >= NUMBER_END
            || batch.origin.0 >= NUMBER_END
        {
            return Err(Invalid::TooLarge);
        }
        if config.leader(view) != self.sender {
            return Err(Invalid::NotItsLead);
        }
        if view != self.view {
            return Err(Invalid::View);
        }
        if !self.may_propose(config) {
            return Err(Invalid::NoNewView);
        }
        if self.next_prepare != Some(slot) {
            return Err(Invalid::Slot);
        }
        if !self.is_open(config, slot) {
            return Err(Invalid::Window);
        }
        match self.must.get(&slot) {
            Some(must) if *must != digest => return Err(Invalid::MustPropose),
            None if batch.origin != view => return Err(Invalid::Origin),
            Some(_) | None => {}
        }
        if !is_small(config, batch, length) {
            return Err(Invalid::Size);
        }
        Ok(())
    }

    fn prepare(
        &mut self,
        config: &Config,
        (view, slot): (View, Slot),
        batch: (&Batch, usize),
        digest: Hash,
    ) -> Result<(), Invalid> {
        self.may_prepare(config, (view, slot), batch, digest)?;
        self.prepared.insert(slot, digest);
        self.next_prepare = Some(Slot(slot.0 + 1));
        Ok(())
    }

    fn commit(&mut self, config: &Config, certified: Certified) -> Result<(), Invalid> {
        let Certified { view, slot, digest } = certified;
        if view != self.view {
            return Err(Invalid::View);
        }
        if !self.is_open(config, slot) {
            return Err(Invalid::Window);
        }
        // One for each slot and view: a second one would make two of what a replica is committed to (E21).
        if self.commits.get(&slot).is_some_and(|(last, _)| *last == view) {
            return Err(Invalid::Again);
        }
        self.commits.insert(slot, (view, digest));
        Ok(())
    }

    fn check_point(&mut self, config: &Config, checkpoint: &Checkpoint) -> Result<(), Invalid> {
        let Checkpoint { epoch, low, end, .. } = *checkpoint;
        if low.0 >= NUMBER_END || end.is_some_and(|end| end.0 >= NUMBER_END) {
            return Err(Invalid::TooLarge);
        }
        if epoch != config.epoch || low <= self.checkpoint.low {
            return Err(Invalid::NotAbove);
        }
        self.checkpoint = Low { low, digest: checkpoint.digest(), end: end.or(self.checkpoint.end) };
        self.prepared.retain(|slot, _| *slot >= low);
        self.must.retain(|slot, _| *slot >= low);
        self.commits.retain(|slot, _| *slot >= low);
        self.next_prepare = self.next_prepare.map(|next| next.max(low));
        Ok(())
    }

    fn seal_view(&mut self, view: View) -> Result<(), Invalid> {
        if view.0 >= NUMBER_END {
            return Err(Invalid::TooLarge);
        }
        if view <= self.view {
            return Err(Invalid::Backwards);
        }
        self.view = view;
        // What was shown for another view is worth nothing in this one (E18).
        self.has_new_view = planted!(V3) && self.has_new_view;
        self.prepared.clear();
        self.must.clear();
        self.next_prepare = None;
        Ok(())
    }

    fn new_view(
        &mut self,
        config: &Config,
        view: View,
        left: &[Verified<Judged<Left>>],
    ) -> Result<(), Invalid> {
        if config.leader(view) != self.sender {
            return Err(Invalid::NotItsLead);
        }
        if view != self.view {
            return Err(Invalid::View);
        }
        if !self.fresh {
            return Err(Invalid::NotFirst);
        }
        let base = based(config, view, left)?;
        if base > self.checkpoint.low {
            return Err(Invalid::Below);
        }
        self.must = must_propose(left, self.checkpoint.low);
        self.next_prepare = Some(self.checkpoint.low);
        self.has_new_view = true;
        Ok(())
    }

    /// The state that a summary is of.
    #[must_use]
    pub fn state(&self) -> State {
        let rows = |map: &BTreeMap<Slot, Hash>| {
            let rows: Vec<Row> =
                map.iter().map(|(slot, digest)| Row { slot: *slot, digest: *digest }).collect();
            List::try_from(rows).unwrap_or_default()
        };
        State {
            next_k: self.next_k,
            view: self.view,
            fresh: self.fresh,
            has_new_view: self.has_new_view,
            next_prepare: self.next_prepare,
            prepared: rows(&self.prepared),
            must: rows(&self.must),
            commits: List::try_from(self.commits().collect::<Vec<_>>()).unwrap_or_default(),
            low: self.checkpoint.low,
            checkpoint: self.checkpoint.digest,
            end: self.checkpoint.end,
        }
    }

    /// Takes the place of what was missed: a state that f + 1 replicas signed (Alg. 4, lines 11 to 16). False where it is not ahead.
    pub fn restore(&mut self, state: &State) -> bool {
        if state.next_k <= self.next_k {
            return false;
        }
        let rows = |rows: &List<Row, WINDOW_MAX>| rows.iter().map(|row| (row.slot, row.digest)).collect();
        *self = Self {
            sender: self.sender,
            next_k: state.next_k,
            view: state.view,
            fresh: state.fresh,
            has_new_view: state.has_new_view,
            next_prepare: state.next_prepare,
            prepared: rows(&state.prepared),
            must: rows(&state.must),
            commits: state.commits.iter().map(|row| (row.slot, (row.view, row.digest))).collect(),
            checkpoint: Low { low: state.low, digest: state.checkpoint, end: state.end },
        };
        true
    }
}

impl State {
    /// What stands for it.
    #[must_use]
    pub fn digest(&self) -> Hash {
        Hash::of_value("ubft stream", self)
    }
}

/// Where all that is committed begins, if f + 1 distinct replicas are shown to have left for the view.
fn based(config: &Config, view: View, left: &[Verified<Judged<Left>>]) -> Result<Slot, Invalid> {
    let need = config.quorums().map_or(u32::MAX, |quorums| quorums.one_correct());
    let about: Vec<u8> = left.iter().map(|left| left.subject().about).collect();
    let are_enough = u32::try_from(left.len()).is_ok_and(|count| count + u32::from(planted!(V4)) >= need);
    let are_distinct = about.is_sorted_by(|a, b| a < b);
    let is_of_view = |left: &Verified<Judged<Left>>| left.subject().view == view;
    if !are_enough || !are_distinct || !left.iter().all(is_of_view) {
        return Err(Invalid::Certificates);
    }
    left.iter().map(|left| left.subject().low).max().ok_or(Invalid::Certificates)
}

/// For each slot from `low` on, what the newest certificate is of (Alg. 3, lines 25 to 27).
fn must_propose(left: &[Verified<Judged<Left>>], low: Slot) -> BTreeMap<Slot, Hash> {
    let mut newest: BTreeMap<Slot, (View, Hash)> = BTreeMap::new();
    let commits = left.iter().flat_map(|left| left.subject().commits.iter());
    for commit in commits.filter(|commit| commit.slot >= low) {
        let place = newest.entry(commit.slot).or_insert((commit.view, commit.digest));
        if commit.view > place.0 {
            *place = (commit.view, commit.digest);
        }
    }
    newest.into_iter().map(|(slot, (_, digest))| (slot, digest)).collect()
}

/// Whether a batch and its requests are within what the configuration allows.
fn is_small(config: &Config, batch: &Batch, length: usize) -> bool {
    let parameters = &config.parameters;
    let max = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
    let is_request_small = |request: &crate::batch::Request| {
        request.session < NUMBER_END
            && request.id < NUMBER_END
            && match &request.op {
                Op::Inline(_) if request.session == crate::message::CHANGES => true,
                Op::Inline(op) => op.bytes().len() <= max(parameters.request_inline_max),
                Op::Ref { length, .. } => {
                    *length > parameters.request_inline_max && *length <= parameters.request_max
                }
            }
    };
    batch.requests.len() <= max(parameters.batch_max)
        && batch.requests.iter().all(is_request_small)
        && length <= max(parameters.batch_bytes_max)
}
