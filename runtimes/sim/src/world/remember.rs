//! What the world writes into its trace.

use super::run::World;
use super::setup::Redraw;
use super::turn::Call;
use crate::checker::Violation;
use crate::deed::{Deed, Seen};
use crate::network::Parcel;
use crate::trace::{Aside, AsideKind, Line, Said};

impl Parcel {
    /// The frame's name in its run: of its ends, its machine and its content. Equal frames on one link share it.
    pub(crate) fn name(&self) -> u32 {
        let mut name = synod_crypto::Hasher::new("synod sim frame");
        name.add(&self.from.to_le_bytes()).add(&self.to.to_le_bytes()).add(&[self.machine]).add(&self.body);
        u32::try_from(name.finish().short() >> 32).unwrap_or(u32::MAX)
    }
}

impl World {
    /// Whether the frame is among those that are heard.
    pub(super) fn is_heard(&self, parcel: &Parcel) -> bool {
        self.heard.as_ref().is_none_or(|heard| heard.contains(&parcel.name()))
    }

    /// The outputs of a call in words, before they are handed on.
    pub(super) fn outputs(&self, call: &Call) -> Vec<(usize, Said)> {
        if !self.trace.is_full() {
            return Vec::new();
        }
        let machine = self.nodes[call.place as usize].slots[usize::from(call.slot)].number;
        let named = |(at, deed): (usize, &Deed)| match deed {
            Deed::Output(output) => Some((at, self.trace.words().output(machine, &**output)?)),
            _ => None,
        };
        call.deeds.iter().enumerate().filter_map(named).collect()
    }

    /// Keeps a call that is over; gives an empty vector for the effects of the next one.
    pub(super) fn remember(&mut self, call: Call, outputs: Vec<(usize, Said)>) -> Vec<Deed> {
        let node = &self.nodes[call.place as usize];
        let machine = node.slots[usize::from(call.slot)].number;
        let of = (node.id, node.twin, machine);
        let line = Line {
            event: call.event,
            cause: call.cause,
            time: self.now,
            node: node.id,
            twin: node.twin,
            incarnation: node.incarnation,
            honest: node.honest(),
            machine,
            seen: call.seen,
            deeds: call.deeds,
            crashed: call.crash.is_some(),
        };
        if self.trace.is_full() {
            let moved = if let Seen::Durable(lsn) = &line.seen { Some(*lsn) } else { None };
            let durable = self.trace.durable(of, moved);
            let mut step = line.step(self.trace.words(), durable);
            (step.lie, step.frame) = call.heard;
            for (at, effect) in step.effects.iter_mut().enumerate() {
                effect.lie = call.touch.of(at).filter(|_| !effect.to.is_empty());
            }
            for (at, said) in outputs {
                if let Some(effect) = step.effects.get_mut(at) {
                    effect.said = said;
                }
            }
            self.trace.keep(step);
        }
        if self.options.until.is_some_and(|until| self.stats.events >= until) {
            self.violate(Violation::new("until", "stopped where it was asked to"), None);
        }
        self.trace.push(line)
    }

    /// Puts something beside the events of a full trace.
    pub(super) fn aside(&mut self, kind: AsideKind, places: Vec<u32>, what: impl FnOnce() -> String) {
        let (time, after) = (self.now, self.stats.events);
        let nodes = &self.nodes;
        self.trace.aside(|| {
            let instance = |place: u32| nodes.get(place as usize).map(|node| (node.id, node.twin));
            Aside {
                time,
                after,
                kind,
                nodes: places.into_iter().filter_map(instance).collect(),
                what: what(),
            }
        });
    }

    /// Stops behind this event, with a violation called `until`.
    pub const fn stop_behind(&mut self, event: u64) {
        self.options.until = Some(event);
    }

    /// Draws everything anew behind an event.
    pub const fn redraw_behind(&mut self, redraw: Redraw) {
        self.options.redraw = Some(redraw);
    }

    /// Bytes that all machines hold, by their own count.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let slots = self.nodes.iter().flat_map(|node| &node.slots);
        slots.filter_map(|slot| slot.hosted.as_ref()).map(|hosted| hosted.bytes()).sum()
    }
}
