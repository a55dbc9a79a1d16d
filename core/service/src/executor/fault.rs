//! What a peer of the service can do wrong.

use synod_machine::{Fault, host};
use synod_wire::Bytes;

/// A rule that a guest or member broke, with the bytes that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceFault {
    /// A client sent bytes that are no item.
    UndecodableItem(Bytes),
    /// A client sent an item whose signature is not its session's.
    ForgedItem(Bytes),
    /// A member proposed an item that no client signed, or that is no item. It may have it from another member in good
    /// faith, so this proves nothing.
    SuspectedForgery(Bytes),
    /// A member sent a part of a snapshot that the certified root does not contain.
    WrongStateChunk(Bytes),
    /// A client was refused more than 100 times in a minute: the runtime cuts its connection.
    RefusedTooOften,
    /// A message that this role never gets.
    OutOfRole,
    /// A member's result differs from what a weak quorum says.
    ContradictedResult(Bytes),
    /// A member gave two results for one frame.
    EquivocatedResult(Bytes),
}

/// Longest evidence kept of one fault.
const EVIDENCE_MAX: usize = 4_096;

impl From<ServiceFault> for Fault {
    fn from(fault: ServiceFault) -> Self {
        let (code, name, evidence) = match fault {
            ServiceFault::UndecodableItem(bytes) => (4_701, "undecodable_item", bytes),
            ServiceFault::ForgedItem(bytes) => (4_702, "forged_item", bytes),
            ServiceFault::SuspectedForgery(bytes) => (4_703, "suspected_forgery", bytes),
            ServiceFault::WrongStateChunk(bytes) => (4_704, "wrong_state_chunk", bytes),
            ServiceFault::RefusedTooOften => (host::QUOTA_EXCEEDED, "quota_exceeded", Bytes::new()),
            ServiceFault::OutOfRole => (4_705, "out_of_role", Bytes::new()),
            ServiceFault::ContradictedResult(bytes) => (4_706, "contradicted_result", bytes),
            ServiceFault::EquivocatedResult(bytes) => (4_707, "equivocated_result", bytes),
        };
        Self { code, name, evidence: evidence.slice(..evidence.len().min(EVIDENCE_MAX)) }
    }
}
