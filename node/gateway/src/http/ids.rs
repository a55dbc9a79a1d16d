//! Request ids that clients give: one execution per id in the life of the process.
//!
//! At most [`IDS_MAX`] ids are kept; the oldest that is answered goes first. When all are in flight a new one is
//! refused with SYN-3402, since forgetting one would allow a second execution.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use synod_config::{Retry, SynError, code, explain};
use synod_crypto::Hash;
use tokio::sync::watch;

use crate::{
    http::ask::{Ask, Told},
    problem::Problem,
    shared::Shared,
};

/// Most ids kept.
const IDS_MAX: usize = 4_096;

type Outcome = Result<Told, Problem>;

#[derive(Debug)]
struct Entry {
    /// Of the operation, to tell a repetition from another request.
    digest: Hash,
    outcome: watch::Receiver<Option<Outcome>>,
}

/// The ids given so far.
#[derive(Debug, Default)]
pub(super) struct Ids(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    entries: BTreeMap<String, Entry>,
    /// Oldest first.
    order: VecDeque<String>,
}

/// What an id means now.
enum Found {
    /// It is new; the outcome goes to the sender.
    New(watch::Sender<Option<Outcome>>),
    /// It was given before.
    Known(watch::Receiver<Option<Outcome>>),
}

impl Ids {
    /// Performs `ask` under `id`, or waits for what became of it before. The operation goes on when the request
    /// that brought it ends early, so that a repetition finds its outcome.
    pub(super) async fn perform(self: &Arc<Self>, id: String, ask: Ask, shared: &Shared) -> Outcome {
        let mut outcome = match self.find(&id, Hash::of(&ask.operation))? {
            Found::Known(outcome) => outcome,
            Found::New(sender) => {
                let receiver = sender.subscribe();
                let (ids, shared) = (Arc::clone(self), shared.clone());
                tokio::spawn(async move {
                    let outcome = ask.perform(&shared).await;
                    if outcome.as_ref().is_err_and(does_not_bind) {
                        ids.forget(&id);
                    }
                    sender.send_replace(Some(outcome));
                });
                receiver
            }
        };
        let known = outcome.wait_for(Option::is_some).await.map(|known| known.clone());
        let lost = || Err(SynError::of(code::CONNECTION_LOST, &[("id", "the request")]).into());
        known.ok().flatten().unwrap_or_else(lost)
    }

    fn find(&self, id: &str, digest: Hash) -> Result<Found, Problem> {
        let mut table = self.lock();
        if let Some(entry) = table.entries.get(id) {
            if entry.digest != digest {
                return Err(SynError::of(code::ID_REUSED, &[("id", id)]).into());
            }
            return Ok(Found::Known(entry.outcome.clone()));
        }
        if table.entries.len() >= IDS_MAX && !table.forget_oldest() {
            let busy = SynError::of(code::BUSY, &[("retry_ms", "1000")]);
            return Err(Problem::from(busy).after_ms(1_000));
        }
        let (sender, outcome) = watch::channel(None);
        table.entries.insert(id.to_owned(), Entry { digest, outcome });
        table.order.push_back(id.to_owned());
        assert_eq!(table.entries.len(), table.order.len(), "each id stands once in the order");
        Ok(Found::New(sender))
    }

    fn forget(&self, id: &str) {
        let mut table = self.lock();
        table.entries.remove(id);
        table.order.retain(|other| other != id);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Forgets the oldest id that is answered; false when none is.
    fn forget_oldest(&mut self) -> bool {
        let answered =
            |id: &String| self.entries.get(id).is_none_or(|entry| entry.outcome.borrow().is_some());
        let Some(at) = self.order.iter().position(answered) else { return false };
        let Some(id) = self.order.remove(at) else { return false };
        self.entries.remove(&id);
        true
    }
}

/// Whether a refusal leaves the id free: the same bytes may succeed later.
fn does_not_bind(problem: &Problem) -> bool {
    explain(problem.code()).is_some_and(|entry| entry.retry == Retry::Temporary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use synod_kv::Reply;

    fn ids_with(count: usize, answered: bool) -> (Ids, Vec<watch::Sender<Option<Outcome>>>) {
        let ids = Ids::default();
        let mut senders = Vec::new();
        for number in 0..count {
            let Ok(Found::New(sender)) = ids.find(&format!("id-{number}"), Hash::ZERO) else {
                panic!("id {number} is new");
            };
            if answered {
                let reply = Reply::Simple(Bytes::from_static(b"OK"));
                sender.send_replace(Some(Ok(Told { reply, position: 1 })));
            }
            senders.push(sender);
        }
        (ids, senders)
    }

    #[test]
    fn an_id_names_one_operation() {
        let (ids, _senders) = ids_with(1, false);
        assert!(matches!(ids.find("id-0", Hash::ZERO), Ok(Found::Known(_))));
        let other = ids.find("id-0", Hash::of(b"other")).map(|_| ()).map_err(|problem| problem.code());
        assert_eq!(other, Err(code::ID_REUSED));
    }

    #[test]
    fn the_oldest_answered_id_makes_room_and_ids_in_flight_do_not() {
        let (ids, _senders) = ids_with(IDS_MAX, true);
        assert!(matches!(ids.find("new", Hash::ZERO), Ok(Found::New(_))));
        assert!(matches!(ids.find("id-0", Hash::ZERO), Ok(Found::New(_))), "it was the oldest");
        assert!(matches!(ids.find("id-2", Hash::ZERO), Ok(Found::Known(_))));
        let (ids, _senders) = ids_with(IDS_MAX, false);
        let full = ids.find("new", Hash::ZERO).map(|_| ()).map_err(|problem| problem.code());
        assert_eq!(full, Err(code::BUSY));
    }
}
