//! Words of a faulty writer: each load gives something else.

use std::cell::Cell;

use synod_tail::{Fence, Words};

/// Words that change with every look at them.
#[derive(Debug)]
pub(crate) struct Noise {
    script: Vec<u64>,
    loads: Cell<u64>,
    stores: Cell<u64>,
}

impl Noise {
    /// Repeats the drawn values: small ones, any, near the largest number, or zero.
    pub(crate) fn new(drawn: Vec<(u64, u64, u8)>) -> Self {
        let script = drawn.into_iter().map(|(small, any, kind)| match kind {
            0 => small,
            1 => any,
            2 => (1 << 62) - 20 + small,
            _ => 0,
        });
        let script: Vec<u64> = script.collect();
        // Every fifth value repeats the one before it, so that some copies are whole.
        let repeated =
            (0..script.len()).map(|at| script[if at % 5 == 0 { at.saturating_sub(1) } else { at }]);
        Self::exact(repeated.collect())
    }

    /// Gives these values, and then again.
    pub(crate) fn exact(script: Vec<u64>) -> Self {
        Self { script, loads: Cell::new(0), stores: Cell::new(0) }
    }

    pub(crate) fn loads(&self) -> u64 {
        self.loads.get()
    }

    pub(crate) fn stores(&self) -> u64 {
        self.stores.get()
    }
}

impl Words for Noise {
    fn load(&self, _: u32) -> u64 {
        let n = self.loads.get();
        self.loads.set(n + 1);
        let at = usize::try_from(n).expect("few loads") % self.script.len();
        self.script[at]
    }
    fn store(&self, _: u32, _: u64) {
        self.stores.set(self.stores.get() + 1);
    }
    fn fence(&self, _: Fence) {}
}
