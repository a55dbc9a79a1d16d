//! What a peer can do wrong.

synod_machine::faults! {
    /// Voted without being a member.
    Stranger = 4_601, "stranger";
    /// Proposed two payloads for one slot.
    TwoPayloads = 4_602, "two_payloads";
    /// Proposed in another's slot, or in slot 0.
    NotItsSlot = 4_603, "not_its_slot";
    /// Echoed two digests in one slot.
    TwoEchoes = 4_604, "two_echoes";
    /// Was ready for two digests in one slot.
    TwoReadies = 4_605, "two_readies";
    /// Sent a payload that is not that of the digest it was asked for.
    WrongPayload = 4_606, "wrong_payload";
    /// Sent a payload longer than agreed.
    TooLong = 4_607, "too_long";
    /// Sent a signature that is not its signer's.
    BadSignature = 4_608, "bad_signature";
    /// Sent a certificate that proves nothing.
    BadCertificate = 4_609, "bad_certificate";
    /// Sent a certificate of another shard or view.
    OtherView = 4_610, "other_view";
    /// Excepted items in a way that the payload does not allow.
    BadExceptions = 4_611, "bad_exceptions";
}
