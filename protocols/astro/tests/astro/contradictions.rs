//! Certificates that contradict each other: more members lie than may.

use synod_astro::{Input, Line, Output, Work};
use synod_broadcast::Lot;
use synod_crypto::Hash;
use synod_ledger::EntryId;
use synod_wire::{Bytes, Limits, Wire};

use crate::alone::Alone;
use crate::bank::{custodial, digest, draft, first, issuer, pay, signed, signing};
use crate::forge::{ALL, batch, prepare};

fn settled(alone: &Alone) -> Vec<EntryId> {
    let all = alone.told.iter().flat_map(|output| match output {
        Output::Settled { entries, .. } => entries.as_slice(),
        _ => &[],
    });
    all.map(|(entry, _)| entry.id).collect()
}

/// Contradictions that the user was told of: the place, and what is shown of it.
fn contradictions(alone: &Alone) -> Vec<(EntryId, Option<Lot>, Option<Line>, Line)> {
    let all = alone.told.iter().filter_map(|output| match output {
        Output::Contradiction { id, lot, evidence } => {
            let shown: (Option<Line>, Line) = read(evidence);
            Some((*id, *lot, shown.0, shown.1))
        }
        _ => None,
    });
    all.collect()
}

fn read<T: Wire>(evidence: &Bytes) -> T {
    T::decode(evidence.clone(), &Limits::default()).expect("evidence")
}

/// Over the budget: certificates exist of two entries for one place.
#[test]
fn certificates_that_contradict_each_other_are_shown_and_what_came_first_stays() {
    // The first entry has settled in one run, and waits for its money in the other.
    for amount in [7, 150] {
        let mut alone = Alone::new();
        alone.ask(Input::Order { ticket: 1, draft: draft(issuer(0), pay(signing(3), 100), 1) });
        let money = alone.mine();
        alone.certify(&money, ALL);
        let one = first(signing(3), pay(custodial(0), amount), 1);
        let other = first(signing(3), pay(custodial(1), 9), 2);
        let behind = EntryId { spender: signing(3), n: 2 };
        let behind = signed(behind, digest(&other.entry), pay(custodial(1), 9), 3);
        let mut prev = Hash::ZERO;
        for (sequence, line) in (1..).zip([&one, &other, &behind]) {
            let opened = batch(sequence, prev, Vec::new(), vec![line.clone()]);
            prev = opened.digest;
            alone.hear(3, prepare(&opened));
            alone.certify(&opened, ALL);
        }
        let stands = (amount == 150).then(|| one.clone());
        let lot = |sequence| Some(Lot { source: 3, sequence });
        let expected = [
            (other.entry.id, lot(2), stands, other.clone()),
            (behind.entry.id, lot(3), None, behind.clone()),
        ];
        assert_eq!(contradictions(&alone), expected, "{amount}");
        assert!(
            settled(&alone).iter().filter(|id| id.spender == signing(3)).count() == usize::from(amount == 7)
        );
        let signs = |work: &&Work| matches!(work, Work::Sign { settled, .. } if settled.lot.source == 3);
        let receipts = alone.works.iter().filter(signs).count();
        assert_eq!(receipts, usize::from(amount == 7), "what is left out is not receipted");
    }
}
