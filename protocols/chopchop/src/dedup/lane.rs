//! One lane at work: a run of a batch's entries against the slots of its ids.

use core::ops::Range;
use std::sync::Arc;

use synod_machine::planted;
use synod_wire::Bytes;

use super::table::{CHUNK_SLOTS, Chunk, Cut, Slot, Table, tag, tag_of_eight};
use super::{Exceptions, Reason};
use crate::batch::Batch;

/// Entries whose slots are asked for together, while those before are decided.
const PART: usize = 32;

/// The entries of one batch that belong to one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The lane's number.
    pub lane: usize,
    /// The entries, by index.
    pub entries: Range<u32>,
    /// Where the first message begins in the message column, in bytes.
    offset: usize,
    /// The stragglers among them, by place in the straggler column.
    stragglers: Range<usize>,
    /// The voids among them, by place in the void column.
    voids: Range<usize>,
}

/// A batch split by lanes, ready to be deduplicated. Cheap to clone: a job per run holds one.
#[derive(Clone, Debug)]
pub struct Runs {
    batch: Batch,
    ids: Arc<[u32]>,
    runs: Arc<[Run]>,
}

impl Runs {
    /// Splits `batch` by the lanes of `table`, as [`Runs::split_by`] does.
    #[must_use]
    pub fn split(batch: Batch, table: &Table) -> Option<Self> {
        Self::split_by(batch, table.cut())
    }

    /// Splits `batch` by the lanes of a table that is cut like this.
    ///
    /// `None` when an id is not in the table: the caller checked BV1 to BV3 against a directory of at least the
    /// table's length first.
    #[must_use]
    pub fn split_by(batch: Batch, cut: Cut) -> Option<Self> {
        let columns = batch.columns();
        let ids = Arc::clone(columns.shared_ids());
        if ids.last().is_none_or(|last| *last >= cut.length) {
            return None;
        }
        let (mut runs, mut at, mut offset): (Vec<Run>, u32, usize) = (Vec::new(), 0, 0);
        let stragglers: Vec<u32> = columns.stragglers().map(|straggler| straggler.index).collect();
        let voids: Vec<u32> = columns.voids().collect();
        let among = |indices: &[u32], entries: &Range<u32>| {
            let below = |bound: u32| indices.partition_point(|index| *index < bound);
            below(entries.start)..below(entries.end)
        };
        for lane in 0..cut.lanes {
            let end = cut.lane_ids.checked_mul(lane as u64 + 1)?;
            let next = u32::try_from(ids.partition_point(|id| u64::from(*id) < end)).ok()?;
            let entries = at..next;
            let bytes: usize = match batch.header().msg_size {
                0 => entries.clone().map(|index| usize::from(columns.message_len(index))).sum(),
                size => entries.len().checked_mul(usize::from(size))?,
            };
            if !entries.is_empty() {
                let (stragglers, voids) = (among(&stragglers, &entries), among(&voids, &entries));
                runs.push(Run { lane, entries, offset, stragglers, voids });
            }
            (at, offset) = (next, offset.checked_add(bytes)?);
        }
        Some(Self { batch, ids, runs: runs.into() })
    }

    /// The batch.
    #[must_use]
    pub const fn batch(&self) -> &Batch {
        &self.batch
    }

    /// The ids of the entries, in order.
    #[must_use]
    pub const fn ids(&self) -> &Arc<[u32]> {
        &self.ids
    }

    /// The runs, in lane order; every entry is in exactly one.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Every run against its lane, one after another: what the jobs do at once.
    ///
    /// # Panics
    /// When a lane is out.
    #[must_use]
    pub fn apply(&self, table: &mut Table) -> Exceptions {
        let mut list = Vec::new();
        for run in self.runs() {
            let mut lane = table.take(run.lane).expect("no lane is out");
            list.append(&mut lane.apply(self, run));
            table.put(run.lane, lane);
        }
        Exceptions::new(self.batch.header().count, list)
    }
}

/// The slots of a contiguous range of ids.
#[derive(Clone, Debug)]
pub struct Lane {
    first: u64,
    chunks: Vec<Arc<Chunk>>,
}

/// Where in a lane a client stands: chunk, slot.
#[inline]
fn place(first: u64, id: u32) -> Option<(usize, usize)> {
    let at = usize::try_from(u64::from(id).checked_sub(first)?).ok()?;
    Some((at / CHUNK_SLOTS, at % CHUNK_SLOTS))
}

impl Lane {
    pub(super) fn new(first: u64, chunks: Vec<Arc<Chunk>>) -> Self {
        assert!(first.is_multiple_of(CHUNK_SLOTS as u64), "a lane begins with a chunk");
        Self { first, chunks }
    }

    pub(super) fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    pub(super) fn slot(&self, id: u32) -> Option<Slot> {
        let (chunk, at) = place(self.first, id)?;
        self.chunks.get(chunk).map(|chunk| chunk.slot(at))
    }

    /// Deduplicates one run; the entries that are not delivered, in order.
    #[must_use]
    pub fn apply(&mut self, runs: &Runs, run: &Run) -> Vec<(u32, Reason)> {
        let (columns, header) = (runs.batch.columns(), runs.batch.header());
        let Range { start, end } = run.entries;
        let ids = runs.ids.get(start as usize..end as usize).unwrap_or_default();
        let messages: &Bytes = columns.messages();
        let k = header.k;
        if header.msg_size == 8 && run.stragglers.is_empty() && run.voids.is_empty() {
            // The usual batch: one word per message, one number for all.
            let (words, _) = messages.get(run.offset..).unwrap_or_default().as_chunks::<8>();
            let tags = words.iter().zip(columns.parities(start));
            let tags = tags.map(|(word, parity)| tag_of_eight(u64::from_le_bytes(*word), parity));
            return self.decide((start, ids), tags, |_| Some(k));
        }
        let mut offset = run.offset;
        let tags = run.entries.clone().map(|index| {
            let end = offset + usize::from(columns.message_len(index));
            let message = messages.get(offset..end).unwrap_or_default();
            offset = end;
            tag(message, columns.parity(index))
        });
        let mut stragglers =
            columns.stragglers().skip(run.stragglers.start).take(run.stragglers.len()).peekable();
        let mut voids = columns.voids().skip(run.voids.start).take(run.voids.len()).peekable();
        self.decide((start, ids), tags, |index| {
            if voids.next_if_eq(&index).is_some() && !planted!(C14) {
                return None;
            }
            Some(stragglers.next_if(|straggler| straggler.index == index).map_or(k, |straggler| straggler.k))
        })
    }

    /// Decides entries in a row, the first of which has the index `first`; `number` gives the number under which an entry
    /// comes, none for one without signature. While one part is decided, the memory of the next is on its way.
    fn decide(
        &mut self,
        (first, ids): (u32, &[u32]),
        mut tags: impl Iterator<Item = u64>,
        mut number: impl FnMut(u32) -> Option<u64>,
    ) -> Vec<(u32, Reason)> {
        let (mut exceptions, mut index) = (Vec::new(), first);
        let mut parts = ids.chunks(PART).peekable();
        parts.peek().into_iter().for_each(|part| self.near(part));
        while let Some(mut part) = parts.next() {
            parts.peek().into_iter().for_each(|next| self.near(next));
            while let Some((chunk, _)) = part.first().and_then(|id| place(self.first, *id)) {
                // Ids rise, so a chunk is asked for once and not for each of its slots.
                let (here, later) = part.split_at(within(part));
                let Some(chunk) = self.chunks.get_mut(chunk) else { return exceptions };
                let slots = Arc::make_mut(chunk).slots_mut();
                for (id, tag) in here.iter().zip(tags.by_ref()) {
                    let slot = &mut slots[*id as usize % CHUNK_SLOTS];
                    let reason = number(index).map_or(Some(Reason::Void), |k| deliver(slot, k, tag));
                    if let Some(reason) = reason {
                        exceptions.push((index, reason));
                    }
                    index += 1;
                }
                part = later;
            }
        }
        exceptions
    }

    /// Asks for the memory of the slots of `ids`.
    fn near(&self, ids: &[u32]) {
        for (chunk, at) in ids.iter().filter_map(|id| place(self.first, *id)) {
            if let Some(chunk) = self.chunks.get(chunk) {
                chunk.near(at);
            }
        }
    }
}

/// How many of `ids`, which rise, stand in the chunk of the first of them. A lane begins with a chunk.
#[inline]
fn within(ids: &[u32]) -> usize {
    let chunk = |id: &u32| *id as usize / CHUNK_SLOTS;
    let first = ids.first().map(chunk);
    ids.iter().take_while(|id| Some(chunk(id)) == first).count()
}

/// Rules 2 to 4 for one entry; `None` when it is delivered.
#[inline]
fn deliver(slot: &mut Slot, k: u64, tag: u64) -> Option<Reason> {
    let above = k.saturating_add(1);
    match *slot {
        Slot { next_k, tag: last }
            if next_k > 0 && last == tag && !(planted!(C4) || (planted!(C19) && k < next_k)) =>
        {
            slot.next_k = next_k.max(above);
            Some(Reason::Same)
        }
        Slot { next_k, .. } if k < next_k => Some(Reason::Stale),
        Slot { .. } => {
            *slot = Slot { next_k: above, tag };
            None
        }
    }
}
