//! The server beside the adapter.

use synod_wire::Bytes;

use crate::resp::Reply;

/// A Redis server that nobody else speaks to. It has neither a memory limit nor a policy of eviction, knows no script and no
/// module, and writes nothing that it would read at a start: its state is what the adapter put there.
///
/// Errors of the world end the process inside the implementation: a server that does not answer has no state to go on with.
pub trait Server: Send {
    /// Sends commands in one go; one reply for each, in order.
    fn ask(&self, commands: &[Vec<Bytes>]) -> Vec<Reply>;
}
