//! One session: its window and the results that may still be asked for.

use std::collections::BTreeMap;

use synod_crypto::{Hash, PublicKey};
use synod_machine::Wall;
use synod_tail::{BitWindow, Seen};
use synod_wire::Bytes;

use crate::frame::ClientFrame;

/// What execution does with one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is executed now.
    Fresh,
    /// It was executed before.
    Repeated,
    /// It lies below the base: dropped.
    Forgotten,
    /// It lies beyond the window: skipped.
    Outside,
}

/// The results of one executed frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The sequence behind the frame's last command.
    pub end: u64,
    /// The digest of its results.
    pub digest: Hash,
    /// The results, while they are kept.
    pub body: Option<Bytes>,
}

impl Cached {
    /// Bytes of the body.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.body.as_ref().map_or(0, |body| body.len() as u64)
    }
}

/// What an acknowledgement freed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Freed {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

/// One open session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub(super) key: PublicKey,
    pub(super) nonce: u64,
    pub(super) last: Wall,
    pub(super) window: BitWindow,
    /// By first sequence of the frame.
    pub(super) cached: BTreeMap<u64, Cached>,
    /// Bytes of the bodies in `cached`.
    bodies: u64,
}

impl Session {
    pub(super) fn new(key: PublicKey, nonce: u64, time: Wall, window: u32) -> Self {
        Self::from_parts(key, nonce, time, BitWindow::new(1, window), BTreeMap::new())
    }

    pub(super) fn from_parts(
        key: PublicKey,
        nonce: u64,
        last: Wall,
        window: BitWindow,
        cached: BTreeMap<u64, Cached>,
    ) -> Self {
        let bodies = cached.values().map(Cached::bytes).sum();
        Self { key, nonce, last, window, cached, bodies }
    }

    /// The key that verifies the session's frames.
    #[must_use]
    pub const fn key(&self) -> PublicKey {
        self.key
    }

    /// The window: which sequences from its base on were executed.
    #[must_use]
    pub const fn window(&self) -> &BitWindow {
        &self.window
    }

    /// The kept results of the frame that starts at `first`.
    #[must_use]
    pub fn cached(&self, first: u64) -> Option<&Cached> {
        self.cached.get(&first)
    }

    /// Whether every command of `frame` was executed or given up.
    #[must_use]
    pub fn is_repeat_of(&self, frame: &ClientFrame) -> bool {
        let old = |sequence| matches!(self.window.look(sequence), Seen::Before | Seen::Below);
        (frame.first..frame.end()).all(old)
    }

    /// The first sequence beyond the window as it will be once `acked` is executed.
    #[must_use]
    pub fn reach(&self, acked: u64) -> u64 {
        let base = acked.min(self.window.end()).max(self.window.base());
        base.saturating_add(self.window.size())
    }

    /// Moves the base to min(acked, base + window), never down, and drops the results below it.
    pub(super) fn acknowledge(&mut self, acked: u64) -> Freed {
        let mut freed = Freed::default();
        let base = acked.min(self.window.end());
        if base <= self.window.base() {
            return freed;
        }
        self.window.advance(base);
        while let Some(entry) = self.cached.first_entry().filter(|entry| entry.get().end <= base) {
            freed.count += 1;
            freed.bytes += entry.remove().bytes();
        }
        self.bodies -= freed.bytes;
        freed
    }

    /// Decides the fate of each command and marks the fresh ones as executed.
    pub(super) fn mark(&mut self, frame: &ClientFrame, fates: &mut Vec<Fate>) {
        fates.extend((frame.first..frame.end()).map(|sequence| match self.window.set(sequence) {
            Seen::New => Fate::Fresh,
            Seen::Before => Fate::Repeated,
            Seen::Below => Fate::Forgotten,
            Seen::Beyond => Fate::Outside,
        }));
    }

    pub(super) fn keep(&mut self, first: u64, results: Cached) -> Option<Cached> {
        self.bodies += results.bytes();
        let before = self.cached.insert(first, results);
        self.bodies -= before.as_ref().map_or(0, Cached::bytes);
        before
    }

    /// Drops bodies, oldest frame first, until at most `max` bytes are kept; says how many went. Digests stay.
    pub(super) fn trim(&mut self, max: u64) -> u64 {
        let before = self.bodies;
        for cached in self.cached.values_mut() {
            if self.bodies <= max {
                break;
            }
            self.bodies -= cached.bytes();
            cached.body = None;
        }
        before - self.bodies
    }

    pub(super) const fn bodies(&self) -> u64 {
        self.bodies
    }

    pub(super) fn digests(&self) -> u64 {
        self.cached.len() as u64
    }
}
