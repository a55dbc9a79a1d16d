//! Which kernel adds, and its memory.

use crate::Path;
use crate::lanes::Plain;
use crate::point::{PackedKey, Sum};
use crate::root::{read_eight, roots};
use crate::sum::{Work, add_all};

/// Sums keys. It keeps up to 2.5 MiB of memory from its first sum on, so that the next ones need none from the system.
pub struct Adder {
    kernel: Kernel,
}

enum Kernel {
    Portable(Work<Plain>),
    #[cfg(target_arch = "x86_64")]
    Avx512(Work<crate::ifma::Vector>),
}

impl Default for Adder {
    fn default() -> Self {
        Self::new()
    }
}

impl Adder {
    /// The fastest path of this processor.
    #[must_use]
    pub fn new() -> Self {
        #[cfg(target_arch = "x86_64")]
        if crate::ifma::is_here() {
            return Self { kernel: Kernel::Avx512(Work::new()) };
        }
        Self::portable()
    }

    /// The portable path.
    #[must_use]
    pub const fn portable() -> Self {
        Self { kernel: Kernel::Portable(Work::new()) }
    }

    /// Which path this is.
    #[must_use]
    pub const fn path(&self) -> Path {
        match self.kernel {
            Kernel::Portable(_) => Path::Portable,
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(_) => Path::Avx512,
        }
    }

    /// The points of compressed encodings, in order: on the curve, maybe outside its group. `None` says nothing about a key but that
    /// another library has to judge it.
    #[must_use]
    #[cfg_attr(
        target_arch = "x86_64",
        expect(unsafe_code, reason = "calls what the processor was found to have")
    )]
    pub fn read(&self, keys: &[[u8; 48]]) -> Vec<Option<PackedKey>> {
        let mut out = Vec::with_capacity(keys.len());
        for eight in keys.chunks(8) {
            match &self.kernel {
                Kernel::Portable(_) => read_eight(eight, &mut out, roots::<Plain>),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: only `new` makes this kernel, after it found the instructions on this processor.
                Kernel::Avx512(_) => read_eight(eight, &mut out, |x| unsafe { crate::ifma::roots(x) }),
            }
        }
        out
    }

    /// The sum of all keys; a key that is named twice counts twice. Keys that the tree cannot add (two partial sums with the
    /// same x) cost up to three times as much.
    #[must_use]
    #[cfg_attr(
        target_arch = "x86_64",
        expect(unsafe_code, reason = "calls what the processor was found to have")
    )]
    pub fn sum(&mut self, keys: &[&PackedKey]) -> Sum {
        let sum = match &mut self.kernel {
            Kernel::Portable(work) => add_all(keys, work),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: only `new` makes this kernel, after it found the instructions on this processor.
            Kernel::Avx512(work) => unsafe { crate::ifma::sum(keys, work) },
        };
        sum.to_sum()
    }
}
