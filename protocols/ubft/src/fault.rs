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
    /// A message that may not be there in its stream.
    InvalidStream = 4_206, "invalid_stream";
    /// A share that is not its signer's.
    BadShare = 4_207, "bad_share";
    /// A certificate that proves nothing.
    BadCertificate = 4_208, "bad_certificate";
    /// Content that is not of the digest that was asked for.
    BadContent = 4_209, "bad_content";
    /// A result that f + 1 others contradict.
    WrongReply = 4_210, "wrong_reply";
}
