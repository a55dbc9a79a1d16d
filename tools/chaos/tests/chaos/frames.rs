//! N4: what a link makes of frames that lie about themselves.

use synod_chaos::poison::{Input, Way};
use synod_machine::QueueSpec;
use synod_net::foreign::{LINK, LINK_MAX, Refused, cut};

/// Frames in the gate; `SYNOD_FRAMES` names another number.
const FRAMES: u64 = 60_000;
/// The machine that the frames are for.
const EXECUTOR: u8 = 1;
/// The guests' cap of this test.
const GUEST_MAX: u32 = 1 << 20;

#[test]
fn bad_frames_are_cut_within_their_caps_however_they_arrive() {
    let frames = std::env::var("SYNOD_FRAMES").ok().and_then(|count| count.parse().ok()).unwrap_or(FRAMES);
    let queues = QueueSpec::standard();
    let mut refused = [0_u64; 3];
    let (mut whole, mut waiting) = (0_u64, 0_u64);
    for index in 0..frames {
        let stream = Input::draw(Way::Guest, 4, index).bytes;
        let piece = 1 + usize::try_from(index % 97).expect("below 97");
        let read = |piece: usize| cut(stream.chunks(piece), EXECUTOR, &queues, Some(GUEST_MAX));
        let found = read(piece).expect("the executor is no link");
        assert_eq!(Some(&found), read(usize::MAX).as_ref(), "input {index}: frames depend on their pieces");
        for frame in &found.frames {
            let cap = match frame.machine {
                LINK => LINK_MAX,
                _ => queues[usize::from(frame.queue)].frame_max.min(GUEST_MAX),
            };
            assert!(frame.body.len() <= cap as usize, "input {index}: {} bytes", frame.body.len());
        }
        match found.refused {
            Some(Refused::Unknown) => refused[0] += 1,
            Some(Refused::TooLarge) => refused[1] += 1,
            Some(Refused::Flags) => refused[2] += 1,
            None if found.frames.is_empty() => waiting += 1,
            None => whole += 1,
        }
    }
    assert!(refused.iter().all(|count| *count > frames / 1_000), "every refusal was met: {refused:?}");
    assert!(whole > frames / 4 && waiting > 0, "{whole} whole, {waiting} that wait for more");
}
