//! H-S1 and H-S2: one log, equal at all correct replicas, never shrinking, across restarts.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_hotstuff::Item;

use super::sighting::{Seen, Sighting};
use super::{Blocks, Oracle, Verdict, breach};

/// Watches what is delivered.
#[derive(Default)]
pub struct Agreement {
    agreed: BTreeMap<u64, (Hash, u32)>,
    reached: BTreeMap<(u32, u32), u64>,
    items: BTreeMap<u64, Option<Hash>>,
}

impl Agreement {
    /// What a proof says stands where everybody delivered it.
    fn proved(&self, node: u32, position: u64, id: Hash) -> Verdict {
        match self.items.get(&position) {
            Some(None) if Item::names_empty(&id) => Ok(()),
            Some(Some(first)) if *first == id => Ok(()),
            Some(_) => breach("H-S1", format!("n{node} proves another item at position {position}")),
            None => breach("H-S1", format!("n{node} proves position {position}, which nobody delivered")),
        }
    }

    /// Number of positions anybody delivered.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.agreed.last_key_value().map_or(0, |(position, _)| *position)
    }
}

impl Oracle for Agreement {
    fn see(&mut self, sighting: &Sighting, _: &Blocks) -> Verdict {
        if !sighting.honest {
            return Ok(());
        }
        let (position, content) = match sighting.seen {
            Seen::Delivered { position, content } => (position, content),
            Seen::Item { position, id } => {
                self.items.entry(position).or_insert(id);
                return Ok(());
            }
            Seen::Proved { position, id } => return self.proved(sighting.node, position, id),
            Seen::Jumped(position) => {
                self.reached.insert((sighting.node, sighting.incarnation), position);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let (first, by) = *self.agreed.entry(position).or_insert((content, sighting.node));
        if first != content {
            let node = sighting.node;
            return breach(
                "H-S1",
                format!("position {position}: n{node} delivered {content}, n{by} {first}"),
            );
        }
        let key = (sighting.node, sighting.incarnation);
        if let Some(last) = self.reached.insert(key, position)
            && position != last + 1
        {
            return breach("H-S2", format!("n{} delivered {position} after {last}", sighting.node));
        }
        Ok(())
    }
}
