//! A member that begins in a view without what was certified before.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_astro::member::{Message, Output, Record};
use synod_astro::views::{self, Entered, Pin, PinnedLot, Tip, View};
use synod_astro::{Auth, Line, Opened, Output as Said};
use synod_broadcast::Lot;
use synod_broadcast::signed::{self, Ack};
use synod_crypto::Hash;
use synod_ledger::{Digests, Entry, EntryId, UserData, genesis};
use synod_machine::testing::effects;
use synod_machine::{Condition, Effect, Event, Job as _, Log, Recover as _, Time};
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes, Wire};

use crate::alone::{agreed, certificate, first};
use crate::crew::{Machine, account, config, join, keys, pay};

/// Member 4, who joined.
const ME: NodeId = NodeId(4);

struct Joined {
    machine: Machine,
    blobs: BTreeMap<Hash, Bytes>,
    sent: Vec<signed::Message>,
    settled: Vec<EntryId>,
}

impl Joined {
    /// It merged what a quorum told it, and starts again: nothing of it is here.
    fn new(entered: Entered) -> Self {
        let chain = vec![agreed()].try_into().expect("one");
        let records = vec![
            Record::Began(Box::new(entered)),
            Record::Views(views::Record::Installed { chain, state: Hash([1; 32]) }),
        ];
        let log = Log { condition: Condition::Clean, records: &mut records.into_iter() };
        let machine = Machine::recover(config(ME, 64), log).expect("its own records");
        let mut joined = Self { machine, blobs: BTreeMap::new(), sent: Vec::new(), settled: Vec::new() };
        joined.run(Event::Start);
        assert!(joined.machine.runs(), "the view has resumed");
        joined
    }

    fn run(&mut self, event: Event<Machine>) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for effect in effects(&mut self.machine, event, Time::ZERO) {
                match effect {
                    Effect::Compute(job) => events.push(Event::Done(job.run(&keys(ME.0)))),
                    Effect::Store { name, bytes } => drop(self.blobs.insert(name, bytes)),
                    Effect::Load(name) => {
                        events.push(Event::Loaded { name, bytes: self.blobs.get(&name).cloned() });
                    }
                    Effect::Send {
                        message: Message::In { message: synod_astro::Message::Broadcast(message), .. },
                        ..
                    } => self.sent.push(message),
                    Effect::Output(Output::Pay(Said::Settled { entries, .. })) => {
                        self.settled.extend(entries.iter().map(|(entry, _)| entry.id));
                    }
                    Effect::Blame { fault, .. } => unreachable!("nobody lies: {fault:?}"),
                    _ => {}
                }
            }
        }
    }

    fn hear(&mut self, message: signed::Message) {
        let message = Message::In { view: 1, message: synod_astro::Message::Broadcast(message) };
        self.run(Event::Message { from: NodeId(1), message });
    }

    fn pulled(&mut self, opened: &Opened) {
        let payload = Blob::try_from(opened.payload()).expect("short");
        self.hear(signed::Message::Pulled { lot: opened.lot(), payload });
    }

    /// Whether it asks others for this payload.
    fn wants(&self, opened: &Opened) -> bool {
        let is_its = |message: &signed::Message| matches!(message, signed::Message::Pull { lot, digest } if (*lot, *digest) == (opened.lot(), opened.digest));
        self.sent.iter().any(is_its)
    }

    fn endorses(&self, lot: Lot) -> bool {
        let is_its = |message: &signed::Message| matches!(message, signed::Message::Ack(Ack { lot: of, .. }) if *of == lot);
        self.sent.iter().any(is_its)
    }
}

/// The n-th payment of an issuer, and its digest.
fn paid(n: u64, prev: Hash) -> (Line, Hash) {
    let draft = pay(account(1, 1), account(1, 2), 1, u128::from(n));
    let id = EntryId { spender: draft.spender, n };
    let (user_data, flags) = (UserData::default(), draft.flags);
    let entry = Entry {
        id,
        prev,
        kind: draft.kind,
        transfer: draft.transfer,
        ledger: draft.ledger,
        code: 0,
        user_data,
        flags,
    };
    let digest = Digests::default().entry(&entry);
    (Line { entry: entry.into(), auth: Auth::Institution }, digest)
}

fn batch(source: u8, line: Line) -> Opened {
    Opened::new(0, Lot { source, sequence: 1 }, Hash::ZERO, Vec::new(), vec![line])
}

fn views() -> Vec<View> {
    vec![View::default(), View::of([join(4)]).expect("few")]
}

/// Found by drawn runs (`astro/views:363d8025` and `363d8306`). A certificate up to the tip certifies an issuer's second payment; the first stands
/// in a batch above the tip of another lane, which needs this member's endorsement. Whoever settled the first with its batch tells it to
/// nobody, and this member endorsed nothing before it was there.
#[test]
fn what_a_member_lacks_of_a_certified_log_it_takes_from_a_batch_that_waits_for_its_endorsement() {
    let (one, digest) = paid(1, genesis(account(1, 1)));
    let (two, _) = paid(2, digest);
    let ids = [one.entry.id, two.entry.id];
    for payload_first in [true, false] {
        let (open, below) = (batch(1, one.clone()), batch(3, two.clone()));
        let only = Pin { digests: vec![open.digest].try_into().expect("one") };
        let entered = Entered {
            views: views().try_into().expect("two"),
            tips: vec![below.lot()].try_into().expect("one"),
            lots: vec![PinnedLot { lot: open.lot(), pin: only }].try_into().expect("one"),
            ..Entered::default()
        };
        let mut joined = Joined::new(entered);
        if payload_first {
            joined.pulled(&open);
            assert!(!joined.endorses(open.lot()), "it lacks what was certified before the view");
        }
        let old: Arc<_> = first().broadcasts();
        joined.hear(signed::Message::Commit(certificate(&old, below.lot(), below.digest)));
        joined.pulled(&below);
        if !payload_first {
            assert!(joined.settled.is_empty() && !joined.endorses(open.lot()));
            joined.pulled(&open);
        }
        assert_eq!(joined.settled, ids, "both, in the order of the log");
        assert!(joined.endorses(open.lot()), "and others may need its word");
    }
}

/// A liar showed the certificate of its third batch, and nothing of those before it; or it signed two payloads for each of these. Nobody else has their
/// certificates. The third batch names the second, and that one the first: they are endorsed, and no others.
#[test]
fn what_is_certified_names_the_payloads_of_the_slots_before_it() {
    let (one, digest) = paid(1, genesis(account(1, 1)));
    let (two, digest) = (paid(2, digest).0, paid(2, digest).1);
    let three = paid(3, digest).0;
    let next = |prev: &Opened, line: Line| {
        let lot = Lot { sequence: prev.lot().sequence + 1, ..prev.lot() };
        Opened::new(0, lot, prev.digest, Vec::new(), vec![line])
    };
    let first = batch(1, one);
    let second = next(&first, two);
    let third = next(&second, three);
    let pin =
        |lot, digests: Vec<Hash>| PinnedLot { lot, pin: Pin { digests: digests.try_into().expect("two") } };
    let proof = certificate(&crate::alone::first().broadcasts(), third.lot(), third.digest).encode();
    let shown = views::Shown { digest: third.digest, certificate: Some(proof.try_into().expect("short")) };
    for digests in [vec![], vec![first.digest, Hash([9; 32])]] {
        let lots = vec![
            pin(first.lot(), digests.clone()),
            pin(second.lot(), digests.clone()),
            pin(third.lot(), vec![third.digest]),
        ];
        let entered = Entered {
            views: views().try_into().expect("two"),
            shown: vec![Tip { lot: third.lot(), shown: shown.clone() }].try_into().expect("one"),
            lots: lots.try_into().expect("three"),
            ..Entered::default()
        };
        let mut joined = Joined::new(entered.clone());
        assert!(joined.wants(&third) && !joined.wants(&second) && !joined.wants(&first));
        joined.pulled(&third);
        assert!(joined.wants(&second) && !joined.wants(&first));
        joined.pulled(&second);
        assert!(joined.wants(&first) && !joined.endorses(third.lot()));
        joined.pulled(&first);
        assert!([&first, &second, &third].iter().all(|opened| joined.endorses(opened.lot())));
        // Where no certificate was shown, a payload tells nothing of the one before it.
        let mut joined = Joined::new(Entered { shown: Default::default(), ..entered });
        joined.pulled(&third);
        assert!(!joined.wants(&second) && !joined.endorses(third.lot()));
    }
}
