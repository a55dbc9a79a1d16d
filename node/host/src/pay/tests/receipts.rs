//! What a teller gives as a receipt.

use std::sync::Arc;

use synod_astro::{Auth, Level, Line, Opened, Output, Proved, Receipt, Settled, verify_receipt};
use synod_broadcast::signed::{Acked, Certificate, Said};
use synod_crypto::Hash;
use synod_ledger::Entry;
use synod_machine::broadcast::{Except, Lot};
use synod_quorum::NodeId;
use synod_wire::Wire;

use super::{Counter, account, draft, entry, keys, order, view};
use crate::pay::proofs::Shown;
use crate::pay::rows::Rows;
use crate::pay::sorted::Sorted;
use crate::pay::{Order, Seat, Transfer};

/// The batch of this node's own that carries these.
pub(super) fn batch(sequence: u64, entries: &[Entry]) -> Arc<Opened> {
    let line = |entry: &Entry| Line { entry: entry.clone().into(), auth: Auth::Institution };
    let lot = Lot { source: 0, sequence };
    Arc::new(Opened::new(0, lot, Hash::ZERO, Vec::new(), entries.iter().map(line).collect()))
}

/// Three members endorse a batch but for these entries.
pub(super) fn certified(opened: &Arc<Opened>, except: &[u32]) -> Output {
    let (view, lot, digest) = (view(), opened.lot(), opened.digest);
    let said = [0_u8, 1, 3].map(|member| {
        let except = Except::new(except.to_vec()).expect("rising");
        let acked = Acked { context: view.context, lot, digest, except: except.digest(), authorized: true };
        let signature = keys(member).sign(view.scope(), NodeId(u32::from(member)), acked).signature;
        Said { member, except, authorized: true, signature }
    });
    let said = said.to_vec().try_into().expect("few");
    let certificate = Certificate { context: view.context, epoch: view.roster.epoch(), lot, digest, said };
    Output::Certified { opened: Arc::clone(opened), proofs: vec![certificate.encode()] }
}

pub(super) fn word(opened: &Opened, member: u8) -> Output {
    let (view, lot, digest) = (view(), opened.lot(), opened.digest);
    let settled = Settled { context: view.context, lot, digest, open: Hash::ZERO };
    let signature = keys(member).sign(view.scope(), NodeId(u32::from(member)), settled).signature;
    Output::Receipted(Receipt { lot, digest, open: Except::default(), member, signature })
}

impl Counter {
    /// What the receipt of an entry proves, once the index has all that was told.
    fn proved(&self, entry: &Entry) -> Option<Proved> {
        self.kept();
        let transfer: Transfer = self.teller.index().entry(entry.id).expect("it settled");
        let receipt = self.teller.receipt(&transfer)?;
        Some(verify_receipt::<Certificate>(&receipt, &view(), &keys(9)).expect("it is good"))
    }

    pub(super) fn settled(&self, position: u64, (entry, digest): (Entry, Hash)) {
        self.teller.hear(Output::Settled { first: position, entries: vec![(entry.into(), digest)] });
    }
}

/// Two payments of one account.
pub(super) fn two() -> [(Entry, Hash); 2] {
    let one = entry(&draft(&order(7, 5)), 1);
    let (mut two, _) = entry(&draft(&order(8, 6)), 2);
    two.prev = one.1;
    let digest = synod_ledger::Digests::default().entry(&two);
    [one, (two, digest)]
}

#[test]
fn a_receipt_shows_the_level_that_members_words_reach_and_is_there_after_a_restart() {
    let counter = Counter::new();
    let [(one, digest), _] = two();
    let opened = batch(1, std::slice::from_ref(&one));
    counter.teller.hear(certified(&opened, &[]));
    counter.settled(1, (one.clone(), digest));
    for (member, level) in
        [(2, Level::Certified), (0, Level::Settled), (3, Level::Stable), (1, Level::Stable)]
    {
        counter.teller.hear(word(&opened, member));
        let proved = counter.proved(&one).expect("it is certified");
        assert_eq!((proved.level, &proved.entry, proved.digest), (level, &one, digest));
    }
    let counter = counter.again();
    // A replica tells again what it is not sure that the index has.
    counter.teller.hear(certified(&opened, &[]));
    counter.teller.hear(word(&opened, 2));
    assert_eq!(counter.proved(&one).map(|proved| proved.level), Some(Level::Stable));
}

#[test]
fn a_payment_that_only_a_later_one_of_its_payer_certifies_has_a_receipt_by_that_one() {
    let counter = Counter::new();
    let [one, two] = two();
    let left = batch(1, std::slice::from_ref(&one.0));
    let later = batch(2, std::slice::from_ref(&two.0));
    counter.teller.hear(certified(&left, &[0]));
    counter.settled(1, one.clone());
    assert_eq!(counter.proved(&one.0), None, "nothing certifies it");
    counter.teller.hear(certified(&later, &[]));
    counter.settled(2, two.clone());
    for (entry, digest) in [one, two] {
        let proved = counter.proved(&entry).expect("both are certified");
        assert_eq!((proved.lot, proved.entry, proved.digest), (later.lot(), entry, digest));
    }
}

#[test]
fn a_payment_whose_batch_this_node_was_not_told_has_no_receipt() {
    let counter = Counter::new();
    let foreign = Order { from: account(2, 1), ..order(7, 5) };
    let (foreign, digest) = entry(&draft(&foreign), 1);
    counter.settled(1, (foreign.clone(), digest));
    assert_eq!(counter.proved(&foreign), None);
}

/// A later payment is nobody's business who is shown the receipt of one before it.
#[test]
fn a_receipt_shows_no_later_payment_where_its_own_batch_is_certified() {
    let counter = Counter::new();
    let [one, two] = two();
    let first = batch(1, std::slice::from_ref(&one.0));
    let later = batch(2, std::slice::from_ref(&two.0));
    for (position, opened, paid) in [(1, &first, &one), (2, &later, &two)] {
        counter.teller.hear(certified(opened, &[]));
        counter.settled(position, paid.clone());
    }
    for member in [0, 1, 3] {
        counter.teller.hear(word(&later, member));
    }
    counter.kept();
    let receipt = |id| counter.teller.index().receipt(id, &view()).expect("it is certified");
    let (shown, last) = (receipt(one.0.id), receipt(two.0.id));
    assert_eq!(shown.chain.to_vec(), [one.0]);
    assert_eq!((shown.level(&view()), last.level(&view())), (Level::Certified, Level::Stable));
}

/// Carried twice, an entry is shown by the batch that more members settled.
#[test]
fn of_several_batches_with_a_payment_the_one_with_the_highest_level_is_shown() {
    let counter = Counter::new();
    let [one, two] = two();
    let batches = [1, 2, 3].map(|sequence| batch(sequence, &[one.0.clone(), two.0.clone()]));
    for opened in &batches[..2] {
        counter.teller.hear(certified(opened, &[]));
    }
    // The third leaves it out, so no word about that one counts.
    counter.teller.hear(certified(&batches[2], &[0]));
    counter.settled(1, one.clone());
    for (opened, member) in [(1, 0), (1, 3), (2, 0), (2, 1), (2, 3)] {
        counter.teller.hear(word(&batches[opened], member));
    }
    let proved = counter.proved(&one.0).expect("it is certified");
    assert_eq!((proved.level, proved.lot), (Level::Settled, batches[1].lot()));
}

/// A certificate more, and the batch is not written again.
#[test]
fn what_is_kept_of_a_batch_is_written_once() {
    let [one, two] = two();
    let opened = batch(1, &[one.0, two.0]);
    let proofs = |except: &[u32]| match certified(&opened, except) {
        Output::Certified { proofs, .. } => proofs,
        _ => unreachable!("it is one"),
    };
    let (all, some) = (proofs(&[]), proofs(&[1]));
    let (mut kept, mut places) = (Rows::new(), Sorted::default());
    Shown::new(Arc::clone(&opened), some.clone(), Seat::default()).rows(&mut kept, &mut places, |_| false);
    let (mut more, mut again) = (Rows::new(), Sorted::default());
    let both = Shown::new(opened, [some, all].concat(), Seat::default());
    both.rows(&mut more, &mut again, |key| kept.contains_key(key));
    assert_eq!((kept.len(), more.len()), (1 + 1, 1), "header and digests, a certificate");
    assert_eq!((places.carried.len(), again.carried.len()), (2, 0), "two places, once");
}
