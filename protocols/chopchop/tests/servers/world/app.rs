//! The application beside a server, which keeps what it executed.

use synod_chopchop::server::{Apply, ServerInput};
use synod_crypto::{Hash, Hasher};

use super::World;

impl World {
    /// The application executes a batch, or sees one again after a restart.
    pub(super) fn apply(&mut self, id: u32, apply: Apply) {
        if apply.awaited && self.setup.slow.is_none() {
            self.tell_server(id, ServerInput::Executed { height: apply.height });
        }
        let applied = &mut self.node_mut(id).applied;
        let same = |known: &Apply| {
            assert_eq!(
                (&known.batch, &known.exceptions),
                (&apply.batch, &apply.exceptions),
                "the same again"
            );
            assert_eq!((known.position, known.draw), (apply.position, apply.draw));
        };
        match applied.iter().find(|known| known.height == apply.height) {
            Some(known) => same(known),
            None => applied.push(apply),
        }
    }

    pub(super) fn app_root(&self, id: u32, height: u64) -> Hash {
        let mut hasher = Hasher::new("synod test app");
        for apply in self.node(id).applied.iter().filter(|apply| apply.height <= height) {
            hasher.add(&apply.height.to_le_bytes()).add(apply.exceptions.vector().as_ref());
        }
        hasher.finish()
    }
}
