//! What a peer can do wrong.

synod_machine::faults! {
    /// Signed two messages for one number; the evidence is both, for anybody to check.
    Equivocation = 4_201, "equivocation";
    /// Wrote what its broadcaster never signed into a register, or broke the rules of writing.
    RegisterAbuse = 4_202, "register_abuse";
    /// A number at or beyond 2^62, or zero, or a body that is too long.
    Malformed = 4_203, "malformed";
    /// A signature that is not the signer's.
    BadSignature = 4_204, "bad_signature";
    /// Spoke where it has no say: of a broadcast that it does not take part in.
    NoReceiver = 4_205, "no_receiver";
}
