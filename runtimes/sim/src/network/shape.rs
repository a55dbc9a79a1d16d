//! The shapes of partitions: which directed pairs a shape blocks.

use crate::draw::Stream;

/// How a network is cut. Every shape is a set of directed pairs that carry nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// Two groups of drawn size.
    Split,
    /// Every node falls into one of two groups by a coin of its own.
    Coin,
    /// One node alone.
    Isolate,
    /// Two groups that share exactly one node.
    Bridge,
    /// Every node reaches only its two neighbours on a ring.
    Ring,
    /// One node is heard by nobody, and hears all.
    OneWay,
}

/// All shapes, in the order of their numbers in scenarios.
pub const SHAPES: [Shape; 6] =
    [Shape::Split, Shape::Coin, Shape::Isolate, Shape::Bridge, Shape::Ring, Shape::OneWay];

impl Shape {
    /// The directed pairs of `nodes` that the shape blocks, with groups and victims drawn from `stream`.
    #[must_use]
    pub fn blocks<T: Copy>(self, nodes: &[T], stream: &mut Stream) -> Vec<(T, T)> {
        let mut order = nodes.to_vec();
        stream.shuffle(&mut order);
        let count = order.len();
        if count < 2 || (count < 3 && self == Self::Bridge) {
            return Vec::new();
        }
        let size = 1 + stream.index(count - 1);
        let sides: Vec<u8> = match self {
            Self::Split => (0..count).map(|at| u8::from(at < size)).collect(),
            Self::Coin => (0..count).map(|_| u8::from(stream.chance(500_000))).collect(),
            Self::Isolate | Self::OneWay => (0..count).map(|at| u8::from(at == 0)).collect(),
            Self::Bridge => {
                let first = 1 + (size - 1) % (count - 2);
                (0..count).map(|at| if at == 0 { 2 } else { u8::from(at <= first) }).collect()
            }
            Self::Ring => Vec::new(),
        };
        let apart = |a: usize, b: usize| match self {
            Self::Ring => {
                let gap = a.abs_diff(b);
                gap != 1 && gap != count - 1
            }
            Self::OneWay => sides[a] == 1,
            _ => sides[a] != sides[b] && sides[a] != 2 && sides[b] != 2,
        };
        let mut blocked = Vec::new();
        for a in 0..count {
            blocked.extend((0..count).filter(|&b| a != b && apart(a, b)).map(|b| (order[a], order[b])));
        }
        blocked
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::draw::Draws;

    fn blocked(shape: Shape, entity: u64) -> BTreeSet<(u32, u32)> {
        let nodes: Vec<u32> = (0..7).collect();
        shape.blocks(&nodes, &mut Draws::new(11).stream("shape", entity)).into_iter().collect()
    }

    /// Whom each node still reaches.
    fn reach(blocked: &BTreeSet<(u32, u32)>) -> BTreeMap<u32, BTreeSet<u32>> {
        let open = |a: u32| (0..7).filter(|&b| a != b && !blocked.contains(&(a, b))).collect();
        (0..7).map(|a| (a, open(a))).collect()
    }

    #[test]
    fn a_split_leaves_two_groups_that_are_whole() {
        for (shape, entity) in (0..20).flat_map(|e| [(Shape::Split, e), (Shape::Coin, e)]) {
            for (a, peers) in reach(&blocked(shape, entity)) {
                for b in &peers {
                    let theirs = &reach(&blocked(shape, entity))[b];
                    let (mut mine, mut theirs) = (peers.clone(), theirs.clone());
                    mine.insert(a);
                    theirs.insert(*b);
                    assert_eq!(mine, theirs, "{shape:?}: a group is a clique");
                }
            }
        }
    }

    #[test]
    fn an_isolated_node_neither_hears_nor_is_heard() {
        let blocked = blocked(Shape::Isolate, 1);
        let alone: Vec<u32> =
            reach(&blocked).into_iter().filter(|(_, p)| p.is_empty()).map(|(a, _)| a).collect();
        assert_eq!((alone.len(), blocked.len()), (1, 12));
    }

    #[test]
    fn a_bridge_is_one_node_that_reaches_all_while_the_sides_reach_only_it() {
        for entity in 0..20 {
            let reach = reach(&blocked(Shape::Bridge, entity));
            let bridges: Vec<&u32> = reach.iter().filter(|(_, p)| p.len() == 6).map(|(a, _)| a).collect();
            assert_eq!(bridges.len(), 1);
            assert!(reach.iter().all(|(a, p)| a == bridges[0] || p.contains(bridges[0])));
        }
    }

    #[test]
    fn on_a_ring_everybody_reaches_two() {
        assert!(reach(&blocked(Shape::Ring, 3)).values().all(|peers| peers.len() == 2));
    }

    #[test]
    fn one_way_silences_one_node_that_still_hears() {
        let blocked = blocked(Shape::OneWay, 5);
        let from: BTreeSet<u32> = blocked.iter().map(|(a, _)| *a).collect();
        assert_eq!((from.len(), blocked.len()), (1, 6));
    }

    #[test]
    fn one_node_cannot_be_cut() {
        for shape in SHAPES {
            assert!(shape.blocks(&[1_u8], &mut Draws::new(1).stream("shape", 0)).is_empty());
        }
    }
}
