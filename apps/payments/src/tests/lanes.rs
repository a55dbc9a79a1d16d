//! Payments over lanes: the same as in one go, whatever the number of lanes, while clients sign up.

use std::collections::BTreeMap;

use proptest::prelude::*;
use synod_crypto::Hash;
use synod_service::lanes::{Batch, NOT_DELIVERED, State};
use synod_service::{App, At, Lanes, Position, Replies, Request, Wall};

use super::pay;
use crate::{Code, PaymentLanes, Payments, balance};

const LANES: [u8; 4] = [1, 2, 7, 16];
/// Accounts of a chunk: lanes are cut between chunks.
const CHUNK: u32 = 8_192;

fn at(position: u64) -> At {
    At { position: Position(position), time: Wall(0), draw: Hash::of(&position.to_le_bytes()) }
}

fn batch(height: u64, directory: u32, asked: &BTreeMap<u32, u64>, skipped: Vec<u32>) -> Batch {
    let operations = asked.values().flat_map(|operation| operation.to_le_bytes()).collect::<Vec<u8>>();
    let ids = asked.keys().copied().collect();
    Batch { height, at: at(height), directory, ids, operations: operations.into(), skipped }
}

/// A client of one of the first chunks.
fn client() -> impl Strategy<Value = u32> {
    (0_u32..19, 0_u32..4).prop_map(|(chunk, place)| chunk * CHUNK + place)
}

#[derive(Clone, Debug)]
struct Step {
    directory: u32,
    asked: BTreeMap<u32, (u32, u32)>,
    skip: u32,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let directory = prop_oneof![Just(3), Just(CHUNK), Just(9 * CHUNK + 1), Just(18 * CHUNK + 2)];
    let asked = proptest::collection::btree_map(client(), (client(), 0_u32..60), 0..40);
    let step =
        (directory, asked, 2_u32..9).prop_map(|(directory, asked, skip)| Step { directory, asked, skip });
    proptest::collection::vec(step, 1..10)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lanes_pay_as_the_ledger_does(steps in steps()) {
        let app = PaymentLanes::new(40).expect("little money");
        let mut ledger = Payments::granting(40, 0).expect("little money");
        let mut states = LANES.map(|lanes| State::new(app, lanes, 0));
        for (height, step) in (1..).zip(&steps) {
            let asked: BTreeMap<u32, u64> =
                step.asked.iter().map(|(id, (to, amount))| (*id, pay(*to, *amount))).collect();
            let skipped: Vec<u32> = (0..).take(asked.len()).filter(|index| index % step.skip == 1).collect();
            ledger.grow(step.directory);
            let delivered = (0..).zip(&asked).filter(|(index, _)| !skipped.contains(index));
            let mut codes = ledger.execute(delivered.map(|(_, (id, asked))| (*id, *asked))).into_iter();
            let codes: Vec<u8> = (0..)
                .take(asked.len())
                .map(|index| if skipped.contains(&index) { NOT_DELIVERED } else { codes.next().expect("one each").byte() })
                .collect();
            let batch = batch(height, step.directory, &asked, skipped);
            for state in &mut states {
                prop_assert_eq!(&state.execute(&batch), &codes);
            }
        }
        ledger.invariants();
        for state in &states {
            state.invariants();
            prop_assert_eq!(state.root(), ledger.root());
            for id in [0, 2, CHUNK, 18 * CHUNK + 1, 18 * CHUNK + 2] {
                prop_assert_eq!(balance(state, id), ledger.balance(id));
            }
        }
    }
}

#[test]
fn credits_cross_lanes_and_are_not_spendable_inside_their_batch() {
    let app = PaymentLanes::new(10).expect("little money");
    let far = 15 * CHUNK;
    let asked = BTreeMap::from([(0, pay(far, 10)), (far, pay(0, 11))]);
    for lanes in LANES {
        let mut state = State::new(app, lanes, 16 * CHUNK);
        assert_eq!(state.execute(&batch(1, 0, &asked, vec![])), [Code::Paid.byte(), Code::Short.byte()]);
        assert_eq!((balance(&state, 0), balance(&state, far)), (Some(0), Some(20)), "{lanes} lanes");
        assert_eq!(state.query(&far.to_le_bytes()).as_deref(), Some(&20_u64.to_le_bytes()[..]));
        assert_eq!(state.query(&(16 * CHUNK).to_le_bytes()).as_deref(), Some(&[][..]), "no account");
        assert_eq!(state.query(b"how much?"), None);
    }
    assert_eq!(PaymentLanes::new(1 << 31), None);
}

/// Requests of sessions with these numbers, in one entry.
fn ordered(app: &mut Lanes<PaymentLanes>, asked: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut replies = Replies::default();
    let request = |(session, body): &'_ (u64, Vec<u8>)| (*session, body.clone());
    let asked: Vec<(u64, Vec<u8>)> = asked.iter().map(request).collect();
    let mut requests = asked.iter().map(|(session, body)| Request { session: *session, sequence: 1, body });
    app.execute(&at(1), &mut requests, &mut replies);
    replies.drain().flat_map(|reply| reply.to_vec()).collect()
}

#[test]
fn an_ordered_application_answers_each_request_in_order_and_takes_a_second_one_as_the_next_batch() {
    let bytes = |to, amount| pay(to, amount).to_le_bytes().to_vec();
    let mut app = Lanes::new(PaymentLanes::new(10).expect("little money"), 7, 3);
    let asked = [(2, bytes(0, 10)), (0, bytes(1, 20)), (0, bytes(1, 20)), (9, bytes(1, 1)), (1, vec![1, 2])];
    let codes = ordered(&mut app, &asked);
    let expected = [Code::Paid, Code::Short, Code::Paid, Code::NoAccount].map(Code::byte);
    assert_eq!(codes[..4], expected, "what was credited is spendable in the next batch");
    assert_eq!(codes[4], synod_service::lanes::UNREADABLE);
    assert_eq!([0, 1, 2].map(|id| balance(app.state(), id)), [Some(0), Some(30), Some(0)]);
    let chunks: Vec<_> = (0..app.chunks()).map(|index| app.chunk(index)).collect();
    let mut other = Lanes::new(PaymentLanes::new(10).expect("little money"), 2, 0);
    for (index, chunk) in (0..).zip(&chunks) {
        other.restore(index, chunk).expect("a chunk of this application");
    }
    assert_eq!((other.root(), other.state().root()), (app.root(), app.state().root()));
    assert!(other.restore(0, &[1; 9]).is_err() && other.restore(7, &chunks[1]).is_err());
}
