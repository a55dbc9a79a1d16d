//! Slots as members write them.

use synod_machine::broadcast::Slot;
use synod_quorum::NodeId;
use synod_wire::wire;

wire! {
    /// A slot as members write it: node ids do not travel.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Lot {
        /// Whose.
        pub source: u8,
        /// 1, 2, 3, ...
        pub sequence: u64,
    }
}

impl From<Lot> for Slot {
    fn from(lot: Lot) -> Self {
        Self { source: NodeId(u32::from(lot.source)), sequence: lot.sequence }
    }
}

impl TryFrom<Slot> for Lot {
    type Error = core::num::TryFromIntError;

    /// Refuses whoever is no member.
    fn try_from(slot: Slot) -> Result<Self, Self::Error> {
        Ok(Self { source: u8::try_from(slot.source.0)?, sequence: slot.sequence })
    }
}
