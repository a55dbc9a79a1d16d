//! What strangers' bytes become: the framing, datagrams and the words of the handshakes as plain values, for fuzzing and
//! inspection. Nothing here opens a link.
//!
//! *Bounds.* Those of the framing: buffers follow the bytes given, in steps of 64 KiB, never a length field.

use synod_machine::QueueSpec;
use synod_wire::Bytes;

use crate::frames::{Assembler, BadFrame, QueueTable, Route, Speaker, header};

pub use crate::datagram::format::{Acceptance, Datagram, Opening, Sealed, Ticket, seal};
pub use crate::frames::{LINK, LINK_MAX};
pub use crate::handshake::{Beat, Greeting, Hello, Introduction, Line, Role, Verdict};

/// A frame cut from a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The machine it names.
    pub machine: u8,
    /// The queue it names.
    pub queue: u8,
    /// Its body.
    pub body: Bytes,
}

/// Why a stream of frames ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No such machine or queue.
    Unknown,
    /// Longer than the queue's cap, or the guest's.
    TooLarge,
    /// A flag that this version does not know.
    Flags,
}

/// What a stream became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The whole frames, in order.
    pub frames: Vec<Frame>,
    /// The refusal that ended the stream, if one did.
    pub refused: Option<Refused>,
}

/// Cuts a stream, given in pieces as it arrived, into the frames of one machine with these queues. A guest's frames
/// have at most `guest_max` bytes; a member's only the caps of the queues. `None` when `machine` is the link's own.
#[must_use]
pub fn cut<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    machine: u8,
    queues: &[QueueSpec],
    guest_max: Option<u32>,
) -> Option<Cut> {
    let table = QueueTable::new(&[(machine, queues)])?.open(&[machine]);
    let speaker = guest_max.map_or(Speaker::Member, |frame_max| Speaker::Guest { frame_max });
    let mut assembler = Assembler::default();
    let mut frames = Vec::new();
    for piece in pieces {
        assembler.push(piece);
        loop {
            match assembler.next(&table, speaker) {
                Ok(Some((route, body))) => {
                    frames.push(Frame { machine: route.machine, queue: route.queue, body });
                }
                Ok(None) => break,
                Err(bad) => {
                    let refused = match bad {
                        BadFrame::Unknown(_) => Refused::Unknown,
                        BadFrame::TooLarge(_) => Refused::TooLarge,
                        BadFrame::Flags(_) => Refused::Flags,
                    };
                    return Some(Cut { frames, refused: Some(refused) });
                }
            }
        }
    }
    Some(Cut { frames, refused: None })
}

/// The bytes of a frame; `None` when the body is longer than any frame.
#[must_use]
pub fn frame(machine: u8, queue: u8, body: &[u8]) -> Option<Vec<u8>> {
    let mut out = header(Route { machine, queue }, body.len())?.to_vec();
    out.extend_from_slice(body);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_framed_is_cut_and_a_guest_has_its_own_cap() {
        let stream = [frame(3, 0, b"a").expect("short"), frame(3, 2, &[7; 90]).expect("short")].concat();
        let whole = cut(stream.chunks(5), 3, &QueueSpec::standard(), None).expect("not the link's own");
        let bodies: Vec<usize> = whole.frames.iter().map(|frame| frame.body.len()).collect();
        assert_eq!((bodies, whole.refused), (vec![1, 90], None));
        let guest = cut(stream.chunks(5), 3, &QueueSpec::standard(), Some(89)).expect("not the link's own");
        assert_eq!((guest.frames.len(), guest.refused), (1, Some(Refused::TooLarge)));
    }
}
