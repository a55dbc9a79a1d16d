//! What a server tells of its deliveries: how many messages this process delivered, and which heights it did not deliver, because
//! a state stands for them.

use crate::bench::pages::Page;
use serde_json::{Value, json};
use synod_config::{Address, SynError, code};
use synod_load::chop::broker::Books;

/// The name of the own checkpoint among the states.
const OWN: &str = "own";

/// Heights that a state stands for: those above `from`, up to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Whether the state is the own checkpoint that the process began with; else it was certified by others.
    pub(super) own: bool,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Taken {
    pub(super) fn to_json(self) -> Value {
        let of = if self.own { "own checkpoint" } else { "certified state of others" };
        json!({ "state": of, "delivered_before": self.from, "height": self.to })
    }
}

/// What a server counted since its process started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Batches delivered, genesis included, those that a state stands for among them.
    pub(super) height: u64,
    /// Messages of batches that this process delivered, exceptions included.
    pub(super) messages: u64,
    pub(super) exceptions: u64,
    /// The states it took, in their order.
    pub(super) taken: Vec<Taken>,
    /// States of others that it took and does not tell any more.
    pub(super) untold: u64,
}

impl Told {
    /// Asks a server.
    ///
    /// # Errors
    /// SYN-2003 for a server that does not tell: what is not counted is not audited.
    pub(super) fn ask(metrics: &Address) -> Result<Self, SynError> {
        let silent = |why: &str| {
            let address = metrics.to_string();
            SynError::of(code::NO_ANSWER, &[("address", &*address), ("stage", "audit")]).because(why)
        };
        let page = Page::fetch(metrics).ok_or_else(|| silent("it shows no metrics"))?;
        Self::of(&page).ok_or_else(|| silent("its metrics do not say how many messages it delivered"))
    }

    /// What a page says; nothing if it lacks a count.
    pub(super) fn of(page: &Page) -> Option<Self> {
        let number = |name: &str| whole(page.sum(name)?);
        let from = page.by("synod_server_state_from_height", "state");
        let to = page.by("synod_server_state_height", "state");
        let mut taken = Vec::new();
        // The own one came first; words of one digit are in their order.
        let of_others = from.keys().map(String::as_str).filter(|state| *state != OWN);
        for state in from.contains_key(OWN).then_some(OWN).into_iter().chain(of_others) {
            let (from, to) = (whole(*from.get(state)?)?, whole(*to.get(state)?)?);
            taken.push(Taken { own: state == OWN, from, to });
        }
        let told = u64::try_from(taken.iter().filter(|state| !state.own).count()).ok()?;
        Some(Self {
            height: number("synod_server_delivered_height")?,
            messages: number("synod_server_messages_total")?,
            exceptions: number("synod_server_exceptions_total")?,
            untold: number("synod_server_states_total")?.checked_sub(told)?,
            taken,
        })
    }

    /// States of others that it took since its process started.
    pub(super) fn states(&self) -> u64 {
        self.taken.iter().filter(|state| !state.own).fold(self.untold, |all, _| all + 1)
    }

    /// Messages that are in the state of this server without having been delivered by this process, as far as that is proved:
    /// of a state whose height is not above `proven`, that of a checkpoint whose root all servers share, the messages at the
    /// heights it counts above those that were delivered here before. A state above it, one that goes back behind another, and
    /// all of them if some are not told, prove nothing.
    pub(super) fn taken_messages(&self, books: &Books, proven: u64) -> u64 {
        if self.untold > 0 {
            return 0;
        }
        let (mut messages, mut reached) = (0, 1);
        for state in &self.taken {
            if state.from < reached || state.to > proven {
                continue;
            }
            messages += books.delivered_within(state.from, state.to);
            reached = state.to.max(reached);
        }
        messages
    }
}

fn whole(value: f64) -> Option<u64> {
    format!("{value:.0}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Taken, Told};
    use crate::bench::pages::Page;
    use std::time::Instant;
    use synod_config::{Address, code};
    use synod_load::chop::broker::Books;

    const COUNTS: &str = "synod_server_delivered_height 30\nsynod_server_messages_total 300\n\
        synod_server_exceptions_total 1\n";

    fn told(more: &str) -> Option<Told> {
        Told::of(&Page::parse(&format!("{COUNTS}{more}"), Instant::now()))
    }

    #[test]
    fn states_are_read_in_the_order_in_which_they_were_taken() {
        let plain = told("synod_server_states_total 0\n").expect("it tells all");
        assert_eq!((plain.height, plain.messages, plain.exceptions, plain.untold), (30, 300, 1, 0));
        assert!(plain.taken.is_empty());
        let series = |state, from, to| {
            format!(
                "synod_server_state_from_height{{state=\"{state}\"}} {from}\n\
                 synod_server_state_height{{state=\"{state}\"}} {to}\n"
            )
        };
        let all = [series("1", 12, 20), series("2", 25, 29), series("own", 1, 9)].concat();
        let taken = |own, from, to| Taken { own, from, to };
        let read = told(&format!("{all}synod_server_states_total 3\n")).expect("it tells all");
        assert_eq!(read.taken, [taken(true, 1, 9), taken(false, 12, 20), taken(false, 25, 29)]);
        assert_eq!(read.untold, 1);
    }

    #[test]
    fn a_server_that_tells_no_count_is_no_server_that_counted_right() {
        assert_eq!(told(""), None, "no count of states");
        assert_eq!(Told::of(&Page::parse("synod_server_states_total 0\n", Instant::now())), None);
        let half = "synod_server_states_total 1\nsynod_server_state_from_height{state=\"1\"} 3\n";
        assert_eq!(told(half), None, "a state without its height");
        let nobody = Address::parse("127.0.0.1:1").expect("an address");
        assert_eq!(Told::ask(&nobody).map_err(|error| error.code()), Err(code::NO_ANSWER));
    }

    #[test]
    fn a_state_stands_for_no_message_beyond_what_is_proved() {
        let books = (2..=10).fold(Books::new(10), |books, height| books.with(height, 10));
        let messages = |taken: &[(u64, u64)], untold| {
            let taken = taken.iter().map(|(from, to)| Taken { own: false, from: *from, to: *to }).collect();
            Told { taken, untold, ..Told::default() }.taken_messages(&books, 8)
        };
        assert_eq!([messages(&[], 0), messages(&[(3, 8)], 0), messages(&[(1, 3), (5, 7)], 0)], [0, 50, 40]);
        assert_eq!(messages(&[(3, 9)], 0), 0, "above the checkpoint that all share");
        assert_eq!(messages(&[(3, 8), (5, 7)], 0), 50, "no height counts twice");
        assert_eq!(messages(&[(6, 3)], 0), 0, "backwards");
        assert_eq!(messages(&[(3, 8)], 1), 0, "some are not told");
    }
}
