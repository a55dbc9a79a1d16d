//! Huge pages and kept pages, for processes that hold a table of all clients.
//!
//! The keys of a million clients lie in 24,000 pages of 4 KiB and a batch meets them in no order, so that walks of page tables
//! are a tenth of what a witness does. The C library asks the system for pages of 2 MiB if GLIBC_TUNABLES says so before
//! the process begins; so a process that wants them starts itself anew, once, under its own number (docs/adr/0017-huge-pages.md).
//!
//! The bodies of batches, 0.5 MB and more, come and go a thousand times a minute. By itself the C library gives such memory back to the
//! system each time and gets it anew, page by page and cleared, a fifth of what a server does; told where to cut, it keeps it.
//!
//! Who set GLIBC_TUNABLES has decided for himself, whatever it says. Nothing else than speed and memory depends on it.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// What the C library reads when a process begins.
pub(crate) const TUNABLES: &str = "GLIBC_TUNABLES";
/// What makes it ask for huge pages and nothing else.
pub(crate) const PAGES_ALONE: &str = "glibc.malloc.hugetlb=1";
/// What makes it ask for huge pages, keep up to 64 MiB at the end of each of its heaps, and take blocks of up to 16 MiB from them.
const ASK: &str =
    "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=67108864:glibc.malloc.mmap_threshold=16777216";
/// What the system does about huge pages.
const SYSTEM: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
/// Where the system says what a process holds.
const HELD: &str = "/proc/self/smaps_rollup";

/// Who sees to huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// The system, for every process.
    Always,
    /// The C library, for this process.
    Asked,
    /// Nobody.
    None,
}

impl Pages {
    /// The word for it in results.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Asked => "asked",
            Self::None => "none",
        }
    }

    /// Of this process.
    pub(crate) fn own() -> Self {
        Self::of(&system(), std::env::var_os(TUNABLES).as_deref())
    }

    fn of(system: &str, tunables: Option<&OsStr>) -> Self {
        let asked = tunables.and_then(OsStr::to_str).is_some_and(|text| {
            text.split(':').any(|one| matches!(one, "glibc.malloc.hugetlb=1" | "glibc.malloc.hugetlb=2"))
        });
        match chosen(system) {
            Some("always") => Self::Always,
            Some("madvise") if asked && cfg!(target_env = "gnu") => Self::Asked,
            _ => Self::None,
        }
    }
}

/// The word in brackets.
fn chosen(system: &str) -> Option<&str> {
    Some(system.split_once('[')?.1.split_once(']')?.0)
}

fn system() -> String {
    std::fs::read_to_string(SYSTEM).unwrap_or_default()
}

/// Whether a process that begins with these has something to gain from beginning anew.
fn would_help(system: &str, tunables: Option<&OsStr>) -> bool {
    tunables.is_none() && Pages::of(system, Some(OsStr::new(ASK))) == Pages::Asked
}

/// Starts this process anew with huge pages where that helps: same number, arguments, directory and open standard streams. Returns
/// where it does not help or cannot be done, and is to be called before threads, listeners and locks are there.
pub(crate) fn ask() {
    if !would_help(&system(), std::env::var_os(TUNABLES).as_deref()) {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let why = command.args(arguments).env(TUNABLES, ASK).exec();
    // It goes on without them.
    tracing::warn!(%why, "no huge pages: this process could not be started anew");
}

/// Makes a child decide for itself.
pub(crate) fn leave_to(command: &mut Command) {
    if keeps() {
        command.env_remove(TUNABLES);
    }
}

/// Whether this process started itself anew, with huge pages and with memory that is kept.
pub(crate) fn keeps() -> bool {
    std::env::var_os(TUNABLES).is_some_and(|text| text == ASK)
}

/// Bytes of this process that lie in huge pages; none where the system does not say.
pub(crate) fn held() -> Option<u64> {
    held_in(&std::fs::read_to_string(HELD).ok()?)
}

fn held_in(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADVISE: &str = "always [madvise] never\n";

    #[test]
    fn a_process_begins_anew_only_where_it_gains_huge_pages() {
        assert!(would_help(MADVISE, None));
        for tunables in ["", ASK, "glibc.malloc.hugetlb=0", "glibc.malloc.arena_max=2"] {
            assert!(!would_help(MADVISE, Some(OsStr::new(tunables))), "{tunables}: the user decided");
        }
        for system in ["[always] madvise never", "always madvise [never]", ""] {
            assert!(!would_help(system, None), "{system}");
        }
    }

    #[test]
    fn what_a_result_says_of_huge_pages_is_what_the_process_has() {
        let of = |system, tunables: &str| Pages::of(system, Some(OsStr::new(tunables)));
        assert_eq!((of(MADVISE, ASK), of(MADVISE, PAGES_ALONE)), (Pages::Asked, Pages::Asked));
        assert_eq!(of(MADVISE, "glibc.malloc.arena_max=2:glibc.malloc.hugetlb=2"), Pages::Asked);
        assert_eq!(of(MADVISE, "glibc.malloc.hugetlb=0"), Pages::None);
        assert_eq!(of("always madvise [never]", ASK), Pages::None);
        assert_eq!(Pages::of("[always] madvise never", None), Pages::Always);
        assert_eq!(Pages::of("", None), Pages::None);
    }

    #[test]
    fn bytes_in_huge_pages_are_read() {
        let text = "Rss:  9000 kB\nAnonHugePages:    6144 kB\nShmemPmdMapped: 0 kB\n";
        assert_eq!(held_in(text), Some(6 << 20));
        assert_eq!(held_in("Rss: 1 kB\n"), None);
    }
}
