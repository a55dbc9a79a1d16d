//! The state of an application over lanes: growing, chunks, and one batch after another.

use core::cell::Cell;
use std::sync::Arc;

use synod_crypto::{Hash, merkle};
use synod_wire::Bytes;

use super::cells::Shard;
use super::layout::{KEYS_MAX, Layout};
use super::turn::{Batch, LaneTurn, Run, UNREADABLE};
use super::{Home, LaneApp};

/// The state of an application, cut into lanes.
#[derive(Debug)]
pub struct State<P: LaneApp> {
    app: P,
    layout: Arc<Layout>,
    /// One per lane; none while jobs have them.
    shards: Vec<P::Shard>,
    /// Whether [`State::invariants`] went through what the shards hold now.
    looked: Cell<bool>,
}

impl<P: LaneApp> State<P> {
    /// The first state of `app` under a directory of `directory` clients, in `lanes` lanes, which never change a result.
    #[must_use]
    pub fn new(app: P, lanes: u8, directory: u32) -> Self {
        let lens = app.lens(directory);
        assert_eq!(
            lens.len(),
            P::CELLS.len(),
            "an application gives the number of keys of each of its spaces"
        );
        assert!(lens.iter().all(|len| *len <= KEYS_MAX), "keys are 32-bit numbers");
        let layout = Layout::new::<P>(lanes, &lens);
        let mut shards = empty::<P>(&layout);
        for (lane, shard) in (0..).zip(&mut shards) {
            for space in 0..P::CELLS.len() {
                let (first, len) = layout.space(space).part(lane);
                app.open(shard, space, first..first + len as u64);
            }
        }
        Self { app, layout: Arc::new(layout), shards, looked: Cell::new(false) }
    }

    /// The state that a header names, its cells not yet there; `None` when it is no header of this application. It takes the
    /// memory of all cells at once, so the header is one that somebody vouches for.
    #[must_use]
    pub fn of_header(app: P, lanes: u8, header: &[u8]) -> Option<Self> {
        let layout = layout_of(&app, lanes, header)?;
        let shards = empty::<P>(&layout);
        Some(Self { app, layout: Arc::new(layout), shards, looked: Cell::new(false) })
    }

    /// Number of chunks of the state that a header names, the header included; `None` when it is no header of this
    /// application. Nothing of that state is made, so the header may be anybody's.
    #[must_use]
    pub fn chunks_of_header(app: &P, header: &[u8]) -> Option<u64> {
        layout_of(app, 1, header).map(|layout| layout.chunks())
    }

    /// The rules.
    #[must_use]
    pub const fn app(&self) -> &P {
        &self.app
    }

    /// How it is cut.
    #[must_use]
    pub const fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// What holds `key` of space `number`; nothing beyond the last key, and while jobs are at work.
    #[must_use]
    pub fn shard(&self, number: usize, key: u64) -> Option<&P::Shard> {
        let extent = self.layout.space(number);
        if key >= extent.len { None } else { self.shards.get(extent.lane(key)) }
    }

    /// What the lanes hold, in order.
    #[must_use]
    pub fn shards(&self) -> &[P::Shard] {
        &self.shards
    }

    /// Takes the shards out, for jobs.
    pub(crate) fn take(&mut self) -> Vec<P::Shard> {
        core::mem::take(&mut self.shards)
    }

    /// Puts them back.
    pub(crate) fn put(&mut self, shards: Vec<P::Shard>) {
        assert!(self.shards.is_empty(), "shards come back once");
        assert_eq!(shards.len() as u64, u64::from(self.layout.lanes()), "every lane comes back");
        self.shards = shards;
        self.looked.set(false);
    }

    /// Whether no job has them.
    #[must_use]
    pub(crate) const fn is_home(&self) -> bool {
        !self.shards.is_empty()
    }

    /// Opens what clients up to `directory` have. Lanes are cut anew when one would hold more than its range.
    pub fn grow(&mut self, directory: u32) {
        let old = self.layout.lens();
        let asked = self.app.lens(directory);
        let lens: Vec<u64> = old.iter().zip(asked).map(|(old, asked)| asked.max(*old)).collect();
        if lens == old {
            return;
        }
        self.looked.set(false);
        let lanes = u8::try_from(self.layout.lanes()).unwrap_or(u8::MAX);
        let layout = Layout::new::<P>(lanes, &lens);
        let same = |number| layout.space(number).cut_as(&self.layout.space(number));
        if !(0..P::CELLS.len()).all(same) {
            self.cut(&layout);
        }
        for (lane, shard) in (0..).zip(&mut self.shards) {
            for (number, old) in old.iter().enumerate() {
                let (first, len) = layout.space(number).part(lane);
                shard.space_mut(number).grow(len);
                let fresh = first.max(*old)..first + len as u64;
                if !fresh.is_empty() {
                    self.app.open(shard, number, fresh);
                }
            }
        }
        self.layout = Arc::new(layout);
    }

    /// Moves every chunk to the lane that holds it in `layout`.
    fn cut(&mut self, layout: &Layout) {
        let mut shards = empty::<P>(layout);
        for number in 0..P::CELLS.len() {
            let (before, after) = (self.layout.space(number), layout.space(number));
            for at in 0..before.chunks() {
                let (lane, from) = before.chunk_place(at);
                let Some(space) = self.shards.get(lane).map(|shard| shard.space(number)) else { continue };
                let chunk = space.chunk(from);
                let size = P::CELLS.get(number).copied().unwrap_or(0);
                let grew = after.chunk_bytes(at, size) != chunk.len() as u64;
                let changed = space.changed(from) || grew;
                let (lane, to) = after.chunk_place(at);
                let moved = shards.get_mut(lane).map(|shard| shard.space_mut(number));
                let moved = moved.is_some_and(|space| space.adopt(to, &chunk, changed));
                assert!(moved, "a lane takes the chunks of its range");
            }
        }
        self.shards = shards;
    }

    /// The header: the number of keys of each space.
    #[must_use]
    pub fn header(&self) -> Bytes {
        self.layout.lens().iter().flat_map(|len| len.to_le_bytes()).collect::<Vec<u8>>().into()
    }

    /// Number of chunks, the header included.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        u32::try_from(self.layout.chunks()).unwrap_or(u32::MAX)
    }

    /// Chunk `index`; empty beyond the last.
    #[must_use]
    pub fn chunk(&self, index: u32) -> Bytes {
        if index == 0 {
            return self.header();
        }
        let Some((number, at)) = self.layout.chunk(index) else { return Bytes::new() };
        let (lane, place) = self.layout.space(number).chunk_place(at);
        self.shards.get(lane).map_or_else(Bytes::new, |shard| shard.space(number).chunk(place))
    }

    /// Takes over chunk `index` of another state with this header; false when it is none.
    pub fn adopt(&mut self, index: u32, bytes: &[u8]) -> bool {
        if index == 0 {
            return self.header() == bytes;
        }
        self.looked.set(false);
        let Some((number, at)) = self.layout.chunk(index) else { return false };
        let extent = self.layout.space(number);
        let size = P::CELLS.get(number).copied().unwrap_or(0);
        let (lane, place) = extent.chunk_place(at);
        bytes.len() as u64 == extent.chunk_bytes(at, size)
            && self
                .shards
                .get_mut(lane)
                .is_some_and(|shard| shard.space_mut(number).adopt(place, bytes, false))
    }

    /// Digest of the whole state: the Merkle root over all its chunks.
    #[must_use]
    pub fn root(&self) -> Hash {
        let leaves = (0..self.chunks()).map(|index| merkle::leaf(&self.chunk(index)));
        merkle::Tree::new(leaves.collect()).root()
    }

    /// Executes one batch, lane after lane; a code for each entry.
    pub fn execute(&mut self, batch: &Batch) -> Vec<u8> {
        self.grow(batch.directory);
        self.looked.set(false);
        whole(&self.app, &self.layout, batch, &mut self.shards)
    }

    /// Answers a read; `None` when the question is not understood.
    #[must_use]
    pub fn query(&self, question: &[u8]) -> Option<Bytes> {
        self.app.query(self, question)
    }

    /// Bytes that all cells take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let of = |shard: &P::Shard| (0..P::CELLS.len()).map(|n| shard.space(n).bytes()).sum::<u64>();
        self.shards.iter().map(of).sum()
    }

    /// Bytes that its chunks have, whether the shards are here or not.
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        self.layout.lens().iter().zip(P::CELLS).map(|(len, bytes)| len * *bytes as u64).sum()
    }

    /// Asserts what must hold between batches: goes through all cells once after they changed, so that a step that changes
    /// none costs nothing.
    pub fn invariants(&self) {
        if self.is_home() && !self.looked.replace(true) {
            self.app.invariants(self);
        }
    }
}

/// How the state that a header names is cut; `None` when it is no header of this application.
fn layout_of<P: LaneApp>(app: &P, lanes: u8, header: &[u8]) -> Option<Layout> {
    let (words, rest) = header.as_chunks::<8>();
    let least = app.lens(0);
    if !rest.is_empty() || words.len() != least.len() {
        return None;
    }
    let lens: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let fits = lens.iter().zip(&least).all(|(len, least)| (least..=&KEYS_MAX).contains(&len));
    fits.then(|| Layout::new::<P>(lanes, &lens))
}

/// Shards of this layout whose cells are all defaults.
fn empty<P: LaneApp>(layout: &Layout) -> Vec<P::Shard> {
    let make = |lane| {
        let mut shard = P::Shard::default();
        for number in 0..P::CELLS.len() {
            let (first, len) = layout.space(number).part(lane);
            shard.space_mut(number).begin(first, len);
        }
        shard
    };
    (0..layout.lanes()).map(make).collect()
}

/// The entries of a batch by lanes; nothing when they are no operations.
pub(crate) fn runs<P: LaneApp>(batch: &Batch, layout: &Layout) -> Option<Vec<Run>> {
    if !batch.is_readable() {
        return None;
    }
    let (count, lanes) = (batch.ids.len(), layout.lanes() as usize);
    let mut runs = Vec::with_capacity(lanes);
    let mut from = 0;
    for lane in 0..lanes {
        let end = match P::HOME {
            Home::Anywhere => count * (lane + 1) / lanes,
            Home::Sender => {
                let extent = layout.space(0);
                batch.ids.partition_point(|id| extent.lane(u64::from(*id)) <= lane)
            }
        };
        runs.push(Run::new(from..end));
        from = end;
    }
    Some(runs)
}

/// What a lane needs of a batch in every step.
pub(crate) struct Step<'a, P: LaneApp> {
    pub(crate) app: &'a P,
    pub(crate) layout: &'a Layout,
    pub(crate) batch: &'a Batch,
    /// From 0.
    pub(crate) number: usize,
}

impl<P: LaneApp> Step<'_, P> {
    /// One lane in this step; what it posts, by lane.
    pub(crate) fn run(
        &self,
        run: &mut Run,
        shard: &mut P::Shard,
        inbox: &[Vec<P::Mail>],
    ) -> Vec<Vec<P::Mail>> {
        let lanes = self.layout.lanes() as usize;
        let last = self.number + 1 == P::STEPS;
        let expected = if last { 0 } else { run.entries.len() / lanes + 8 };
        let mut outbox: Vec<Vec<P::Mail>> = (0..lanes).map(|_| Vec::with_capacity(expected)).collect();
        let (batch, layout) = (self.batch, self.layout);
        let mut turn = LaneTurn { batch, layout, run, inbox, outbox: &mut outbox, shard };
        self.app.step(self.number, &mut turn);
        assert!(!last || outbox.iter().all(Vec::is_empty), "nothing is posted in the last step");
        outbox
    }
}

/// What each lane reads in the next step, of what each posted: by source lane.
pub(crate) fn mail_by_lane<M>(posted: Vec<Vec<Vec<M>>>) -> Vec<Vec<Vec<M>>> {
    let mut inboxes: Vec<Vec<Vec<M>>> = posted.iter().map(|_| Vec::with_capacity(posted.len())).collect();
    for outbox in posted {
        for (inbox, mail) in inboxes.iter_mut().zip(outbox) {
            inbox.push(mail);
        }
    }
    inboxes
}

/// Executes one batch, lane after lane; a code for each entry.
pub(crate) fn whole<P: LaneApp>(app: &P, layout: &Layout, batch: &Batch, shards: &mut [P::Shard]) -> Vec<u8> {
    let Some(mut runs) = runs::<P>(batch, layout) else { return vec![UNREADABLE; batch.ids.len()] };
    let mut inboxes: Vec<Vec<Vec<P::Mail>>> = shards.iter().map(|_| Vec::new()).collect();
    for number in 0..P::STEPS {
        let step = Step { app, layout, batch, number };
        let lanes = runs.iter_mut().zip(shards.iter_mut()).zip(&inboxes);
        let posted = lanes.map(|((run, shard), inbox)| step.run(run, shard, inbox)).collect();
        inboxes = mail_by_lane(posted);
    }
    runs.into_iter().flat_map(|run| run.codes).collect()
}

/// The chunks that changed since the last call, with their index in the state, lane after lane.
pub(crate) fn freeze<P: LaneApp>(layout: &Layout, shards: &mut [P::Shard]) -> Vec<(u32, Bytes)> {
    let mut out = Vec::new();
    let mut index = 1;
    for number in 0..P::CELLS.len() {
        let extent = layout.space(number);
        for at in 0..extent.chunks() {
            let (lane, place) = extent.chunk_place(at);
            if let Some(space) = shards.get(lane).map(|shard| shard.space(number))
                && space.changed(place)
            {
                out.push((index, space.chunk(place)));
            }
            index += 1;
        }
        shards.iter_mut().for_each(|shard| shard.space_mut(number).settle());
    }
    out
}

#[cfg(test)]
mod tests {
    use core::ops::Range;
    use core::sync::atomic::{AtomicU32, Ordering};

    use synod_machine::Wall;

    use super::*;
    use crate::lanes::{Cells, Home};
    use crate::{At, Position};

    /// Clients whose cell holds their last operation; counts how often all cells were gone through.
    #[derive(Clone, Debug, Default)]
    struct Last(Arc<AtomicU32>);

    impl LaneApp for Last {
        const STEPS: usize = 1;
        const CELLS: &'static [usize] = &[4];
        const HOME: Home = Home::Sender;
        type Shard = Cells<u32>;
        type Mail = ();

        fn lens(&self, directory: u32) -> Vec<u64> {
            vec![u64::from(directory)]
        }

        fn open(&self, _: &mut Cells<u32>, _: usize, _: Range<u64>) {}

        fn step(&self, _: usize, turn: &mut LaneTurn<'_, Self>) {
            for entry in turn.entries() {
                let place = turn.shard.place(u64::from(entry.id));
                let last = u32::try_from(entry.operation).expect("small");
                *turn.shard.get_mut(place).expect("the sender is here") = last;
                turn.answer(entry.index, 0);
            }
        }

        fn query(&self, _: &State<Self>, _: &[u8]) -> Option<Bytes> {
            None
        }

        fn invariants(&self, _: &State<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn cells_are_gone_through_once_after_each_change_and_never_while_they_are_away() {
        let mut state = State::new(Last::default(), 2, 8);
        let looked = |state: &State<Last>| {
            (0..3).for_each(|_| state.invariants());
            state.app().0.swap(0, Ordering::Relaxed)
        };
        assert_eq!(looked(&state), 1, "a new state");
        assert_eq!(looked(&state), 0);
        let at = At { position: Position(1), time: Wall(0), draw: Hash::ZERO };
        let operations = 7_u64.to_le_bytes().to_vec().into();
        let batch = Batch { height: 2, at, directory: 8, ids: vec![3].into(), operations, skipped: vec![] };
        assert_eq!(state.execute(&batch), [0]);
        assert_eq!(looked(&state), 1, "a batch");
        let shards = state.take();
        assert_eq!(looked(&state), 0, "away");
        state.put(shards);
        assert_eq!(looked(&state), 1, "back from jobs");
        state.grow(8);
        assert_eq!(looked(&state), 0, "nothing grew");
        state.grow(9);
        assert_eq!(looked(&state), 1, "more clients");
        let chunk = state.chunk(1);
        assert!(state.adopt(1, &chunk));
        assert_eq!(looked(&state), 1, "the chunk of another");
    }
}
