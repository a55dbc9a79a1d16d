//! What a peer can do wrong.

synod_machine::faults! {
    /// Spoke without being a member.
    Stranger = 4_301, "stranger";
    /// Broadcast a batch for another slot, lane or shard.
    WrongSlot = 4_302, "wrong_slot";
    /// Broadcast a batch that does not name the one before it.
    BrokenChain = 4_303, "broken_chain";
    /// Opened accounts that are not its to open, or out of order, or beyond its cap.
    BadOpening = 4_304, "bad_opening";
    /// Sent a receipt that it did not sign, or that is not its own.
    BadReceipt = 4_305, "bad_receipt";
    /// Sent an entry that is not the one it was asked for.
    WrongEntry = 4_306, "wrong_entry";
    /// Proposed a cut that is none, or out of turn, or signed for another, or showed one whose parts are not of each other.
    WrongCut = 4_307, "wrong_cut";
    /// Signed two states behind one cut.
    TwoRoots = 4_308, "two_roots";
    /// Served a part of a state that is none.
    WrongRange = 4_309, "wrong_range";
    /// Sent a word on owners' signatures that it did not sign, or that nobody asks for.
    BadWitness = 4_310, "bad_witness";
    /// Signed of owners' signatures what is not so.
    FalseWitness = 4_311, "false_witness";
    /// Asked an owner to sign a tree that does not show what it signed alone.
    BadTree = 4_312, "bad_tree";
    /// Vouched for payments where nobody does, in another's name, or with a signature that is not good.
    BadCredit = 4_332, "bad_credit";
    /// Sent entries of a shard with a proof that is none.
    BadBundle = 4_340, "bad_bundle";
    /// Broadcast a batch that imports what cannot be credited.
    BadImport = 4_341, "bad_import";
}
