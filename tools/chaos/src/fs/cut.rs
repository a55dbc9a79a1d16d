//! What is left when the power fails.

use super::change::{Change, Unsynced};
use super::nodes::Content;
use super::tree::{ROOT, Tree};
use crate::Draw;
use std::collections::{BTreeMap, BTreeSet};

/// What a disk writes as a whole.
const SECTOR: u64 = 512;

/// What became of the changes that were not synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Changes of files that reached the disk.
    pub kept: u64,
    /// Changes of files that did not.
    pub dropped: u64,
    /// Writes of which some sectors of 512 bytes reached the disk.
    pub torn: u64,
    /// Creations, renames and removals that reached the disk.
    pub names_kept: u64,
    /// Creations, renames and removals that did not.
    pub names_dropped: u64,
}

impl Loss {
    /// Whether anything was not as readers had seen it.
    #[must_use]
    pub const fn any(&self) -> bool {
        self.dropped + self.torn + self.names_dropped > 0
    }

    /// Adds another loss.
    pub const fn add(&mut self, other: &Self) {
        self.kept += other.kept;
        self.dropped += other.dropped;
        self.torn += other.torn;
        self.names_kept += other.names_kept;
        self.names_dropped += other.names_dropped;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    Dropped,
    Torn,
}

/// The fate of every unsynced change, by its order. One of four manners is drawn: nothing reached the disk; everything
/// did, but nobody was told; the first few did and the next is torn; each is kept, dropped or torn by itself.
pub(super) fn fates(orders: &BTreeSet<u64>, draw: &mut Draw) -> BTreeMap<u64, Fate> {
    let manner = draw.below(4);
    let until = draw.below(orders.len() + 1);
    let fate = |(place, order): (usize, &u64)| {
        let fate = match manner {
            0 => Fate::Dropped,
            1 => Fate::Kept,
            2 if place < until => Fate::Kept,
            2 if place == until && draw.coin() => Fate::Torn,
            2 => Fate::Dropped,
            _ => [Fate::Kept, Fate::Kept, Fate::Dropped, Fate::Dropped, Fate::Torn][draw.below(5)],
        };
        (*order, fate)
    };
    orders.iter().enumerate().map(fate).collect()
}

/// The sectors of a torn write that reached the disk: the first few, or any.
fn torn(at: u64, bytes: &[u8], draw: &mut Draw) -> Vec<Change> {
    let (first, last) = (at / SECTOR, (at + bytes.len() as u64).div_ceil(SECTOR));
    let sectors = last - first;
    let in_order = draw.coin();
    let until = first + draw.next() % sectors.max(1);
    let mut left = Vec::new();
    for sector in first..last {
        let reached = if in_order { sector < until } else { draw.coin() };
        let begin = (sector * SECTOR).max(at);
        let end = ((sector + 1) * SECTOR).min(at + bytes.len() as u64);
        if reached && begin < end {
            let part = super::image::index(begin - at)..super::image::index(end - at);
            left.push(Change::Bytes { at: begin, bytes: bytes[part].to_vec() });
        }
    }
    left
}

impl Tree {
    /// The power fails: what was not synced is kept, dropped or torn as drawn, and what is left is all there is. Files
    /// that no durable name leads to are gone.
    pub(super) fn lose(&mut self, draw: &mut Draw) -> Loss {
        let mut orders = BTreeSet::new();
        for node in self.nodes.values() {
            match &node.content {
                Content::File(file) => orders.extend(file.unsynced.iter().map(|change| change.order)),
                Content::Directory(held) => orders.extend(held.unsynced.iter().map(|entry| entry.order)),
            }
        }
        let fates = fates(&orders, draw);
        self.lose_as(&fates, draw)
    }

    /// The same with fates that were chosen; what has none is dropped.
    pub(super) fn lose_as(&mut self, fates: &BTreeMap<u64, Fate>, draw: &mut Draw) -> Loss {
        let mut loss = Loss::default();
        let fate = |order: u64| fates.get(&order).copied().unwrap_or(Fate::Dropped);
        for node in self.nodes.values_mut() {
            node.lookups = 0;
            match &mut node.content {
                Content::File(file) => {
                    for Unsynced { order, what } in std::mem::take(&mut file.unsynced) {
                        match (fate(order), &what) {
                            (Fate::Kept, _) => {
                                what.apply(&mut file.durable);
                                loss.kept += 1;
                            }
                            (Fate::Torn, Change::Bytes { at, bytes }) => {
                                let left = torn(*at, bytes, draw);
                                left.iter().for_each(|part| part.apply(&mut file.durable));
                                loss.torn += 1;
                            }
                            _ => loss.dropped += 1,
                        }
                    }
                    file.now = file.durable.clone();
                }
                Content::Directory(directory) => {
                    for Unsynced { order, what } in std::mem::take(&mut directory.unsynced) {
                        if fate(order) == Fate::Kept {
                            what.apply(&mut directory.durable);
                            loss.names_kept += 1;
                        } else {
                            loss.names_dropped += 1;
                        }
                    }
                    directory.now = directory.durable.clone();
                }
            }
        }
        self.settle();
        self.keep_reachable();
        loss
    }

    fn keep_reachable(&mut self) {
        let mut reached = BTreeSet::new();
        let mut next = vec![ROOT];
        while let Some(number) = next.pop() {
            let Some(node) = self.nodes.get(&number).filter(|_| reached.insert(number)) else { continue };
            if let Content::Directory(directory) = &node.content {
                next.extend(directory.durable.values());
            }
        }
        self.nodes.retain(|number, _| reached.contains(number));
    }
}
