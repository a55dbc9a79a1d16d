//! The hearing side of one queue of one peer.

use bytes::BytesMut;
use synod_tail::pipe::{self, Next};
use synod_tail::ring::{Polled, Reader as RingReader};
use synod_tail::{Fence, Words};
use synod_wire::Bytes;

use super::shape::{Shape, Spot, acknowledgement};
use crate::frames::Frames;
use crate::map::{Shown, Written};

/// What a look at a queue found.
#[derive(Debug)]
pub(crate) enum Came {
    /// A frame.
    Frame(Bytes),
    /// Something that is no frame of this generation; there may be more.
    Passed,
    /// Nothing.
    Nothing,
    /// What no correct peer leaves there, and what stands behind it cannot be read.
    Broken,
}

/// A queue of one peer.
pub(crate) enum Inlet {
    /// Of a ring, with a message of a generation that is not known yet.
    Ring { reader: RingReader<Shown>, frame_max: usize, held: Option<(u32, Bytes)> },
    /// Of a pipe, with the part of a frame that has come.
    Pipe { reader: pipe::Reader<Shown>, acknowledged: u32, frame_max: usize, part: BytesMut },
}

impl Inlet {
    pub(crate) fn new(shape: Shape, words: Shown, spot: &Spot, order: u32) -> Self {
        let frame_max = usize::try_from(spot.spec.frame_max).unwrap_or(usize::MAX);
        match shape {
            Shape::Ring(ring) => Self::Ring { reader: RingReader::new(ring, words), frame_max, held: None },
            Shape::Pipe(pipe) => Self::Pipe {
                reader: pipe::Reader::new(pipe, words),
                acknowledged: acknowledgement(order),
                frame_max,
                part: BytesMut::new(),
            },
        }
    }

    #[inline]
    pub(crate) fn next(
        &mut self,
        generation: u32,
        page: &Written,
        frames: &mut Frames,
        scratch: &mut [u8],
    ) -> Came {
        match self {
            Self::Ring { reader, frame_max, held } => {
                if let Some((sent, _)) = held {
                    return match (*sent).cmp(&generation) {
                        core::cmp::Ordering::Greater => Came::Nothing,
                        core::cmp::Ordering::Equal => {
                            held.take().map_or(Came::Nothing, |(_, body)| Came::Frame(body))
                        }
                        core::cmp::Ordering::Less => {
                            *held = None;
                            Came::Passed
                        }
                    };
                }
                let arrived = match reader.poll(scratch) {
                    Polled::Message(arrived) => arrived,
                    Polled::Empty | Polled::Malformed => return Came::Nothing,
                    Polled::Lapped { .. } => return Came::Passed,
                };
                let payload = arrived.payload(scratch);
                let sent = arrived.header.epoch;
                if sent < generation || payload.len() > *frame_max {
                    return Came::Passed;
                }
                let body = frames.body(payload);
                if sent == generation {
                    return Came::Frame(body);
                }
                *held = Some((sent, body));
                Came::Nothing
            }
            Self::Pipe { reader, acknowledged, frame_max, part } => {
                let piece = match reader.look() {
                    Next::Piece(piece) => piece,
                    Next::Empty => return Came::Nothing,
                    Next::Malformed => return Came::Broken,
                };
                if piece.epoch > generation {
                    return Came::Nothing;
                }
                let length = usize::try_from(piece.length).unwrap_or(usize::MAX);
                let current = piece.epoch == generation;
                if current && part.len().saturating_add(length) > *frame_max {
                    return Came::Broken;
                }
                if current {
                    part.reserve(length);
                    reader.take(|bytes| part.extend_from_slice(bytes));
                } else {
                    part.clear();
                    reader.take(|_| ());
                }
                page.store(*acknowledged, reader.acknowledgement());
                if !current || piece.more {
                    return Came::Passed;
                }
                let body = if part.len() <= crate::frames::SHORT_MAX {
                    let body = frames.body(part);
                    part.clear();
                    body
                } else {
                    part.split().freeze()
                };
                Came::Frame(body)
            }
        }
    }

    /// Drops what has come of an incomplete frame: the link is down.
    pub(crate) fn clear(&mut self) {
        if let Self::Pipe { part, .. } = self {
            part.clear();
        }
    }

    /// Messages of a ring that were overwritten before they were read.
    pub(crate) const fn lost(&self) -> u64 {
        match self {
            Self::Ring { reader, .. } => reader.lost(),
            Self::Pipe { .. } => 0,
        }
    }
}

/// Publishes a store that others read behind an acquire fence.
pub(crate) fn publish(page: &Written, at: u32, value: u64) {
    page.fence(Fence::Release);
    page.store(at, value);
}
