//! Stopping a node for good while one of its threads is in the middle of a turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Fatal, NodeBuilder};

/// Stops a node for good: frames of the turn under way and records not yet handed to the journal are dropped, and
/// nothing leaves after it. It may be pulled from any thread, the node's own observer included; its copies are one brake.
///
/// A node that failed to write its journal pulls it itself. [`Node::stop`](crate::Node::stop) still joins the threads.
#[derive(Clone, Debug, Default)]
pub struct Brake(Arc<AtomicBool>);

impl Brake {
    /// Stops the node; whether this was the first call.
    pub fn pull(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Whether the node has to stop, or stopped.
    #[must_use]
    pub fn is_pulled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl NodeBuilder {
    /// Says how the process ends when a journal fails.
    #[must_use]
    pub fn fatal(mut self, fatal: Fatal) -> Self {
        self.fatal = fatal;
        self
    }

    /// Stops the node when it is pulled.
    #[must_use]
    pub fn brake(mut self, brake: Brake) -> Self {
        self.brake = brake;
        self
    }
}
