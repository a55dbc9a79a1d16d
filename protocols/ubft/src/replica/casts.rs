//! The broadcasts of all replicas, as seen by one: a family that can be copied and shown, which models need of a whole machine.

use core::fmt;
use core::ops::{Deref, DerefMut};

use synod_machine::Family;
use synod_quorum::NodeId;

use crate::ctb::CtBroadcast;

/// See the module.
pub(super) struct Casts {
    family: Family<NodeId, CtBroadcast>,
    max: usize,
}

impl Casts {
    pub(super) const fn new(max: usize) -> Self {
        Self { family: Family::new(max), max }
    }
}

impl Clone for Casts {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.max);
        for (id, one) in self.family.iter() {
            copy.family.member(id, || one.clone());
        }
        copy
    }
}

impl fmt::Debug for Casts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.family.iter()).finish()
    }
}

impl Deref for Casts {
    type Target = Family<NodeId, CtBroadcast>;
    fn deref(&self) -> &Self::Target {
        &self.family
    }
}

impl DerefMut for Casts {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.family
    }
}
