//! What one exploration of the journal covers.

/// One bounded exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Records appended.
    pub writes: u8,
    /// Syncs.
    pub syncs: u8,
    /// Bytes of a segment beside its header and slots: the log goes on in another segment when they are used up.
    pub room: u64,
}

impl Instance {
    /// Its name in reports.
    #[must_use]
    pub fn name(&self) -> String {
        let Self { writes, syncs, room } = self;
        format!("writes={writes} syncs={syncs} room={room}")
    }
}
