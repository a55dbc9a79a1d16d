//! Which kernel adds, and its memory.

use core::borrow::Borrow;

use crate::Path;
use crate::lanes::Plain;
use crate::point::{Key, Sum};
use crate::sum::{Work, add_all, add_chunk};

/// Sums keys. It keeps 2 MiB of memory from its first sum on, so that the next ones need none from the system.
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

    /// The sum of all keys; a key that is named twice counts twice. With vectors and keys in cache some 70 ns per key,
    /// 20 more for keys in the library's form; ten times that for a part of 8,192 in which two partial sums have the same
    /// x.
    #[must_use]
    #[cfg_attr(
        target_arch = "x86_64",
        expect(unsafe_code, reason = "calls what the processor was found to have")
    )]
    pub fn sum<K: Key, T: Borrow<K>>(&mut self, keys: &[T]) -> Sum {
        match &mut self.kernel {
            Kernel::Portable(work) => add_all(keys, work, add_chunk::<Plain, K, T>),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(work) => add_all(keys, work, |chunk, work| {
                // SAFETY: only `new` makes this kernel, after it found the instructions on this processor.
                unsafe { crate::ifma::chunk::<K, T>(chunk, work) }
            }),
        }
    }
}
