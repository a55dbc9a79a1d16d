//! Telling listeners to stop, and connections to finish what they owe.

use tokio::sync::watch;

/// Says stop. Dropping it says so too, so that no listener outlives its owner.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Hears it. Cheap to clone; one per task.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

impl Stopper {
    /// A stopper with the first of its listeners' ends.
    #[must_use]
    pub fn new() -> (Self, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Stop(receiver))
    }

    /// Says stop; a second time changes nothing.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Returns once stop was said.
    pub async fn stopped(mut self) {
        // An error means that the stopper was dropped.
        let _heard = self.0.wait_for(|stop| *stop).await;
    }

    /// Whether stop was said.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_clone_hears_a_stop_and_a_dropped_stopper() {
        let (stopper, stop) = Stopper::new();
        let other = stop.clone();
        assert!(!stop.is_stopped());
        stopper.stop();
        assert!(other.is_stopped());
        other.stopped().await;

        let (stopper, stop) = Stopper::new();
        drop(stopper);
        assert!(stop.is_stopped());
        stop.stopped().await;
    }
}
