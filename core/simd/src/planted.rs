//! Planted bugs: conditions that are the literal `false` unless the build sets `--cfg synod_plant`.

/// Whether the planted bug is the one active plant of this process: `planted!(H1) || votes.is_quorum(w)`.
#[cfg(not(synod_plant))]
#[macro_export]
macro_rules! planted {
    ($id:ident) => {
        false
    };
}

/// Whether the planted bug is the one active plant of this process: `planted!(H1) || votes.is_quorum(w)`.
#[cfg(synod_plant)]
#[macro_export]
macro_rules! planted {
    ($id:ident) => {
        $crate::planted::is_active(stringify!($id))
    };
}

/// The mark that the release binary must not contain.
#[cfg(synod_plant)]
pub const MARK: &str = "synod-plant-build";

#[cfg(synod_plant)]
static ACTIVE: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);

/// Makes `id` the one active plant of this process; the empty id makes none active.
#[cfg(synod_plant)]
pub fn activate(id: &str) {
    ACTIVE.store(if id.is_empty() { 0 } else { name(id) }, core::sync::atomic::Ordering::SeqCst);
}

/// Whether `id` is the active plant.
#[cfg(synod_plant)]
#[must_use]
pub fn is_active(id: &str) -> bool {
    ACTIVE.load(core::sync::atomic::Ordering::Relaxed) == name(id)
}

#[cfg(synod_plant)]
const fn name(id: &str) -> u64 {
    let bytes = id.as_bytes();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}
