//! The application beside a server: what it executed is its state.

use synod_chopchop::server::{Apply, ServerInput};
use synod_crypto::{Hash, Hasher};
use synod_machine::broadcast::Position;

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

    fn app_root(&self, id: u32, height: u64) -> Hash {
        let mut hasher = Hasher::new("synod test app");
        for apply in self.node(id).applied.iter().filter(|apply| apply.height <= height) {
            hasher.add(&apply.height.to_le_bytes()).add(apply.exceptions.vector().as_ref());
        }
        hasher.finish()
    }

    /// It answers the root at a checkpoint, unless it keeps answers back.
    pub(super) fn checkpoint(&mut self, id: u32, position: Position, height: u64) {
        let root = self.app_root(id, height);
        let node = self.node_mut(id);
        node.asked.push((position, height));
        match &mut node.late {
            Some(late) => late.push((position, root)),
            None => self.tell_server(id, ServerInput::Applied { position, root }),
        }
    }

    /// It gives the answers that it kept back, and keeps back no more.
    pub(crate) fn answer_late(&mut self, id: u32) {
        for (position, root) in self.node_mut(id).late.take().into_iter().flatten() {
            self.tell_server(id, ServerInput::Applied { position, root });
        }
    }

    /// It takes what it has, or by its own transfer what another server's has.
    pub(super) fn jump(&mut self, id: u32, position: Position, height: u64, root: Hash) {
        let from = if self.app_root(id, height) == root { id } else { u32::from(id == 0) };
        let kept = self.node(from).applied.iter().filter(|apply| apply.height <= height);
        let kept = kept.cloned().collect();
        self.node_mut(id).applied = kept;
        assert_eq!(self.app_root(id, height), root);
        self.tell_server(id, ServerInput::Applied { position, root });
    }
}
