//! Range 40: faults of a peer that the runtime itself finds. They appear in logs, metrics and evidence only;
//! no verb ends with one. Each protocol owns its own list (41 to 46) and states it with [`peer_fault`].

use super::{Code, Entry, Retry};
use crate::exits::Exit;

const FIX: &str =
    "the peer is at fault: read its evidence with `synod node inspect evidence`, then repair or replace it";

/// The row of a peer's fault: it ends no verb, answers no request, and a repetition is the peer's own matter.
#[must_use]
pub const fn peer_fault(
    code: u16,
    name: &'static str,
    message: &'static str,
    causes: &'static [&'static str],
) -> Entry {
    let retry = Retry::Permanent;
    Entry { code: Code::new(code), name, message, causes, fix: FIX, retry, exit: Exit::Failure, http: None }
}

/// undecodable_frame: a frame does not decode.
pub const UNDECODABLE_FRAME: Code = Code::new(4001);
/// frame_too_large: a frame is longer than the cap of its queue.
pub const FRAME_TOO_LARGE: Code = Code::new(4002);
/// unknown_machine: a frame names a machine or a queue that this node does not host.
pub const UNKNOWN_MACHINE: Code = Code::new(4003);
/// reserved_flags: a frame sets flags that must be zero.
pub const RESERVED_FLAGS: Code = Code::new(4004);
/// foreign_version: a body has a version outside the range agreed in the hello.
pub const FOREIGN_VERSION: Code = Code::new(4005);
/// quota_exceeded: a peer sends more frames, bytes or jobs than its quota.
pub const QUOTA_EXCEEDED: Code = Code::new(4006);

pub(super) const FAULTS: &[Entry] = &[
    peer_fault(
        UNDECODABLE_FRAME.number(),
        "undecodable_frame",
        "{peer} sent a frame that does not decode at byte {at}: {why}",
        &["the peer runs a broken or hostile program"],
    ),
    peer_fault(
        FRAME_TOO_LARGE.number(),
        "frame_too_large",
        "{peer} announced a frame of {size} bytes; its queue takes {limit}",
        &["the peer runs a broken or hostile program", "limits.frame_max differs between the nodes"],
    ),
    peer_fault(
        UNKNOWN_MACHINE.number(),
        "unknown_machine",
        "{peer} sent a frame for machine {machine}, queue {queue}, which is not hosted here",
        &["the peer hosts another plan than its hello said"],
    ),
    peer_fault(
        RESERVED_FLAGS.number(),
        "reserved_flags",
        "{peer} set reserved flags in a frame",
        &["the peer runs a broken or hostile program"],
    ),
    peer_fault(
        FOREIGN_VERSION.number(),
        "foreign_version",
        "{peer} sent a body of version {version}, outside the agreed range",
        &["the peer was upgraded without a new hello"],
    ),
    peer_fault(
        QUOTA_EXCEEDED.number(),
        "quota_exceeded",
        "{peer} exceeded its quota of {what}",
        &["the peer floods this node", "the peer sends again without waiting"],
    ),
];
