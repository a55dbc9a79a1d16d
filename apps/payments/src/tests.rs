//! Payments: the rules one by one, and the invariant over any batches.

mod lanes;
mod text;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Code, Payments, operation};

fn pay(recipient: u32, amount: u32) -> u64 {
    operation(recipient, amount).expect("a short id")
}

#[test]
fn each_rule_has_its_code_and_a_refused_payment_changes_nothing() {
    let mut payments = Payments::new(vec![10, 0, 5]).expect("little money");
    for (sender, asked, code) in [
        (0, pay(3, 1), Code::NoAccount),
        (3, pay(0, 1), Code::NoAccount),
        (0, pay(1, 0), Code::NoAmount),
        (0, pay(1, 11), Code::Short),
        (1, pay(0, 1), Code::Short),
        (0, pay(1, 1) | 1 << 28, Code::Malformed),
    ] {
        let before = payments.clone();
        assert_eq!(payments.execute([(sender, asked)]), [code]);
        assert_eq!(payments, before);
    }
    assert_eq!(operation(1 << 28, 1), None);
    assert_eq!(payments.execute([(0, pay(0, 10))]), [Code::Paid], "to oneself");
    assert_eq!(payments.balance(0), Some(10));
}

#[test]
fn credits_are_spendable_from_the_next_batch() {
    let mut payments = Payments::new(vec![10, 0, 0]).expect("little money");
    assert_eq!(payments.execute([(0, pay(1, 10)), (1, pay(2, 10))]), [Code::Paid, Code::Short]);
    assert_eq!(payments.execute([(1, pay(2, 10))]), [Code::Paid]);
    assert_eq!([0, 1, 2].map(|id| payments.balance(id)), [Some(0), Some(0), Some(10)]);
    payments.grow(5);
    payments.grow(4);
    assert_eq!((payments.balance(4), payments.balance(5), payments.bytes()), (Some(0), None, 40));
}

#[test]
fn more_than_half_of_all_numbers_is_no_supply() {
    assert!(Payments::new(vec![1 << 62, (1 << 62) - 1]).is_some());
    assert!(Payments::new(vec![1 << 62, 1 << 62]).is_none());
    assert!(Payments::new(vec![u64::MAX, 1]).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn money_is_kept_and_the_order_inside_a_batch_does_not_matter(
        batches in proptest::collection::vec(
            proptest::collection::btree_map(0_u32..12, (0_u32..13, 0_u32..40), 0..12), 0..20),
    ) {
        let mut payments = Payments::new((0..10).map(|i| 10 * i).collect()).expect("little money");
        let mut backwards = payments.clone();
        let mut model: BTreeMap<u32, u64> = (0..10).map(|id| (id, 10 * u64::from(id))).collect();
        for batch in &batches {
            let asked: Vec<(u32, u64)> = batch.iter().map(|(id, (to, amount))| (*id, pay(*to, *amount))).collect();
            let codes = payments.execute(asked.iter().copied());
            let mut reversed = backwards.execute(asked.iter().rev().copied());
            reversed.reverse();
            prop_assert_eq!(&reversed, &codes);
            let start = model.clone();
            for (sender, (to, amount)) in batch {
                let fits = start.get(sender).is_some_and(|b| *b >= u64::from(*amount)) && *amount > 0;
                if fits && start.contains_key(to) {
                    *model.get_mut(sender).expect("it has money") -= u64::from(*amount);
                    *model.get_mut(to).expect("it is there") += u64::from(*amount);
                }
            }
            payments.invariants();
            for (id, balance) in &model {
                prop_assert_eq!(payments.balance(*id), Some(*balance));
            }
            prop_assert_eq!(payments.root(), backwards.root());
        }
    }
}
