//! How many files this process and those it starts may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to `wanted`, or as far as it goes; what it is then. Processes that are started
/// later inherit it.
#[must_use]
pub fn descriptors(wanted: u64) -> u64 {
    let now = getrlimit(Resource::Nofile);
    let most = now.maximum.unwrap_or(u64::MAX);
    let present = now.current.unwrap_or(u64::MAX);
    if present >= wanted {
        return present;
    }
    let next = wanted.min(most);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(next), maximum: now.maximum });
    if raised.is_ok() { next } else { present }
}

#[cfg(test)]
mod tests {
    use super::descriptors;

    #[test]
    fn a_limit_is_never_lowered_and_what_is_asked_for_is_given_if_the_system_does() {
        let before = descriptors(0);
        assert!(descriptors(before) >= before);
        assert!(descriptors(1) >= before);
    }
}
