//! What memory a link takes, and making this side's.

use std::os::fd::OwnedFd;

use synod_machine::{Full, QueueSpec};
use synod_tail::pipe::{CAPACITY_MIN, DATA, Pipe};
use synod_tail::ring::{DEPTH_MIN, Ring, RingSpec, SLOT_UNIT};
use synod_tail::{Fence, Words};

use super::outlet::Outlet;
use super::{PIPE_BYTES_MAX, QUEUES_MAX};
use crate::error::Error;
use crate::hand::{Kind, Label};
use crate::map::{Shown, Written};
use crate::memfd::offer;

/// The generation, in a side's page. Counts of what was sent stand in the seven words behind it.
pub(crate) const GENERATION: u32 = 0;
/// The first acknowledgement; that of the n-th ring of the other side stands n words behind.
const ACKNOWLEDGED: u32 = 8;
/// Words of a page.
pub(crate) const PAGE_WORDS: u32 = 512;
/// Bytes of a slot's header.
const SLOT_HEADER: u32 = 16;

const _: () = assert!(ACKNOWLEDGED as usize + QUEUES_MAX <= PAGE_WORDS as usize);

/// Where the acknowledgement of the `order`-th ring stands.
pub(crate) const fn acknowledgement(order: u32) -> u32 {
    ACKNOWLEDGED + order
}

/// A queue of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// The machine that hears it.
    pub(crate) machine: u8,
    /// Its number.
    pub(crate) queue: u8,
    /// Its bounds.
    pub(crate) spec: QueueSpec,
}

/// What carries a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Ring(Ring),
    Pipe(Pipe),
}

impl Shape {
    pub(crate) fn of(spot: &Spot) -> Result<Self, Error> {
        let QueueSpec { depth, frame_max, full } = spot.spec;
        let unfit = Error::Queue { machine: spot.machine, queue: spot.queue };
        match full {
            Full::EvictOldest => {
                let slot_bytes = frame_max
                    .checked_add(SLOT_HEADER)
                    .and_then(|bytes| bytes.checked_next_multiple_of(SLOT_UNIT));
                let slot_bytes =
                    slot_bytes.ok_or(Error::Queue { machine: spot.machine, queue: spot.queue })?;
                let spec = RingSpec { depth: depth.max(DEPTH_MIN), slot_bytes };
                Ring::new(spec).map(Self::Ring).map_err(|_| unfit)
            }
            Full::DropNewest | Full::Reset => {
                let bytes = depth.saturating_mul(frame_max.saturating_add(8)).clamp(4_096, PIPE_BYTES_MAX);
                Pipe::new((bytes / 8 - DATA).max(CAPACITY_MIN)).map(Self::Pipe).ok_or(unfit)
            }
        }
    }

    /// Bytes of the longest message that is copied out at once: what a scratch buffer must hold.
    pub(crate) const fn scratch(self) -> u32 {
        match self {
            Self::Ring(ring) => ring.payload_max(),
            Self::Pipe(_) => 0,
        }
    }

    pub(crate) const fn words(self) -> u32 {
        match self {
            Self::Ring(ring) => ring.words(),
            Self::Pipe(pipe) => pipe.words(),
        }
    }
}

/// This side's memory for one peer, and what is handed to it.
pub(crate) struct Made {
    pub(crate) page: Written,
    /// By place in the list of outgoing queues; none where the peer is not spoken to.
    pub(crate) outlets: Vec<Option<Outlet>>,
    /// The page first, then the rings in their order.
    pub(crate) give: Vec<(Label, OwnedFd)>,
}

/// A ring of the peer.
pub(crate) struct Seen {
    /// The hearing machine.
    pub(crate) machine: u8,
    pub(crate) queue: u8,
    /// Its place among the rings of the peer.
    pub(crate) order: u32,
    pub(crate) words: Shown,
}

/// The word of a label that names a ring.
pub(crate) fn name(machine: u8, queue: u8) -> u16 {
    u16::from(machine) << 8 | u16::from(queue)
}

/// The machine and queue of such a word.
pub(crate) fn named(word: u16) -> (u8, u8) {
    let [machine, queue] = word.to_be_bytes();
    (machine, queue)
}

/// Makes this side's memory for a peer whose machines `hears` says.
pub(crate) fn make(me: u32, boot: u64, spots: &[Spot], hears: impl Fn(u8) -> bool) -> Result<Made, Error> {
    let label = |kind, queue, words| Label { kind, node: me, queue, epoch: 0, words, boot };
    let (page, shown) = offer("synod-page", PAGE_WORDS)?;
    page.fence(Fence::Release);
    page.store(GENERATION, 1);
    let mut give = vec![(label(Kind::Page, 0, PAGE_WORDS), shown)];
    let mut outlets = Vec::with_capacity(spots.len());
    let mut order = 0;
    for spot in spots {
        if !hears(spot.machine) {
            outlets.push(None);
            continue;
        }
        let shape = Shape::of(spot)?;
        let (written, shown) = offer("synod-ring", shape.words())?;
        give.push((label(Kind::Ring, name(spot.machine, spot.queue), shape.words()), shown));
        outlets.push(Some(Outlet::new(shape, written, spot, order)));
        order += 1;
    }
    Ok(Made { page, outlets, give })
}
