//! Whole runs: small, short, and judged by counts alone.

use super::smallbank::Share;
use super::{
    Bank, Journals, Kept, Ownership, Paid, PayPlan, Profile, SyncMode, Verify, Workload, counted, reference,
    run,
};
use std::sync::Arc;
use std::time::Duration;

/// Four institutions with sixty customers each, for a fifth of a second.
pub(crate) fn plan() -> PayPlan {
    PayPlan {
        profile: Profile::Funded,
        shards: 1,
        nodes: 4,
        accounts: 240,
        ownership: Ownership::Custodial,
        verify: Verify::All,
        workload: Workload::Pay,
        cross: None,
        ahead: 0,
        batch: 64,
        inflight: 256,
        warmup: Duration::ZERO,
        span: Duration::from_millis(200),
    }
}

/// A run that was sound, in which something settled at all replicas.
fn paid(plan: PayPlan) -> Paid {
    sound(&Bank::new(plan).expect("a plan"))
}

fn sound(bank: &Bank) -> Paid {
    let paid = run(bank).expect("settles");
    assert!(paid.sound(), "{paid:?}");
    for (shard, kept) in (0_u16..).zip(&paid.kept) {
        let funding: usize =
            bank.places().filter(|of| of.shard == shard).map(|of| bank.funding(of).len()).sum();
        assert!(kept.taken > funding as u64, "somebody paid: {paid:?}");
        assert_eq!((kept.least, kept.most), (kept.taken, kept.taken), "{paid:?}");
    }
    assert_eq!(paid.kept.len(), usize::from(bank.plan.shards));
    paid
}

#[test]
fn an_entry_too_few_or_too_many_at_any_replica_fails_the_audit() {
    let kept = |all: &[(u64, u64)]| {
        let kept = all.iter().map(|(least, most)| Kept { taken: 5, least: *least, most: *most });
        Paid { kept: kept.collect(), equal: true, conserved: true, ..Paid::default() }
    };
    assert!(kept(&[(5, 5)]).sound() && kept(&[(5, 5), (5, 5)]).sound());
    assert_eq!((kept(&[(4, 5)]).lost(), kept(&[(4, 5)]).duplicated()), (1, 0));
    assert_eq!((kept(&[(5, 7)]).lost(), kept(&[(5, 7)]).duplicated()), (0, 2));
    // What one shard lacks another does not make up for.
    assert_eq!((kept(&[(4, 4), (6, 6)]).lost(), kept(&[(4, 4), (6, 6)]).duplicated()), (1, 1));
    assert!(!kept(&[(4, 5)]).sound() && !kept(&[(5, 7)]).sound() && !kept(&[(5, 5), (4, 6)]).sound());
    assert!(!Paid { equal: false, ..kept(&[(5, 5)]) }.sound() && !Paid::default().sound());
    assert!(!Paid { conserved: false, ..kept(&[(5, 5)]) }.sound());
}

#[test]
fn orders_that_find_no_place_are_counted_while_the_clock_runs() {
    let plan = PayPlan { accounts: 8, ..plan() };
    let mut bank = Bank::new(plan).expect("a plan");
    // Two customers of each institution, each with one payment under way at most.
    bank.window = 1;
    let paid = sound(&bank);
    assert!(paid.busy > 0, "{paid:?}");
}

#[test]
fn replicas_that_cannot_be_opened_are_an_error_and_nothing_runs() {
    let mut bank = Bank::new(PayPlan { accounts: 8, ..plan() }).expect("a plan");
    bank.window = 0;
    assert!(run(&bank).is_err(), "a window of nothing is refused");
}

#[test]
fn customers_get_their_money_although_their_issuer_may_pay_few_at_a_time() {
    let mut bank = Bank::new(PayPlan { accounts: 2_048, ..plan() }).expect("a plan");
    // Eight orders of 64 customers each, of which two may be under way.
    bank.window = 2;
    assert!(bank.places().all(|of| bank.funding(of).len() == 8));
    sound(&bank);
}

#[test]
fn every_payment_settles_once_at_every_replica_and_no_unit_is_made_or_lost() {
    for profile in [Profile::Funded, Profile::I, Profile::II] {
        let paid = paid(PayPlan { profile, ..plan() });
        assert!(paid.bytes > 0 && paid.accepted > 0, "{profile:?}: {paid:?}");
        assert!(paid.accepted < paid.taken(), "money is handed out before the clock runs: {paid:?}");
        assert_eq!((paid.crossing, paid.crossed), (0, 0));
        assert!(paid.poor == 0 || profile.credits(), "{profile:?}: {paid:?}");
    }
    let bank = Bank::new(plan()).expect("a plan");
    assert!(reference(&bank, 1_000).is_some_and(|(paid, wall)| paid == 1_000 && !wall.is_zero()));
}

#[test]
fn what_owners_sign_settles_once_at_every_replica() {
    let (span, ownership) = (Duration::from_millis(400), Ownership::SelfSigned);
    for profile in [Profile::Funded, Profile::I] {
        let paid = paid(PayPlan { profile, accounts: 40, span, ownership, ..plan() });
        assert_eq!(paid.cpu.len(), 4);
    }
}

#[test]
fn what_owners_signed_before_the_clock_ran_settles_and_what_they_sign_behind_it() {
    let (span, ownership) = (Duration::from_millis(200), Ownership::SelfSigned);
    for ahead in [40, 2_000] {
        let bank = Bank::new(PayPlan { accounts: 40, span, ownership, ahead, ..plan() }).expect("a plan");
        assert_eq!(bank.ahead(), u64::from(ahead) / 4);
        // More than the smaller number: logs go on behind what was signed ahead.
        assert!(sound(&bank).accepted > 40);
    }
    let custodial = Bank::new(PayPlan { ahead: 1, ..plan() });
    assert!(custodial.is_err(), "nobody signs");
}

#[test]
fn what_owners_sign_together_settles_once_at_every_replica() {
    let (span, ownership) = (Duration::from_millis(400), Ownership::Distilled);
    let paid = paid(PayPlan { accounts: 40, span, ownership, ..plan() });
    assert_eq!(paid.cpu.len(), 4);
}

#[test]
fn what_an_owner_signed_and_found_no_place_is_given_again_before_what_is_behind_it() {
    let ownership = Ownership::SelfSigned;
    let mut bank = Bank::new(PayPlan { accounts: 8, ownership, ..plan() }).expect("a plan");
    bank.window = 1;
    let paid = sound(&bank);
    assert!(paid.busy > 0, "{paid:?}");
}

#[test]
fn with_witnesses_what_owners_sign_settles_once_at_every_replica_too() {
    let (verify, ownership) = (Verify::Witness { margin: 0 }, Ownership::SelfSigned);
    paid(PayPlan { accounts: 40, ownership, verify, ..plan() });
}

#[test]
fn customers_of_smallbank_save_and_pay_in_one_shard() {
    let paid = paid(PayPlan { workload: Workload::Smallbank, accounts: 160, ..plan() });
    assert_eq!((paid.crossing, paid.crossed), (0, 0), "{paid:?}");
}

#[test]
fn what_customers_of_several_shards_pay_each_other_comes() {
    for (shards, workload, ownership) in [
        (2, Workload::Smallbank, Ownership::Custodial),
        (3, Workload::Pay, Ownership::Custodial),
        (2, Workload::Pay, Ownership::SelfSigned),
    ] {
        let (accounts, cross) = (160, Some(Share(2_000)));
        let paid = paid(PayPlan { shards, workload, ownership, accounts, cross, ..plan() });
        assert!(paid.crossing > 0 && paid.crossed > 0, "{workload:?}: {paid:?}");
    }
}

/// What signing together costs is for a batch: a representative adds up and checks what owners gave, and each member that checks does so once.
#[test]
fn what_owners_sign_together_is_checked_once_for_a_batch_by_each_who_checks_it() {
    let (ownership, accounts, batch, inflight) = (Ownership::Distilled, 40, 4_096, 4_096);
    for (verify, checkers) in [(Verify::All, 3), (Verify::Witness { margin: 0 }, 1)] {
        let plan = PayPlan { ownership, verify, accounts, batch, inflight, ..plan() };
        let paid = counted(&Bank::new(plan).expect("a plan"), 4_000).expect("settles");
        assert!(paid.sound() && paid.payments == 4_000, "{paid:?}");
        // One of each institution: what came while its first order was checked goes with it.
        let batches = 4;
        assert_eq!(paid.sums, batches * (1 + checkers), "{verify:?}");
        // Each member's word on a batch and that it settled; a witness' word comes on top.
        let words = if verify == Verify::All { 0 } else { 1 };
        assert_eq!(paid.signed, batches * (8 + words), "{verify:?}");
        // Each owner's signature on its entry is checked by its representative alone.
        assert!(paid.checked < paid.payments + 30 * batches, "{} checked", paid.checked);
    }
}

/// Each of them is spent by a dependency with words of two members, which all members but one check: six signatures where they keep nothing.
#[test]
fn in_profile_two_members_sign_and_check_for_batches_and_not_for_payments() {
    let plan = PayPlan { profile: Profile::II, accounts: 400, batch: 256, inflight: 2_048, ..plan() };
    let paid = counted(&Bank::new(plan).expect("a plan"), 6_000).expect("settles");
    assert!(paid.sound() && paid.payments >= 6_000, "{paid:?}");
    assert!(6 * paid.signed < paid.payments, "{} signed for {}", paid.signed, paid.payments);
    assert!(5 * paid.checked < paid.payments, "{} checked for {}", paid.checked, paid.payments);
}

/// What a replica said, it had written down: over its journal another one stands where it stood.
#[test]
fn with_journals_every_payment_settles_once_and_is_there_when_a_replica_opens_again() {
    for mode in [SyncMode::Group, SyncMode::NoneUnsafe] {
        let folder = std::env::temp_dir().join(format!("synod-load-pay-{}-{mode:?}", std::process::id()));
        let journals = Arc::new(Journals::new(&folder, mode).expect("a temporary folder"));
        let bank = Bank::new(plan()).expect("a plan").keeping(Arc::clone(&journals));
        for _ in 0..2 {
            let paid = sound(&bank);
            let written = paid.written.expect("there are journals");
            assert!(written.syncs > 0 && written.bytes > paid.payments, "{paid:?}");
            let last = bank.places().map(|at| journals.last(&bank, at).expect("a journal")).min();
            assert_eq!(last, Some(paid.taken()), "{mode:?}");
        }
        drop((bank, journals));
        assert!(!folder.exists(), "the folder goes with its journals");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let file = std::env::temp_dir().join(format!("synod-load-pay-{}-file", std::process::id()));
    std::fs::write(&file, b"a file").expect("a temporary file");
    assert!(Journals::new(&file.join("journals"), SyncMode::Group).is_err());
    std::fs::remove_file(&file).expect("it is there");
}
