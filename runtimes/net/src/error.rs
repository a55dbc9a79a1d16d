//! What the world can do to the network runtime, by SYN code.

use std::io;

use synod_quorum::NodeId;

/// Why a handshake was refused; one code of the 21xx range each. An identity error never shows as a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// 2101: the other side belongs to another cluster.
    WrongCluster,
    /// 2102: the key is not the one the roster names, or no key was shown.
    UnknownKey,
    /// 2103: the cluster's name is the same and something of its genesis differs.
    GenesisDiffers,
    /// 2104: the other side's epoch is not the own one.
    OldEpoch,
    /// 2105: no protocol version is spoken by both.
    VersionSkew,
    /// 2106: TLS ended the handshake.
    TlsAlert,
    /// 2107: the wall clocks differ by more than the configured bound.
    ClockSkew,
    /// 2108: the other side's role may not use this listener, or dialled one of another role.
    WrongRole,
    /// 2109: another live process uses the same key.
    SecondInstance,
}

impl Refusal {
    /// Every refusal, in code order.
    pub const ALL: [Self; 9] = [
        Self::WrongCluster,
        Self::UnknownKey,
        Self::GenesisDiffers,
        Self::OldEpoch,
        Self::VersionSkew,
        Self::TlsAlert,
        Self::ClockSkew,
        Self::WrongRole,
        Self::SecondInstance,
    ];

    /// The SYN code.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::WrongCluster => 2_101,
            Self::UnknownKey => 2_102,
            Self::GenesisDiffers => 2_103,
            Self::OldEpoch => 2_104,
            Self::VersionSkew => 2_105,
            Self::TlsAlert => 2_106,
            Self::ClockSkew => 2_107,
            Self::WrongRole => 2_108,
            Self::SecondInstance => 2_109,
        }
    }

    /// The refusal of this code.
    #[must_use]
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.code() == code)
    }

    /// The name beside the code.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WrongCluster => "wrong_cluster",
            Self::UnknownKey => "unknown_peer_key",
            Self::GenesisDiffers => "genesis_differs",
            Self::OldEpoch => "old_epoch",
            Self::VersionSkew => "version_skew",
            Self::TlsAlert => "tls_alert",
            Self::ClockSkew => "clock_skew",
            Self::WrongRole => "wrong_role",
            Self::SecondInstance => "second_instance",
        }
    }
}

/// A failure of the world under the network runtime.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value of the configuration is wrong.
    #[error("SYN-1103 bad_value: {0}")]
    Config(String),
    /// A listener cannot be bound.
    #[error("SYN-2004 port_taken: {address}: {source}")]
    PortTaken {
        /// What was to be bound.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The other side does not listen, or closed without a word.
    #[error("SYN-2001 refused: {address}: {source}")]
    Refused {
        /// Who was called.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The name of an address does not resolve.
    #[error("SYN-2002 name_not_found: {0}")]
    NameNotFound(String),
    /// The other side stopped answering.
    #[error("SYN-2003 no_answer: stage {stage}")]
    NoAnswer {
        /// How far the handshake came: tcp, tls or hello.
        stage: &'static str,
    },
    /// One of the two sides refused the other in the handshake.
    #[error("SYN-{} {}: refused by {}: {detail}", refusal.code(), refusal.name(), if *by_us { "this side" } else { "the peer" })]
    Handshake {
        /// Which rule was broken.
        refusal: Refusal,
        /// Whether this side refused.
        by_us: bool,
        /// Both values, where there are two.
        detail: String,
    },
    /// The journal failed; the process ends with exit code 9.
    #[error("SYN-5004 journal_write_failed: machine {machine}: {why}")]
    Journal {
        /// The machine whose lane met it.
        machine: u8,
        /// What the journal said.
        why: String,
    },
    /// The program of a server process is not installed.
    #[error("SYN-1205 program_missing: {program}, of the package {package}")]
    ProgramMissing {
        /// The program.
        program: &'static str,
        /// The package that has it.
        package: &'static str,
    },
    /// A server process did not start, ended or does not answer.
    #[error("SYN-1206 server_process: {program}: {why}")]
    ServerProcess {
        /// The program.
        program: &'static str,
        /// What happened.
        why: String,
    },
    /// A thread or its runtime could not be started, or ended by a panic.
    #[error("SYN-9001 bug: {0}")]
    Thread(String),
}

impl Error {
    /// The SYN code.
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self {
            Self::Config(_) => 1_103,
            Self::PortTaken { .. } => 2_004,
            Self::Refused { .. } => 2_001,
            Self::NameNotFound(_) => 2_002,
            Self::NoAnswer { .. } => 2_003,
            Self::Handshake { refusal, .. } => refusal.code(),
            Self::Journal { .. } => 5_004,
            Self::ProgramMissing { .. } => 1_205,
            Self::ServerProcess { .. } => 1_206,
            Self::Thread(_) => 9_001,
        }
    }

    pub(crate) fn refuse(refusal: Refusal, detail: impl Into<String>) -> Self {
        Self::Handshake { refusal, by_us: true, detail: detail.into() }
    }

    pub(crate) fn refused_by_peer(refusal: Refusal, detail: impl Into<String>) -> Self {
        Self::Handshake { refusal, by_us: false, detail: detail.into() }
    }
}

/// An input that was not taken: the machine has no room, does not exist or has stopped. The caller answers
/// `Refused(Busy)` and may try again.
#[derive(Debug)]
pub struct Busy<T>(pub T);

/// What a failed connection attempt or an accepted stranger looked like, for logs and the host's decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The member that was called, if this side called one.
    pub peer: Option<NodeId>,
    /// The SYN code.
    pub code: u16,
    /// The full sentence.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_its_own_code_and_comes_back_from_it() {
        for (at, refusal) in (2_101..).zip(Refusal::ALL) {
            assert_eq!(refusal.code(), at);
            assert_eq!(Refusal::from_code(at), Some(refusal));
        }
        assert_eq!(Refusal::from_code(2_110), None);
    }

    #[test]
    fn an_error_says_its_code_and_who_refused() {
        let error = Error::refuse(Refusal::WrongCluster, "theirs ab, mine cd");
        assert_eq!(error.code(), 2_101);
        assert_eq!(error.to_string(), "SYN-2101 wrong_cluster: refused by this side: theirs ab, mine cd");
        assert!(Error::refused_by_peer(Refusal::OldEpoch, "").to_string().contains("the peer"));
    }
}
