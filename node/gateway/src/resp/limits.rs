//! The hard limits of a connection.

use synod_kv::{ARGUMENTS_MAX, OPERATION_BYTES_MAX, VALUE_BYTES_MAX};

/// What a client may send and how much is kept for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most elements of one command, its name included.
    pub arguments_max: usize,
    /// Longest bulk string, in bytes.
    pub bulk_bytes_max: usize,
    /// Longest command, in bytes as received: it must fit one client frame.
    pub request_bytes_max: usize,
    /// Longest inline command, in bytes.
    pub inline_bytes_max: usize,
    /// Most elements of a command before AUTH.
    pub unauthenticated_arguments_max: usize,
    /// Longest bulk string before AUTH, in bytes.
    pub unauthenticated_bulk_bytes_max: usize,
    /// Most commands without a sent reply; beyond it no more input is taken.
    pub pipeline_max: usize,
    /// Bytes of unsent replies beyond which no more input is taken.
    pub output_bytes_max: usize,
    /// Longest time for one command to arrive, in ms.
    pub command_ms_max: u64,
    /// Longest time that unsent replies may stay beyond `output_bytes_max`, in ms.
    pub output_ms_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            arguments_max: ARGUMENTS_MAX,
            bulk_bytes_max: VALUE_BYTES_MAX,
            // The store's encoding of a command is never longer than RESP's.
            request_bytes_max: OPERATION_BYTES_MAX,
            inline_bytes_max: 64 << 10,
            unauthenticated_arguments_max: 10,
            unauthenticated_bulk_bytes_max: 16 << 10,
            pipeline_max: 1_024,
            output_bytes_max: 1 << 20,
            command_ms_max: 10_000,
            output_ms_max: 5_000,
        }
    }
}
