//! The broadcasts of all replicas, as seen by one: a family that can be copied and shown, which models need of a whole machine.

use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::Arc;

use synod_machine::Family;
use synod_quorum::NodeId;

use crate::config::{Config, Unsound};
use crate::ctb::CtBroadcast;

/// See the module.
pub(super) struct Casts {
    family: Family<NodeId, CtBroadcast>,
    max: usize,
}

impl Casts {
    /// Of all replicas of a configuration.
    pub(super) fn new(config: &Arc<Config>) -> Result<Self, Unsound> {
        let max = usize::try_from(config.roster.size()).unwrap_or(0);
        let mut family = Family::new(max);
        for id in config.roster.all().iter() {
            let one = CtBroadcast::new(Arc::clone(config), id)?;
            family.member(id, || one);
        }
        Ok(Self { family, max })
    }
}

impl Clone for Casts {
    fn clone(&self) -> Self {
        let mut family = Family::new(self.max);
        for (id, one) in self.family.iter() {
            family.member(id, || one.clone());
        }
        Self { family, max: self.max }
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
