//! The checker of a run whose view changes: views in which anybody goes on are one sequence, whoever stopped signs and settles nothing
//! until it goes on, and what settles is one entry per place, whatever the view (A-S1, A-S2, A-S9, A-S10).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use synod_astro::member::{Message, Output};
use synod_astro::views::View;
use synod_broadcast::signed;
use synod_crypto::Hash;
use synod_ledger::{AccountId, Entry, EntryId};
use synod_machine::{Message as _, Time};
use synod_sim::{Checker, Deed, Moment, Seen, Violation};
use synod_wire::{Bytes, Limits, Wire};

use crate::oracle::{Verdict, breach};
use crate::systems::astro::book::Shared;

/// What members say.
pub type Spoken = Message<signed::Message>;

const LIMITS: Limits = Limits { frame_max: 16 << 20 };

/// Decodes a frame body.
#[must_use]
pub fn spoken(body: &Bytes) -> Option<Spoken> {
    let own = body.first() == Some(&Spoken::VERSION);
    own.then(|| Spoken::decode(body.slice(1..), &LIMITS).ok()).flatten()
}

/// What is known of a run.
pub struct Judge {
    book: Shared,
    liars: BTreeSet<u32>,
    /// What settled anywhere.
    pub settled: BTreeMap<EntryId, (Entry, Hash)>,
    /// What settled at each member.
    pub at: BTreeMap<u32, BTreeSet<EntryId>>,
    /// In which view each member goes on, while it does.
    pub running: BTreeMap<u32, View>,
    /// Members that promise nothing, with the number of the view in which they stopped.
    stopped: BTreeMap<u32, u32>,
    /// Members that have no way into a view.
    pub too_far: BTreeSet<u32>,
    /// Every view in which somebody goes on.
    resumed: BTreeSet<View>,
    /// Where each order settled.
    named: BTreeMap<(AccountId, u128), BTreeSet<EntryId>>,
}

impl Judge {
    /// Of a run that nothing has happened in.
    #[must_use]
    pub fn new(book: Shared) -> Self {
        Self {
            book,
            liars: BTreeSet::new(),
            settled: BTreeMap::new(),
            at: BTreeMap::new(),
            running: BTreeMap::new(),
            stopped: BTreeMap::new(),
            too_far: BTreeSet::new(),
            resumed: BTreeSet::new(),
            named: BTreeMap::new(),
        }
    }

    fn told(&mut self, node: u32, output: &Output) -> Verdict {
        match output {
            Output::Pay(output) => self.paid(node, output),
            Output::Stopped(view) => {
                self.running.remove(&node);
                self.stopped.insert(node, view.number);
                Ok(())
            }
            Output::Resumed(roll) => self.goes_on(node, roll.view()),
            Output::TooFar(_) => {
                self.too_far.insert(node);
                Ok(())
            }
            Output::Contradiction { .. } => {
                breach("A-S9", format!("lists that are no sequence are shown to member {node}"))
            }
            Output::Confirmed(_) | Output::Left(_) | Output::Refused { .. } => Ok(()),
        }
    }

    /// A-S9: views are one sequence, and no member goes back.
    fn goes_on(&mut self, node: u32, view: &View) -> Verdict {
        self.stopped.remove(&node);
        self.running.insert(node, view.clone());
        self.resumed.insert(view.clone());
        let apart = self.resumed.iter().find(|other| !other.within(view) && !view.within(other));
        match apart {
            Some(other) => breach(
                "A-S9",
                format!("member {node} goes on in view {:?} beside view {:?}", view.id(), other.id()),
            ),
            None => Ok(()),
        }
    }

    fn paid(&mut self, node: u32, output: &synod_astro::Output) -> Verdict {
        use synod_astro::Output as Told;
        match output {
            Told::Settled { entries, .. } => {
                entries.iter().try_for_each(|(entry, digest)| self.settles(node, entry, *digest))
            }
            Told::Rejected { entry, .. } => breach("A-S2", format!("{:?} is rejected", entry.id)),
            Told::Contradiction { id, .. } => {
                breach("A-S1", format!("certificates contradict each other at {id:?}"))
            }
            Told::TwoBatches { lane, .. } if !self.liars.contains(&lane.0) => {
                breach("X6", format!("member {} is shown with two batches", lane.0))
            }
            _ => Ok(()),
        }
    }

    fn settles(&mut self, node: u32, entry: &Entry, digest: Hash) -> Verdict {
        let id = entry.id;
        let is_new = self.at.entry(node).or_default().insert(id);
        if let Some(view) = self.stopped.get(&node).filter(|_| is_new) {
            return breach("A-S9", format!("{id:?} settles at member {node}, which stopped in view {view}"));
        }
        match self.settled.get(&id) {
            Some((_, known)) if *known == digest => return Ok(()),
            Some(_) => {
                return breach("A-S1", format!("two entries settle at {id:?}, the second at member {node}"));
            }
            None => drop(self.settled.insert(id, (entry.clone(), digest))),
        }
        let mut book = self.book.borrow_mut();
        book.add("settled", 1);
        let order = u64::try_from(entry.transfer).ok().and_then(|ticket| book.get_mut(ticket));
        let order = order.filter(|order| order.spender == id.spender && order.kind == entry.kind);
        let given = order.map(|order| {
            order.settled = true;
            order.tries
        });
        if self.liars.contains(&id.spender.registrar) {
            return Ok(());
        }
        let Some(given) = given else {
            return breach("A-S2", format!("{id:?} settles, and nobody ordered it"));
        };
        // Whoever gives an order again that settled meanwhile orders once more.
        let places = self.named.entry((id.spender, entry.transfer)).or_default();
        places.insert(id);
        if places.len() as u64 > u64::from(given.max(1)) {
            return breach("A-S10", format!("order {} was given {given} times: {places:?}", entry.transfer));
        }
        Ok(())
    }

    /// A-S9: whoever stopped says nothing of payments in that view or before it.
    fn said(&self, node: u32, body: &Bytes) -> Verdict {
        let Some(stopped) = self.stopped.get(&node) else { return Ok(()) };
        match spoken(body) {
            Some(Message::In { view, .. }) if view <= *stopped => {
                breach("A-S9", format!("member {node} stopped in view {stopped}, and speaks in view {view}"))
            }
            _ => Ok(()),
        }
    }

    fn moment(&mut self, moment: &Moment<'_>) -> Verdict {
        let (node, honest) = (moment.node.0, moment.honest);
        if !honest {
            self.liars.insert(node);
        }
        if let Seen::Opened { .. } = moment.seen {
            self.book.borrow_mut().lives.insert(node, moment.incarnation);
            // What it says first tells whether it goes on.
            self.running.remove(&node);
            self.stopped.remove(&node);
        }
        for deed in moment.deeds.iter().filter(|_| honest) {
            match deed {
                Deed::Send { body, .. } => self.said(node, body)?,
                Deed::Output(output) => {
                    if let Some(output) = output.downcast_ref::<Output>() {
                        self.told(node, output)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The checker as the world and the phases of a run hold it.
pub(crate) struct Judging(pub(crate) Rc<RefCell<Judge>>);

impl Checker for Judging {
    fn see(&mut self, moment: &Moment<'_>) -> Result<(), Violation> {
        let judged = self.0.borrow_mut().moment(moment);
        judged.map_err(|breach| Violation::new(breach.checker, breach.what))
    }

    fn heal(&mut self, _: &[synod_quorum::NodeId], now: Time) {
        self.0.borrow().book.borrow_mut().healed = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use synod_astro::member::{Message, Output};
    use synod_astro::views::{Change, View};
    use synod_broadcast::signed;
    use synod_crypto::Hash;
    use synod_ledger::{Entry, EntryId, Flags, Kind, Leg, Units, UserData};
    use synod_machine::Message as _;
    use synod_wire::{Bytes, Wire, Writer};

    use super::{Judge, Spoken};
    use crate::systems::astro::book::Book;
    use crate::systems::astro::plan::account;

    fn judge() -> Judge {
        Judge::new(Rc::new(RefCell::new(Book::default())))
    }

    fn view(leave: &[u8]) -> View {
        View::of(leave.iter().map(|member| Change::Leave { member: *member })).expect("few")
    }

    fn frame(message: &Spoken) -> Bytes {
        let mut out = Writer::with_capacity(64);
        out.byte(Spoken::VERSION);
        message.write(&mut out);
        out.freeze()
    }

    #[test]
    fn views_in_which_anybody_goes_on_are_one_sequence() {
        let mut judge = judge();
        assert_eq!(judge.goes_on(0, &view(&[1])), Ok(()));
        assert_eq!(judge.goes_on(1, &view(&[1, 2])), Ok(()));
        let apart = judge.goes_on(2, &view(&[2]));
        assert_eq!(apart.map_err(|breach| breach.checker), Err("A-S9"));
    }

    #[test]
    fn whoever_stopped_speaks_in_no_view_that_is_over_and_settles_nothing() {
        let mut judge = judge();
        let ask = |view| {
            let lot = synod_broadcast::Lot { source: 0, sequence: 1 };
            let message = synod_astro::Message::Broadcast(signed::Message::Ask(lot));
            frame(&Message::In { view, message })
        };
        assert_eq!(judge.said(3, &ask(0)), Ok(()));
        assert_eq!(judge.told(3, &Output::Stopped(view(&[]).id())), Ok(()));
        assert_eq!(judge.said(3, &ask(0)).map_err(|breach| breach.checker), Err("A-S9"));
        assert_eq!(judge.said(2, &ask(0)), Ok(()), "another goes on");
        let id = EntryId { spender: account(0, 1), n: 1 };
        let kind = Kind::Pay(Leg { to: account(1, 2), amount: Units(1) });
        let (user_data, flags, prev) = (UserData::default(), Flags::default(), Hash::ZERO);
        let entry = Entry { id, prev, kind, transfer: 1, ledger: 1, code: 0, user_data, flags };
        let settles = judge.settles(3, &entry, Hash::of(b"entry"));
        assert_eq!(settles.map_err(|breach| breach.checker), Err("A-S9"));
        assert_eq!(judge.goes_on(3, &view(&[1])), Ok(()));
        assert_eq!(judge.said(3, &ask(0)), Ok(()), "the replica's own check refuses what is of another view");
    }
}
