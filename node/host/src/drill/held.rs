//! Frames that a drill holds back before they leave.
//!
//! *Bounds.* [`FRAMES_MAX`] frames and [`BYTES_MAX`] bytes; what comes on top is lost, as a link may lose it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use synod_machine::host::{At, Platform};
use synod_machine::{Queue, Span, Time, To};

/// Most frames held.
const FRAMES_MAX: usize = 65_536;
/// Most bytes held.
const BYTES_MAX: usize = 64 << 20;

struct Late {
    due: Time,
    to: To,
    queue: Queue,
    body: Bytes,
}

/// Frames in the order they were sent, and the time that the machine lives in.
#[derive(Default)]
pub(super) struct Held {
    frames: VecDeque<Late>,
    bytes: usize,
    /// The newest event, by the machine's clock and by the system's.
    last: Option<(Time, Instant)>,
}

impl Held {
    /// An event happens at this time.
    pub(super) fn see(&mut self, at: At) {
        self.last = Some((at.now, Instant::now()));
    }

    /// What a promise that became durable lets go leaves between two events.
    fn now(&self) -> Time {
        let Some((time, seen)) = self.last else { return Time(0) };
        time + Span(u64::try_from(seen.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Sends a frame after `delay`, and never before one that was sent before it.
    pub(super) fn send(
        &mut self,
        delay: Duration,
        (to, queue, body): (To, Queue, Bytes),
        platform: &mut dyn Platform,
    ) {
        if delay.is_zero() && self.frames.is_empty() {
            return platform.send(to, queue, body);
        }
        let due = self.now() + Span(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX));
        let due = self.frames.back().map_or(due, |last| due.max(last.due));
        if self.frames.len() < FRAMES_MAX && self.bytes + body.len() <= BYTES_MAX {
            self.bytes += body.len();
            self.frames.push_back(Late { due, to, queue, body });
        }
    }

    /// When the first frame is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.frames.front().map(|late| late.due)
    }

    /// Sends what is due.
    pub(super) fn release(&mut self, now: Time, platform: &mut dyn Platform) {
        while let Some(late) = self.frames.pop_front_if(|late| late.due <= now) {
            self.bytes -= late.body.len();
            platform.send(late.to, late.queue, late.body);
        }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// The most bytes held.
    pub(super) fn bytes_max() -> u64 {
        BYTES_MAX as u64
    }
}
