//! Many orders of one request: whoever sent them waits once, for all, and is told of each in its place.
//!
//! *Bounds.* A group has [`GROUP_MAX`] results at most, of about 100 bytes each, as long as somebody has it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use synod_astro::Level;
use synod_crypto::Hash;
use synod_ledger::EntryId;
use tokio::sync::oneshot;

use super::words::{Asked, Transfer};

/// Most orders of one request.
pub const GROUP_MAX: usize = 8_189;

/// What became of one order of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paid {
    /// The place of its entry in the payer's log.
    pub place: EntryId,
    /// The entry's digest.
    pub digest: Hash,
    /// How sure it is.
    pub level: Level,
    /// How many entries had settled here with it; 0 before it settled here.
    pub position: u64,
}

impl From<&Transfer> for Paid {
    fn from(transfer: &Transfer) -> Self {
        let Transfer { digest, level, position, .. } = *transfer;
        Self { place: transfer.place(), digest, level, position }
    }
}

struct Gathered<T> {
    results: Vec<Option<Asked<T>>>,
    left: usize,
    done: Option<oneshot::Sender<()>>,
}

/// The results of a request, as they come.
pub(super) struct Group<T>(Mutex<Gathered<T>>);

/// What whoever sent the request holds: without it nobody waits for what is left.
pub struct Gathering<T> {
    group: Arc<Group<T>>,
    done: oneshot::Receiver<()>,
}

impl<T> Group<T> {
    /// A group of so many orders, of which nothing is known.
    pub(super) fn new(orders: usize) -> (Arc<Self>, Gathering<T>) {
        let (sender, done) = oneshot::channel();
        let results = std::iter::repeat_with(|| None).take(orders).collect();
        let sender = (orders > 0).then_some(sender);
        let group = Arc::new(Self(Mutex::new(Gathered { results, left: orders, done: sender })));
        (Arc::clone(&group), Gathering { group, done })
    }

    fn gathered(&self) -> MutexGuard<'_, Gathered<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What became of the order in this place; the first word stands.
    pub(super) fn tell(&self, at: usize, result: Asked<T>) {
        let mut gathered = self.gathered();
        let Some(place) = gathered.results.get_mut(at).filter(|place| place.is_none()) else { return };
        *place = Some(result);
        gathered.left -= 1;
        if gathered.left == 0
            && let Some(done) = gathered.done.take()
        {
            // Who asked may have gone.
            let _ = done.send(());
        }
    }

    /// Whether nobody waits any more.
    pub(super) fn is_closed(&self) -> bool {
        self.gathered().done.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

impl<T> Gathering<T> {
    /// Waits until there is a result in every place.
    pub async fn done(&mut self) {
        // A group that was let go of tells no more.
        let _ = (&mut self.done).await;
    }

    /// The results so far; `None` where none has come. Nobody waits for those any more.
    #[must_use]
    pub fn results(self) -> Vec<Option<Asked<T>>> {
        std::mem::take(&mut self.group.gathered().results)
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::Denied;
    use super::*;

    #[test]
    fn a_group_is_done_when_each_place_has_its_result() {
        let (group, mut gathering) = Group::new(2);
        group.tell(1, Ok('b'));
        assert!(gathering.done.try_recv().is_err() && !group.is_closed());
        group.tell(1, Err(Denied::Busy(1)));
        assert!(gathering.done.try_recv().is_err(), "a place is told once");
        group.tell(0, Err(Denied::Busy(2)));
        assert!(gathering.done.try_recv().is_ok() && group.is_closed());
        assert_eq!(gathering.results(), [Some(Err(Denied::Busy(2))), Some(Ok('b'))]);
    }

    #[test]
    fn a_group_that_nobody_waits_for_is_closed_and_one_of_nothing_is_done() {
        let (group, gathering) = Group::<char>::new(1);
        assert!(!group.is_closed());
        assert_eq!(gathering.results(), [None]);
        assert!(group.is_closed());
        group.tell(0, Ok('a'));
        let (group, mut gathering) = Group::<char>::new(0);
        assert!(group.is_closed() && gathering.done.try_recv().is_err());
        assert_eq!(gathering.results(), []);
    }
}
