//! A member that begins in a view without what was certified before.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_astro::member::{Message, Output, Record};
use synod_astro::views::{self, Entered, Pin, PinnedLot, View};
use synod_astro::{Auth, Line, Opened, Output as Said};
use synod_broadcast::Lot;
use synod_broadcast::signed::{self, Ack};
use synod_crypto::Hash;
use synod_ledger::{Digests, Entry, EntryId, UserData, genesis};
use synod_machine::testing::effects;
use synod_machine::{Condition, Effect, Event, Job as _, Log, Recover as _, Time};
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes};

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
                    Effect::Blame { fault, .. } => panic!("nobody lies: {fault:?}"),
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
            views: vec![View::default(), View::of([join(4)]).expect("few")].try_into().expect("two"),
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
