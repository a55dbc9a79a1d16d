//! Asking for memory before it is read.
//!
//! A walk over a table that no cache holds waits for each of its places in turn. Whoever knows the places beforehand has
//! them brought nearer while it works on others.
//!
//! *Why unsafe.* A prefetch takes an address. It reads nothing and cannot fail, and the address here is that of a borrowed
//! value.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Has the first line of `value` brought nearer, where the processor can be asked to. Changes nothing.
#[inline(always)]
pub fn near<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads and writes nothing, and the address is that of a value which is borrowed here.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(value).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = value;
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_asked_for_is_as_it_was() {
        let values: Vec<u64> = (0..1_000).collect();
        values.iter().for_each(super::near);
        super::near(&());
        assert!(values.iter().zip(0..).all(|(value, wanted)| *value == wanted));
    }
}
