//! Bytes of links: the framing and the words of the handshake.

use synod_machine::QueueSpec;
use synod_net::foreign::{Beat, Cut, Greeting, Introduction, Verdict, cut, frame};
use synod_wire::Drawn;

use super::{some_bytes, wires};
use crate::check::{accept, bounded};
use crate::{Kind, Tape, Target};

wires! {
    "channel-introduction" introduction Introduction;
    "channel-greeting" greeting Greeting;
    "channel-verdict" verdict Verdict;
    "channel-beat" beat Beat;
    and Target::new("channel-frames", Kind::Decoder, frames, stream);
}

/// The machine that the frames of this target name.
const MACHINE: u8 = 1;

/// What a link sets aside whatever it is sent: one read, and the table of its queues.
const LINK_BYTES: usize = 192 << 10;

/// Cuts a stream into frames. The first byte says who speaks and how the stream arrives; the rest is the stream.
///
/// # Panics
/// When the frames depend on the pieces, or are not the stream's own bytes.
pub fn frames(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let style = tape.byte();
    let stream = bytes.get(1..).unwrap_or_default();
    let guest_max = (style & 1 == 1).then_some(1_000);
    let piece = [1, 3, 7, 8, 9, 64, 4_096, usize::MAX][usize::from(style >> 1 & 7)];
    let queues = QueueSpec::standard();
    let read = |piece: usize| cut(stream.chunks(piece.min(stream.len().max(1))), MACHINE, &queues, guest_max);
    let Some(found) = bounded(bytes.len() + LINK_BYTES / 8, || read(piece)) else {
        unreachable!("machine {MACHINE} is not the link's own")
    };
    if !found.frames.is_empty() {
        accept();
    }
    assert_eq!(Some(&found), read(usize::MAX).as_ref(), "frames depend on how the stream arrived");
    let mut rest = stream;
    for one in &found.frames {
        let Some(again) = frame(one.machine, one.queue, &one.body) else {
            unreachable!("a body that was cut is no longer than its stream")
        };
        let behind = rest.strip_prefix(again.as_slice());
        assert!(behind.is_some(), "roundtrip: frame {one:?} is not what stood there");
        rest = behind.unwrap_or_default();
        assert!(
            guest_max.is_none_or(|most| one.body.len() <= most as usize),
            "a guest's frame above its cap"
        );
    }
    assert!(waits(&found, rest), "a whole frame was left behind");
}

/// Whether what is behind the last frame is no whole frame, or was refused.
fn waits(found: &Cut, rest: &[u8]) -> bool {
    let Some((length, _)) = rest.split_first_chunk::<4>() else { return true };
    let whole = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX).saturating_add(8);
    found.refused.is_some() || rest.len() < whole
}

fn stream(from: &mut Drawn) -> Vec<u8> {
    let mut out = vec![from.next().to_le_bytes()[0]];
    for _ in 0..from.below(6) {
        let queue = from.below(3).to_le_bytes()[0];
        let body = some_bytes(from, 300);
        out.extend(frame(MACHINE, queue, &body).unwrap_or_default());
    }
    out
}
