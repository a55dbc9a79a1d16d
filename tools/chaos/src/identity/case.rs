//! The cases and their names.

/// One kind of bad identity, in the order of testing.md N1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// A key that no genesis names.
    UnknownKey,
    /// A member's key without its private part, in TLS and in the Hello of another key's session.
    StolenKey,
    /// An X.509 certificate that a member's key signed for itself.
    SelfSigned,
    /// An X.509 certificate for a member's key that an authority signed.
    CaSigned,
    /// No key at all.
    NoKey,
    /// A member's key over TLS 1.2.
    Tls12,
    /// A member as a guest, a member at the guests' listener, a guest at the members' listener.
    SwappedRoles,
    /// The key of somebody who is no member any more.
    RemovedMember,
    /// A member's key in another epoch.
    OldEpoch,
    /// A member's key while another process uses it.
    SecondConnection,
    /// The node's own bytes, and its own Hello, sent back to it.
    Reflection,
    /// A session ticket of another server in place of a key.
    StaleTicket,
    /// Early data under such a ticket.
    EarlyData,
    /// No TLS.
    Plaintext,
}

impl Case {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::UnknownKey,
        Self::StolenKey,
        Self::SelfSigned,
        Self::CaSigned,
        Self::NoKey,
        Self::Tls12,
        Self::SwappedRoles,
        Self::RemovedMember,
        Self::OldEpoch,
        Self::SecondConnection,
        Self::Reflection,
        Self::StaleTicket,
        Self::EarlyData,
        Self::Plaintext,
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownKey => "unknown_key",
            Self::StolenKey => "key_without_private_part",
            Self::SelfSigned => "self_signed_certificate",
            Self::CaSigned => "ca_signed_certificate",
            Self::NoKey => "no_client_key",
            Self::Tls12 => "tls_1_2",
            Self::SwappedRoles => "swapped_roles",
            Self::RemovedMember => "removed_member",
            Self::OldEpoch => "old_epoch_key",
            Self::SecondConnection => "second_live_connection",
            Self::Reflection => "reflection",
            Self::StaleTicket => "stale_ticket",
            Self::EarlyData => "early_data",
            Self::Plaintext => "plaintext",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Case;

    #[test]
    fn there_are_fourteen_cases_with_names_of_their_own() {
        let names: BTreeSet<&str> = Case::ALL.iter().map(|case| case.name()).collect();
        assert_eq!(names.len(), 14);
    }
}
