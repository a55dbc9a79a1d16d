//! What the world can do to a state file.

/// A failure of the file under a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened, read or written, or is no state file.
    #[error("SYN-5003 state_file: {step}: {source}")]
    File {
        /// What was being done.
        step: &'static str,
        /// What the store said.
        source: Box<redb::Error>,
    },
    /// A newer release wrote the file; there is no downgrade.
    #[error("SYN-1110 format_newer: the state file has format {found}, this build reads {known}")]
    Newer {
        /// The file's format.
        found: u64,
        /// The newest format this build reads.
        known: u64,
    },
}

impl Error {
    /// The SYN code.
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self {
            Self::File { .. } => 5_003,
            Self::Newer { .. } => 1_110,
        }
    }

    pub(crate) fn at(step: &'static str) -> impl Fn(redb::Error) -> Self {
        move |source| Self::File { step, source: Box::new(source) }
    }
}
