//! The table of targets.

use synod_wire::Drawn;

use crate::{decoders, roles};

/// What a target does with its input, and so how many inputs fit a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Decodes bytes: a microsecond or a few.
    Decoder,
    /// Reads text or checks signatures: tens of microseconds.
    Slow,
    /// Turns bytes into events for a role: milliseconds.
    Role,
}

/// One target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// What it costs.
    pub kind: Kind,
    /// Runs it on one input.
    ///
    /// # Panics
    /// With the property that broke.
    pub run: fn(&[u8]),
    /// Draws a well-formed input.
    pub seed: fn(&mut Drawn) -> Vec<u8>,
}

impl Target {
    pub(crate) const fn new(
        name: &'static str,
        kind: Kind,
        run: fn(&[u8]),
        seed: fn(&mut Drawn) -> Vec<u8>,
    ) -> Self {
        Self { name, kind, run, seed }
    }

    /// Whether it is a decoder, and not a role.
    #[must_use]
    pub const fn is_decoder(&self) -> bool {
        !matches!(self.kind, Kind::Role)
    }
}

/// Every target: decoders by group, then roles.
pub const TARGETS: &[&[Target]] = &[
    decoders::bls::TARGETS,
    decoders::channel::TARGETS,
    decoders::link::TARGETS,
    decoders::vocabulary::TARGETS,
    decoders::hotstuff::TARGETS,
    decoders::chopchop::TARGETS,
    decoders::ledger::TARGETS,
    decoders::broadcast::TARGETS,
    decoders::astro::TARGETS,
    decoders::ubft::TARGETS,
    decoders::service::TARGETS,
    decoders::journal::TARGETS,
    decoders::kv::TARGETS,
    decoders::orderbook::TARGETS,
    decoders::resp::TARGETS,
    decoders::http::TARGETS,
    decoders::config::TARGETS,
    decoders::merkle::TARGETS,
    roles::TARGETS,
];

/// The target of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().copied().flatten().find(|target| target.name == name)
}

#[cfg(test)]
mod tests {
    use super::TARGETS;

    #[test]
    fn names_are_unique_and_name_folders() {
        let mut names: Vec<&str> = TARGETS.iter().copied().flatten().map(|target| target.name).collect();
        let count = names.len();
        assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count >= 38, "{count} targets");
    }
}
