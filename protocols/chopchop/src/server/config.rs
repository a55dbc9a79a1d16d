//! What a server is told.

use synod_machine::Recover;
use synod_machine::broadcast::Position;
use synod_quorum::NodeId;

use crate::config::{Cluster, Invalid};
use crate::directory::Directory;
use crate::server::given::GIVEN_BYTES;

/// Makes the configuration of the ordering layer, which resumes behind the last durable checkpoint of the server.
pub type OrderConfig<A> = Box<dyn Fn(Position) -> <A as Recover>::Config + Send>;

/// Entries that an ordering layer gives at most before any of them is applied, unless its own limits say otherwise: those of 64
/// blocks of 16,384.
const WINDOW: u64 = 64 * 16_384;

/// What a server keeps of its configuration.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) cluster: Cluster,
    pub(super) own: NodeId,
    /// Those of the genesis.
    pub(super) brokers: Vec<NodeId>,
    pub(super) lanes: u8,
    /// Entries that the ordering layer gives before any of them is applied.
    pub(super) window: u64,
    /// Bytes that the application may have been given and not executed, when a batch is begun.
    pub(super) given: u64,
}

/// Validated configuration of one server.
pub struct ServerConfig<A: Recover> {
    pub(super) settings: Settings,
    pub(super) genesis: Directory,
    pub(super) order: OrderConfig<A>,
}

impl<A: Recover> ServerConfig<A> {
    /// A server of `cluster` whose directory begins with `genesis`. The number of lanes never changes a result.
    ///
    /// # Errors
    /// [`Invalid`] states the rule that is broken.
    pub fn new(
        cluster: Cluster,
        own: NodeId,
        lanes: u8,
        genesis: Directory,
        order: OrderConfig<A>,
    ) -> Result<Self, Invalid> {
        if cluster.roster().member(own).is_none() {
            return Err(Invalid("this node is a server of the cluster"));
        }
        if !(1..=128).contains(&lanes) {
            return Err(Invalid("lanes is 1 to 128"));
        }
        Ok(Self {
            settings: Settings {
                cluster,
                own,
                brokers: Vec::new(),
                lanes,
                window: WINDOW,
                given: GIVEN_BYTES,
            },
            genesis,
            order,
        })
    }

    /// The same for these brokers of the genesis, by the ids they have at this node: each has its own ration of what it may ask, all
    /// others have one together.
    #[must_use]
    pub fn serving(mut self, brokers: Vec<NodeId>) -> Self {
        self.settings.brokers = brokers;
        self
    }

    /// The same over an ordering layer that gives so many entries at most before any of them is applied. Only the memory formula
    /// depends on it.
    #[must_use]
    pub const fn within(mut self, entries: u64) -> Self {
        self.settings.window = entries;
        self
    }

    /// The same over an application that may be given so many bytes, and one batch more, before it says that it executed some.
    #[must_use]
    pub const fn giving(mut self, bytes: u64) -> Self {
        self.settings.given = bytes;
        self
    }
}
