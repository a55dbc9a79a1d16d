//! Every bound of the store in one place, with what happens at it.

/// Longest key, in bytes; a longer one is refused with SYN-3002.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// Longest string value, member, field or element, in bytes; a longer one is refused with SYN-3002.
pub const VALUE_BYTES_MAX: usize = 512 << 10;

/// Most arguments of one command, its name included; more are malformed.
pub const ARGUMENTS_MAX: usize = 1_024;

/// Most commands of one transaction; more are malformed.
pub const COMMANDS_MAX: usize = 1_024;

/// Most watched keys of one transaction; more are malformed.
pub const WATCHED_MAX: usize = 1_024;

/// Longest operation, in bytes: a client frame of 768 KiB less 1 KiB for the frame's own fields.
pub const OPERATION_BYTES_MAX: usize = (768 << 10) - 1_024;

/// Longest reply to one command, in bytes; a command whose reply would be longer is refused with SYN-3002 and
/// changes nothing. With what a transaction may add, it fits the body in which a node answers a frame.
pub const REPLY_BYTES_MAX: usize = 2 << 20;

/// Bytes that the error text of one command may add to the reply of a transaction that is full.
const ERROR_BYTES_MAX: usize = 256;

/// Largest encoding of one key with its value, in bytes; an element that would pass it is refused with SYN-3002.
pub const ENTRY_BYTES_MAX: u64 = 64 << 20;

/// Most keys looked at by one SCAN or range question.
pub const SCAN_MAX: usize = 1_024;

/// Most steps of matching keys with the pattern of one SCAN, a byte of the pattern each. A page ends early at it; a SCAN
/// whose first key alone takes more is refused with SYN-3002.
pub(crate) const MATCH_STEPS_MAX: u64 = 1 << 20;

/// Size of a full chunk of the state, in bytes; the last chunk of a leaf is shorter.
pub const CHUNK_BYTES: usize = 64 << 10;

const _: () = assert!(VALUE_BYTES_MAX < OPERATION_BYTES_MAX);
const _: () = assert!(KEY_BYTES_MAX <= VALUE_BYTES_MAX);
const _: () = assert!(VALUE_BYTES_MAX < REPLY_BYTES_MAX);
const _: () =
    assert!(REPLY_BYTES_MAX + VALUE_BYTES_MAX + COMMANDS_MAX * ERROR_BYTES_MAX < synod_service::BODY_MAX);
const _: () = assert!(OPERATION_BYTES_MAX < synod_service::COMMANDS_BYTES_MAX);
const _: () = assert!(CHUNK_BYTES == synod_service::CHUNK_MAX);
