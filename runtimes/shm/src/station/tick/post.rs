//! What other threads sent to a station.

use std::sync::atomic::Ordering;

use synod_machine::Link;

use super::Station;
use crate::line::Line;
use crate::mailbox::Mail;
use crate::station::desk::Slot;

impl Station {
    /// Handles what other threads sent.
    pub(super) fn post(&mut self) -> bool {
        if !self.parts.mailbox.rung() {
            return false;
        }
        for (slot, (_, gauge)) in self.parts.slots.iter_mut().zip(&self.parts.mailbox.gauges) {
            slot.heard = gauge.durable.load(Ordering::Acquire);
        }
        let mut mail = core::mem::take(&mut self.mail);
        self.parts.mailbox.take(&mut mail);
        for item in mail.drain(..) {
            self.open(item);
        }
        self.mail = mail;
        for index in 0..self.parts.slots.len() {
            if self.parts.slots.get(index).is_some_and(Slot::has_news) {
                // Settling after the empty call tells the machine.
                self.step(index, |_, _| {});
            }
        }
        true
    }

    fn open(&mut self, mail: Mail) {
        let at = self.at;
        match mail {
            Mail::Input { slot, input } => {
                if let Some(slot) = self.parts.slots.get_mut(slot) {
                    slot.inputs.push_back(input);
                }
                if let Some((_, gauge)) = self.parts.mailbox.gauges.get(slot) {
                    gauge.inputs.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Mail::Done { slot, done } => {
                for done in done {
                    self.step(slot, |hosted, desk| hosted.done(done, at, desk));
                }
            }
            Mail::Loaded { slot, name, bytes } => {
                self.step(slot, |hosted, desk| hosted.loaded(name, bytes, at, desk));
            }
            Mail::Snapshot { slot } => {
                if let Some(slot) = self.parts.slots.get_mut(slot) {
                    slot.snapshot();
                }
            }
            Mail::Readmit { slot } => {
                if let Some(slot) = self.parts.slots.get_mut(slot) {
                    slot.lane.readmit();
                    slot.snapshot();
                }
            }
            Mail::Joined(line) => self.join(*line),
            Mail::Memory { slot, node, memory } => {
                let taken =
                    self.parts.slots.get_mut(slot).is_some_and(|slot| slot.memories.change(node, memory));
                tracing::debug!(%node, taken, "a memory node changed");
            }
            Mail::Reset(peer) => {
                if self.lines.get_mut(peer).is_some_and(Line::reset) {
                    self.changes.push((peer, Link::Down));
                }
            }
        }
    }
}
