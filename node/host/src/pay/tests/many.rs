//! Requests of many orders.

use super::super::{Found, Gathering, Named, NewAccount, Paid};
use super::*;

const ALL: usize = 3_000;

/// The results so far, of a request that nobody waits for any more.
type Results = Vec<Option<Result<Paid, Denied>>>;

fn many(ids: std::ops::Range<u128>) -> Vec<(Order, Level)> {
    ids.map(|id| (order(id, 5), Level::Certified)).collect()
}

fn results(gathering: Gathering<Paid>) -> Results {
    gathering.results()
}

impl Counter {
    /// The replica takes all orders that it was given since the nth, and settles them behind this position; gives how many.
    fn settle_from(&self, nth: usize, position: u64) -> usize {
        let orders = self.orders();
        for (at, (ticket, draft)) in orders.iter().enumerate().skip(nth) {
            let (entry, digest) = entry(draft, at as u64 + 1);
            self.teller.hear(Output::Accepted { ticket: *ticket, entry: entry.clone().into(), digest });
            self.settle(position + (at - nth) as u64 + 1, (entry, digest), Level::Certified);
        }
        orders.len() - nth
    }
}

#[test]
fn many_orders_are_given_a_part_at_a_time_and_each_is_answered_in_its_place() {
    let counter = Counter::new();
    let gathering = counter.teller.pay_all(&many(0..ALL as u128));
    let first = counter.orders().len();
    assert!(first < ALL, "the replica's queue is not flooded: {first}");
    let (mut given, mut rounds) = (0, 0);
    while given < ALL {
        let settled = counter.settle_from(given, given as u64);
        assert!(settled > 0, "what is left waits for nothing");
        (given, rounds) = (given + settled, rounds + 1);
    }
    assert!(rounds > 1);
    let told = results(gathering);
    assert_eq!(told.len(), ALL);
    for (at, told) in told.into_iter().enumerate() {
        let paid = told.expect("it is answered").expect("it is paid");
        assert_eq!((paid.place.n, paid.level), (at as u64 + 1, Level::Certified));
    }
    // The same again is the same: nothing is given.
    counter.kept();
    let again = results(counter.teller.pay_all(&many(0..ALL as u128)));
    let positions = again.iter().map(|told| told.and_then(Result::ok).map(|paid| paid.position));
    assert!(positions.eq((1..=ALL as u64).map(Some)), "the index knows all of them");
    assert_eq!(counter.orders().len(), ALL);
}

#[test]
fn one_bad_order_of_many_is_refused_alone_and_one_of_a_name_is_one() {
    let counter = Counter::new();
    let mut orders = many(1..4);
    orders.push((order(2, 6), Level::Certified));
    orders.push((order(3, 5), Level::Certified));
    let gathering = counter.teller.pay_all(&orders);
    assert_eq!(counter.orders().len(), 3);
    let (ticket, _) = counter.orders()[0].clone();
    counter.teller.hear(Output::Refused { ticket, why: Refusal::Ledger(Code::InsufficientFunds) });
    for nth in 1..3 {
        let accepted = counter.accept(nth);
        counter.settle(nth as u64, accepted, Level::Certified);
    }
    let told = results(gathering);
    let place = |at: usize| told[at].expect("it is answered").map(|paid| paid.place.n);
    assert_eq!(place(0), Err(Denied::Ledger(Code::InsufficientFunds)));
    assert_eq!((place(1), place(2), place(4)), (Ok(2), Ok(3), Ok(3)));
    assert_eq!(place(3), Err(Denied::Different("amount")));
}

/// A payer has so many open entries and no more: what is above waits, and a request of one order does not.
#[test]
fn orders_above_the_window_of_their_payer_wait_for_it_and_are_given_once_each() {
    let counter = Counter::new();
    let gathering = counter.teller.pay_all(&many(1..6));
    for nth in 2..5 {
        let (ticket, _) = counter.orders()[nth].clone();
        counter.teller.hear(Output::Refused { ticket, why: Refusal::Busy(50) });
    }
    assert_eq!(counter.orders().len(), 5, "nothing settled, so nothing is given again");
    let single = counter.teller.pay(&order(9, 5), Level::Certified);
    let (ticket, _) = counter.orders()[5].clone();
    counter.teller.hear(Output::Refused { ticket, why: Refusal::Busy(50) });
    assert_eq!(told(&mut { single }), Err(Denied::Busy(50)));
    for nth in 0..2 {
        let accepted = counter.accept(nth);
        counter.settle(nth as u64 + 1, accepted, Level::Certified);
    }
    counter.kept();
    let names: Vec<u128> = counter.orders().iter().map(|(_, draft)| draft.transfer).collect();
    assert_eq!(names[..8], [1, 2, 3, 4, 5, 9, 3, 4]);
    assert!(names.len() <= 9, "each is given once again: {names:?}");
    assert!(results(gathering)[2].is_none(), "it is under way");
}

#[test]
fn what_nobody_waits_for_any_more_is_not_given_and_did_not_happen() {
    let counter = Counter::new();
    let gathering = counter.teller.pay_all(&many(0..ALL as u128));
    let first = counter.orders().len();
    drop(gathering);
    counter.settle_from(0, 0);
    assert_eq!(counter.orders().len(), first, "the rest is given up");
    let last = Named { id: ALL as u128 - 1, payer: Some(account(0, 1)) };
    assert_eq!(counter.teller.find(&last), Ok(Found::Nothing));
    assert!(matches!(counter.teller.find(&Named { id: 0, ..last }), Ok(Found::Payment(_))));
}

#[test]
fn a_replica_without_room_is_given_the_rest_with_its_next_word() {
    let folder = Arc::new(Folder::new());
    let teller = Teller::open(&folder.0, &claim(), Arc::new(view())).expect("an index");
    let (asked, room) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(3)));
    let (heard, left) = (Arc::clone(&asked), Arc::clone(&room));
    teller.begin(Box::new(move |input| {
        let has_room =
            left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if has_room {
            heard.lock().expect("no panic").push(input);
        }
        has_room
    }));
    teller.hear(Output::Looked { ticket: 0, accounts: Vec::new() });
    let counter = Counter { teller, asked, folder };
    let _waits = counter.teller.pay_all(&many(1..6));
    let opened = counter.teller.open_all(&[NewAccount { owner: None, ledger: 1, code: 0 }; 2]);
    let names = || counter.orders().iter().map(|(_, draft)| draft.transfer).collect::<Vec<_>>();
    assert_eq!(names(), [1, 2], "the first input was the question at the start");
    room.store(100, Ordering::SeqCst);
    counter.accept(0);
    assert_eq!(names(), [1, 2, 3, 4, 5], "in their order, each once");
    let tickets: Vec<u64> = {
        let asked = counter.asked.lock().expect("no panic");
        asked
            .iter()
            .filter_map(|input| if let Input::Open { ticket, .. } = input { Some(*ticket) } else { None })
            .collect()
    };
    assert_eq!(tickets.len(), 2);
    for (ticket, local) in tickets.into_iter().zip(2..) {
        counter.teller.hear(Output::Numbered { ticket, account: account(0, local) });
        counter.teller.hear(Output::Opened(account(0, local)));
    }
    assert_eq!(opened.results(), [Some(Ok(account(0, 2))), Some(Ok(account(0, 3)))]);
}

/// Another order under the name of a payment that settled is refused, and does not stand in the way of that payment in its own request.
#[test]
fn of_two_orders_of_one_name_in_a_request_the_one_that_settled_is_the_one() {
    let counter = Counter::new();
    let _first = counter.teller.pay(&order(7, 5), Level::Certified);
    let accepted = counter.accept(0);
    counter.settle(1, accepted, Level::Stable);
    counter.kept();
    let both = [(order(7, 6), Level::Certified), (order(7, 5), Level::Certified)];
    let told = results(counter.teller.pay_all(&both));
    assert_eq!(told[0], Some(Err(Denied::Different("amount"))));
    assert_eq!(told[1].and_then(Result::ok).map(|paid| paid.place.n), Some(1));
    assert_eq!(counter.orders().len(), 1);
}
