//! Framing: length u32, queue u8, machine u8, flags u16 (zero), then the body.
//!
//! *What it gives.* [`Assembler`] cuts a stream of bytes into frames. A frame's length is checked against the cap
//! of its queue before anything is set aside for it; the buffer follows the bytes that arrived, in steps of at
//! least 64 KiB and never beyond twice of them, so a length field alone reserves nothing.
//!
//! *Bounds.* At most one incomplete frame and one read of 64 KiB are buffered per connection. A body below 4 KiB
//! is copied out of the buffer, so that a machine that keeps a small message does not keep 64 KiB; longer bodies
//! share the buffer, which ends with a body of 64 KiB or more.

#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::as_conversions
)]

use bytes::{Buf, BytesMut};
use synod_machine::QueueSpec;
use synod_wire::Bytes;

/// Bytes of a frame's header.
pub(crate) const HEADER: usize = 8;
/// The machine number of the link's own words; no hosted machine has it.
pub const LINK: u8 = u8::MAX;
/// Largest body of the link's own words, the Hello included.
pub const LINK_MAX: u32 = 1_024;
/// Smallest step by which a buffer grows.
pub(crate) const STEP: usize = 64 << 10;

const SHARED_MIN: usize = 4 << 10;

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) machine: u8,
    pub(crate) queue: u8,
}

/// Writes the header of a frame; `None` when the body is longer than any frame can be.
pub(crate) fn header(route: Route, body: usize) -> Option<[u8; HEADER]> {
    let [a, b, c, d] = u32::try_from(body).ok()?.to_le_bytes();
    Some([a, b, c, d, route.queue, route.machine, 0, 0])
}

/// How a peer broke the framing. Nothing behind such a frame can be trusted, so the link closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadFrame {
    /// No such machine or queue here.
    Unknown(Route),
    /// Longer than the queue's cap.
    TooLarge(Route),
    /// Flags are zero in this version.
    Flags(Route),
}

/// The queues of every machine of a process, by (machine, queue).
#[derive(Debug)]
pub(crate) struct QueueTable {
    specs: Vec<(Route, QueueSpec)>,
    first: Vec<Option<u16>>,
    count: Vec<u8>,
    order: Vec<u8>,
    for_guests: Vec<bool>,
    abroad: Vec<bool>,
}

/// Who speaks on a connection, and so what it may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// A member: every machine, up to the caps of its queues.
    Member,
    /// A guest: the machines opened to guests, and no frame above this many bytes.
    Guest { frame_max: u32 },
}

impl QueueTable {
    /// Lists `machines` with their queues; `None` when a number is taken twice, is [`LINK`], or the table is
    /// longer than 65,535 queues.
    pub(crate) fn new(machines: &[(u8, &[QueueSpec])]) -> Option<Self> {
        let mut table = Self {
            specs: Vec::new(),
            first: vec![None; 256],
            count: vec![0; 256],
            order: Vec::new(),
            for_guests: vec![false; 256],
            abroad: vec![false; 256],
        };
        for (machine, specs) in machines {
            let first = u16::try_from(table.specs.len()).ok()?;
            let slot = table.first.get_mut(usize::from(*machine))?;
            if slot.is_some() || *machine == LINK {
                return None;
            }
            *slot = Some(first);
            *table.count.get_mut(usize::from(*machine))? = u8::try_from(specs.len()).ok()?;
            table.order.push(*machine);
            for (queue, spec) in (0..=u8::MAX).zip(specs.iter()) {
                table.specs.push((Route { machine: *machine, queue }, *spec));
            }
        }
        Some(table)
    }

    /// Opens machines to guests.
    pub(crate) fn open(mut self, machines: &[u8]) -> Self {
        for machine in machines {
            if let Some(open) = self.for_guests.get_mut(usize::from(*machine)) {
                *open = true;
            }
        }
        self
    }

    /// Machines that this process only speaks to: no peer may speak to them here.
    pub(crate) fn abroad(mut self, machines: &[u8]) -> Self {
        for machine in machines {
            if let Some(abroad) = self.abroad.get_mut(usize::from(*machine)) {
                *abroad = true;
            }
        }
        self
    }

    /// The position of a queue in the table.
    pub(crate) fn index(&self, route: Route) -> Option<usize> {
        let first = (*self.first.get(usize::from(route.machine))?)?;
        let count = *self.count.get(usize::from(route.machine))?;
        (route.queue < count).then(|| usize::from(first).saturating_add(usize::from(route.queue)))
    }

    /// Every queue, in table order.
    pub(crate) fn specs(&self) -> &[(Route, QueueSpec)] {
        &self.specs
    }

    /// Machine numbers, in table order.
    pub(crate) fn machines(&self) -> &[u8] {
        &self.order
    }

    fn cap(&self, route: Route, speaker: Speaker) -> Option<u32> {
        if route.machine == LINK {
            return Some(LINK_MAX);
        }
        if *self.abroad.get(usize::from(route.machine))? {
            return None;
        }
        let cap = self.specs.get(self.index(route)?).map(|(_, spec)| spec.frame_max)?;
        match speaker {
            Speaker::Member => Some(cap),
            Speaker::Guest { frame_max } => {
                let open = self.for_guests.get(usize::from(route.machine))?;
                open.then_some(cap.min(frame_max))
            }
        }
    }
}

/// Cuts a stream into frames.
#[derive(Default)]
pub(crate) struct Assembler {
    buffer: BytesMut,
}

impl Assembler {
    /// Appends bytes as they came.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.grow(bytes.len());
        self.buffer.extend_from_slice(bytes);
    }

    /// The buffer with room for one more read.
    pub(crate) fn room(&mut self) -> &mut BytesMut {
        self.grow(STEP);
        &mut self.buffer
    }

    /// The next complete frame, or `None` when bytes are missing.
    ///
    /// # Errors
    /// [`BadFrame`] as soon as the header is here.
    pub(crate) fn next(
        &mut self,
        table: &QueueTable,
        speaker: Speaker,
    ) -> Result<Option<(Route, Bytes)>, BadFrame> {
        let Some(header) = self.buffer.first_chunk::<HEADER>() else { return Ok(None) };
        let [a, b, c, d, queue, machine, flag_low, flag_high] = *header;
        let route = Route { machine, queue };
        let length = u32::from_le_bytes([a, b, c, d]);
        if flag_low != 0 || flag_high != 0 {
            return Err(BadFrame::Flags(route));
        }
        match table.cap(route, speaker) {
            None => return Err(BadFrame::Unknown(route)),
            Some(cap) if length > cap => return Err(BadFrame::TooLarge(route)),
            Some(_) => {}
        }
        let Ok(length) = usize::try_from(length) else { return Err(BadFrame::TooLarge(route)) };
        let total = length.saturating_add(HEADER);
        let Some(body) = self.buffer.get(HEADER..total) else { return Ok(None) };
        if length < SHARED_MIN {
            let body = Bytes::copy_from_slice(body);
            self.buffer.advance(total);
            return Ok(Some((route, body)));
        }
        let mut frame = self.buffer.split_to(total);
        frame.advance(HEADER);
        if length >= STEP {
            // What follows gets a buffer of its own, or a short frame behind a long one would keep the memory of both.
            self.buffer = BytesMut::from(&*self.buffer);
        }
        Ok(Some((route, frame.freeze())))
    }

    /// Bytes of incomplete frames.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.buffer.len()
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    fn grow(&mut self, bytes: usize) {
        let free = self.buffer.capacity().saturating_sub(self.buffer.len());
        if free < bytes {
            self.buffer.reserve(bytes.max(STEP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_machine::Full;

    const SPEC: QueueSpec = QueueSpec { depth: 4, frame_max: 100, full: Full::Reset };

    fn table() -> QueueTable {
        QueueTable::new(&[(3, &[SPEC, QueueSpec::BULK])]).expect("one machine with two queues")
    }

    fn frame(route: Route, body: &[u8]) -> Vec<u8> {
        let mut out = header(route, body.len()).expect("a short body").to_vec();
        out.extend_from_slice(body);
        out
    }

    #[test]
    fn frames_come_out_whole_and_in_order_however_the_stream_is_cut() {
        let bodies: Vec<Vec<u8>> = (0..40_u8).map(|n| vec![n; usize::from(n) * 2]).collect();
        let stream: Vec<u8> = bodies.iter().flat_map(|b| frame(Route { machine: 3, queue: 0 }, b)).collect();
        for cut in [1, 2, 7, 8, 9, 64, stream.len()] {
            let (mut assembler, mut seen) = (Assembler::default(), Vec::new());
            for piece in stream.chunks(cut) {
                assembler.push(piece);
                while let Some((route, body)) =
                    assembler.next(&table(), Speaker::Member).expect("good frames")
                {
                    assert_eq!(route, Route { machine: 3, queue: 0 });
                    seen.push(body.to_vec());
                }
            }
            assert_eq!(seen, bodies);
            assert_eq!(assembler.waiting(), 0);
        }
    }

    #[test]
    fn a_frame_at_its_cap_passes_and_one_byte_more_is_refused_before_its_body_comes() {
        let route = Route { machine: 3, queue: 0 };
        for (length, good) in [(99, true), (100, true), (101, false), (u32::MAX, false)] {
            let mut assembler = Assembler::default();
            let mut head = header(route, 0).expect("short");
            head[..4].copy_from_slice(&length.to_le_bytes());
            assembler.push(&head);
            assert_eq!(assembler.next(&table(), Speaker::Member).is_ok(), good, "length {length}");
            assert!(assembler.capacity() <= 2 * STEP, "a length field reserves nothing");
        }
    }

    #[test]
    fn unknown_machines_queues_and_flags_are_refused() {
        for (route, flags, want) in [
            (Route { machine: 2, queue: 0 }, 0, BadFrame::Unknown(Route { machine: 2, queue: 0 })),
            (Route { machine: 3, queue: 2 }, 0, BadFrame::Unknown(Route { machine: 3, queue: 2 })),
            (Route { machine: 3, queue: 0 }, 1, BadFrame::Flags(Route { machine: 3, queue: 0 })),
        ] {
            let mut head = header(route, 0).expect("short");
            head[6] = flags;
            let mut assembler = Assembler::default();
            assembler.push(&head);
            assert_eq!(assembler.next(&table(), Speaker::Member), Err(want));
        }
    }

    #[test]
    fn guests_reach_open_machines_only_and_within_their_own_cap() {
        let specs = [QueueSpec::BULK];
        let table = QueueTable::new(&[(0, &specs), (1, &specs)]).expect("two machines").open(&[1]);
        let guest = Speaker::Guest { frame_max: 1_000 };
        for (machine, length, good) in [(1, 1_000, true), (1, 1_001, false), (0, 10, false)] {
            let mut head = header(Route { machine, queue: 0 }, 0).expect("short");
            head[..4].copy_from_slice(&u32::to_le_bytes(length));
            for (speaker, good) in [(guest, good), (Speaker::Member, true)] {
                let mut assembler = Assembler::default();
                assembler.push(&head);
                assert_eq!(assembler.next(&table, speaker).is_ok(), good, "{speaker:?} {machine} {length}");
            }
        }
    }

    #[test]
    fn a_large_body_shares_the_buffer_and_a_small_one_does_not() {
        let route = Route { machine: 3, queue: 1 };
        let mut assembler = Assembler::default();
        assembler.push(&frame(route, &vec![7; 1 << 20]));
        let inside = assembler.buffer.as_ptr_range();
        let (_, body) = assembler.next(&table(), Speaker::Member).expect("good").expect("whole");
        assert!(inside.contains(&body.as_ptr()));
        assembler.push(&frame(route, &[1; 10]));
        let inside = assembler.buffer.as_ptr_range();
        let (_, body) = assembler.next(&table(), Speaker::Member).expect("good").expect("whole");
        assert!(!inside.contains(&body.as_ptr()));
    }

    #[test]
    fn a_frame_behind_a_long_one_does_not_keep_its_memory() {
        let route = Route { machine: 3, queue: 1 };
        let mut assembler = Assembler::default();
        let mut stream = frame(route, &vec![7; 1 << 20]);
        stream.extend_from_slice(&frame(route, &[1; 8 << 10]));
        assembler.push(&stream);
        let long = assembler.next(&table(), Speaker::Member).expect("good").expect("whole").1;
        assert_eq!(long.len(), 1 << 20);
        assert!(assembler.capacity() <= 2 * STEP, "what follows stands in a buffer of its own");
        let short = assembler.next(&table(), Speaker::Member).expect("good").expect("whole").1;
        assert_eq!(&short[..], &[1; 8 << 10]);
    }

    #[test]
    fn a_machine_number_is_taken_once_and_the_links_own_never() {
        assert!(QueueTable::new(&[(1, &[SPEC]), (1, &[SPEC])]).is_none());
        assert!(QueueTable::new(&[(LINK, &[SPEC])]).is_none());
        let table = QueueTable::new(&[(9, &[SPEC, SPEC]), (1, &[SPEC])]).expect("two machines");
        assert_eq!(table.index(Route { machine: 1, queue: 0 }), Some(2));
        assert_eq!(table.machines(), [9, 1]);
    }
}
