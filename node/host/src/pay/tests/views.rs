//! Members that come and go, as a teller hears of it.

use std::collections::BTreeMap;

use synod_astro::member;
use synod_astro::views::{Change, Founding, Refusal as Why, Roll, View as Members};
use synod_crypto::Signature;
use synod_quorum::PublicKey;

use super::super::Standing;
use super::super::views::Views;
use super::*;

/// Node 0 of four founders, with a fifth in reserve, that has heard nothing yet.
fn aside() -> (Counter, Founding) {
    let keys: Vec<PublicKey> = (0..5).map(|member| keys(member).public()).collect();
    let members: BTreeMap<u8, PublicKey> = (0..4).zip(keys.iter().copied()).collect();
    let operators = vec![super::keys(100).public()];
    let founding = Founding { cluster: Hash([4; 32]), shard: 0, members, operators };
    let (folder, views) = (Arc::new(Folder::new()), Some(Views::new(keys, Arc::new(founding.clone()))));
    let teller = Teller::open_in(&folder.0, &claim(), Arc::new(super::view()), views).expect("an index");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    teller.begin(Box::new(move |input| {
        heard.lock().expect("no panic").push(input);
        true
    }));
    (Counter { teller, asked, folder }, founding)
}

fn roll(founding: &Founding, changes: &[Change]) -> Arc<Roll> {
    Roll::of(founding, &Members::of(changes.iter().copied()).expect("few")).expect("a view")
}

fn resumes(counter: &Counter, founding: &Founding, changes: &[Change]) {
    counter.teller.hear_member(member::Output::Resumed(roll(founding, changes)));
}

fn told(counter: &Counter) {
    counter.teller.hear(Output::Looked { ticket: 0, accounts: Vec::new() });
}

#[test]
fn a_node_in_reserve_takes_no_order_and_answers_no_question() {
    let (counter, founding) = aside();
    let early = counter.teller.pay(&order(1, 5), Level::Settled).try_recv();
    assert_eq!(early, Ok(Err(Denied::NotMember)));
    assert_eq!(counter.teller.look(account(0, 1), 1).try_recv(), Ok(Err(Denied::NotMember)));
    assert_eq!(counter.teller.open_account(None, 1, 0).try_recv(), Ok(Err(Denied::NotMember)));
    told(&counter);
    assert!(!counter.teller.is_ready(), "it entered no view");
    let known = counter.teller.members().expect("members come and go");
    assert_eq!((known.view, known.standing, known.members), (None, Standing::Aside, vec![]));
    resumes(&counter, &founding, &[]);
    assert!(!counter.teller.is_ready(), "what settled before is not told yet");
    told(&counter);
    assert!(counter.teller.is_ready());
    counter.teller.hear_member(member::Output::Left(roll(&founding, &[]).id()));
    let late = counter.teller.pay(&order(2, 5), Level::Settled).try_recv();
    assert_eq!(late, Ok(Err(Denied::NotMember)));
    assert_eq!(counter.teller.look(account(0, 1), 1).try_recv(), Ok(Err(Denied::NotMember)));
    assert_eq!(counter.orders(), []);
}

/// What the replica forgot with its view is ordered again, what settled is not, and nobody is told that what it may have did not happen.
#[test]
fn what_has_not_settled_is_ordered_again_in_the_next_view() {
    let (counter, founding) = aside();
    resumes(&counter, &founding, &[]);
    told(&counter);
    let mut answers: Vec<_> = (1..=3).map(|id| counter.teller.pay(&order(id, 5), Level::Certified)).collect();
    let first = counter.accept(0);
    counter.accept(1);
    counter.teller.hear_member(member::Output::Stopped(roll(&founding, &[]).id()));
    let between = counter.teller.pay(&order(4, 5), Level::Settled).try_recv();
    assert_eq!(between, Ok(Err(Denied::Busy(50))));
    resumes(&counter, &founding, &[Change::Leave { member: 3 }]);
    counter.settle(1, first.clone(), Level::Certified);
    assert_eq!(counter.orders().len(), 3, "until all is told that settled, nothing is ordered again");
    told(&counter);
    assert_eq!(answers[0].try_recv().expect("it settled").map(|paid| paid.place()), Ok(first.0.id));
    let orders = counter.orders();
    let names: Vec<u128> = orders.iter().map(|(_, draft)| draft.transfer).collect();
    assert_eq!(names, [1, 2, 3, 2], "the third is on its way, and the first has settled");

    // Without room it waits on; then the replica has it.
    let why = Refusal::Busy(50);
    counter.teller.hear(Output::Refused { ticket: orders[3].0, why });
    assert!(answers[1].try_recv().is_err(), "nobody may say that it did not happen");
    counter.kept();
    let orders = counter.orders();
    let (ticket, draft) = orders[4].clone();
    let second = entry(&draft, 2);
    let why = Refusal::Exists(second.0.id);
    counter.teller.hear(Output::Refused { ticket, why });
    counter.settle(2, second.clone(), Level::Certified);
    assert_eq!(answers[1].try_recv().expect("it settled").map(|paid| paid.place()), Ok(second.0.id));
    let known = counter.teller.members().expect("members come and go");
    assert_eq!((known.view, known.standing, known.members), (Some(1), Standing::Member, vec![0, 1, 2]));
}

#[test]
fn who_asks_for_a_change_is_told_what_became_of_it() {
    let (counter, founding) = aside();
    resumes(&counter, &founding, &[]);
    let given = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&given);
    counter.teller.begin_changes(Box::new(move |endorsement| {
        heard.lock().expect("no panic").push(endorsement.change);
        true
    }));
    let joins = Change::Join { member: 4, key: keys(4).public() };
    let ask = |change| counter.teller.change(change, vec![(0, Signature([1; 64]))]);
    let mut waiting = [ask((4, true)), ask((4, true)), ask((3, false))];
    let refused = |change, why| member::Output::Refused { change: Some(change), why };
    counter.teller.hear_member(refused(joins, Why::Endorsement));
    assert_eq!(waiting[0].try_recv(), Ok(Err(Denied::Unendorsed)));
    assert_eq!(waiting[1].try_recv(), Ok(Err(Denied::Unendorsed)));
    assert!(waiting[2].try_recv().is_err());
    counter.teller.hear_member(member::Output::Confirmed(Change::Leave { member: 3 }));
    assert_eq!(waiting[2].try_recv(), Ok(Ok(())));
    let mut again = ask((4, true));
    resumes(&counter, &founding, &[joins]);
    assert_eq!(again.try_recv(), Ok(Ok(())), "it is made");
    assert_eq!(ask((4, true)).try_recv(), Ok(Ok(())));
    assert_eq!(ask((5, true)).try_recv(), Ok(Err(Denied::NotMember)), "nobody has that number");
    for spent in [(0, true), (7, false)] {
        assert_eq!(ask(spent).try_recv(), Ok(Err(Denied::NotMember)), "{spent:?}");
    }
    assert_eq!(*given.lock().expect("no panic"), [joins, joins, Change::Leave { member: 3 }, joins]);
}
