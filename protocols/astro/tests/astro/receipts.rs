//! What receipts prove to somebody who has the members' keys and nothing else, and what they do not.

use std::collections::BTreeSet;
use std::sync::Arc;

use synod_astro::{
    Format, Input, Level, Material, NoReceipt, Opened, Output, PaymentReceipt, Proved, Receipt, Settled,
    SettledBy, verify_receipt,
};
use synod_broadcast::Lot;
use synod_broadcast::signed::{Certificate, Except, Said, View};
use synod_crypto::{Hash, Refusal, Scope};
use synod_ledger::{Entry, EntryId, Kind, Leg, Units, genesis};
use synod_machine::testing::pick;
use synod_quorum::{Epoch, NodeId, NodeSet, Roster};
use synod_wire::{Blob, Bytes, Drawn, Limits, List, Wire};

use crate::alone::Alone;
use crate::bank::{
    Bank, CLUSTER, CONTEXT, EPOCH, account, custodial, digest, issuer, keys, order, pay, settle, view,
};
use crate::forge::{ALL, batch, carried, prepare, said};

/// The batch of lane 1 whose entries these are.
pub(crate) fn of_lines(sequence: u64, prev: Hash, entries: &[Entry]) -> Opened {
    let line = |entry: &Entry| synod_astro::Line {
        entry: entry.clone().into(),
        auth: synod_astro::Auth::Institution,
    };
    Opened::new(0, Lot { source: 1, sequence }, prev, Vec::new(), entries.iter().map(line).collect())
}

/// Payments of the issuer of lane 1, in their order.
pub(crate) fn payments(count: u64) -> Vec<Entry> {
    let mut prev = genesis(issuer(1));
    let all = (1..=count).map(|n| {
        let line = carried(issuer(1), n, prev, pay(custodial(2), 100 + u128::from(n)), u128::from(n));
        prev = digest(&line.entry);
        (*line.entry).clone()
    });
    all.collect()
}

pub(crate) fn certificate(opened: &Opened, lists: &[(u32, &[u32])]) -> Certificate {
    let (lot, digest) = (opened.lot(), opened.digest);
    let said: Vec<Said> = lists.iter().map(|(by, except)| said(*by, lot, digest, except)).collect();
    Certificate { context: CONTEXT, epoch: EPOCH, lot, digest, said: said.try_into().expect("few") }
}

pub(crate) fn word(by: u32, opened: &Opened, open: &[u32]) -> Receipt {
    let (lot, digest) = (opened.lot(), opened.digest);
    let open = Except::new(open.to_vec()).expect("rising");
    let settled = Settled { context: CONTEXT, lot, digest, open: open.digest() };
    let signature = keys(by).sign(Scope { cluster: CLUSTER, epoch: EPOCH }, NodeId(by), settled).signature;
    Receipt { lot, digest, open, member: u8::try_from(by).expect("few"), signature }
}

fn made(
    chain: &[Entry],
    opened: &Opened,
    certificates: &[Certificate],
    words: &[Receipt],
) -> Option<PaymentReceipt> {
    let certificates: Vec<Bytes> = certificates.iter().map(Wire::encode).collect();
    let header = &opened.batch.header;
    let material = Material { header, digests: &opened.digests, certificates: &certificates, words };
    PaymentReceipt::new::<Certificate>(chain.to_vec(), &material, &view(4))
}

/// The receipt of the second of five payments, where three members say it settled.
fn sample() -> PaymentReceipt {
    let entries = payments(5);
    let opened = of_lines(1, Hash::ZERO, &entries);
    let words: Vec<Receipt> = [0, 1, 3].map(|by| word(by, &opened, &[])).to_vec();
    made(&entries[1..2], &opened, &[certificate(&opened, &ALL)], &words).expect("it is certified")
}

fn verify(receipt: &PaymentReceipt) -> Result<Proved, NoReceipt> {
    verify_receipt::<Certificate>(receipt, &view(4), &keys(9))
}

/// The same certificate in a receipt.
fn with(receipt: &PaymentReceipt, certificate: &Certificate) -> PaymentReceipt {
    let certificate = Blob::try_from(certificate.encode()).expect("short");
    PaymentReceipt { certificate, ..receipt.clone() }
}

fn certificate_of(receipt: &PaymentReceipt) -> Certificate {
    Certificate::decode(receipt.certificate.bytes().clone(), &Limits::default()).expect("it is one")
}

fn members(ids: &[u32]) -> NodeSet {
    ids.iter().fold(NodeSet::EMPTY, |set, id| set.with(NodeId(*id)))
}

#[test]
fn a_receipt_says_who_paid_whom_how_much_how_sure_it_is_and_who_says_so() {
    let entries = payments(5);
    let opened = of_lines(1, Hash::ZERO, &entries);
    let certificate = certificate(&opened, &ALL);
    for (by, level) in [
        (&[][..], Level::Certified),
        (&[3], Level::Certified),
        (&[0, 3], Level::Settled),
        (&[0, 2, 3], Level::Stable),
        (&[0, 1, 2, 3], Level::Stable),
    ] {
        let words: Vec<Receipt> = by.iter().map(|by| word(*by, &opened, &[])).collect();
        for (at, entry) in entries.iter().enumerate() {
            let receipt = made(&entries[at..=at], &opened, std::slice::from_ref(&certificate), &words);
            let receipt = receipt.expect("it is certified");
            let proved = verify(&receipt).expect("it is good");
            assert_eq!((proved.level, &proved.entry, proved.digest), (level, entry, digest(entry)));
            assert_eq!((proved.lot, proved.certified_by), (opened.lot(), members(&[1, 2, 3])));
            let settled = proved.settled_by.count();
            assert_eq!(settled, if level == Level::Stable { 3 } else { [0, 2][usize::from(by.len() > 1)] });
            // As it travels.
            assert_eq!(PaymentReceipt::decode(receipt.encode(), &Limits::default()), Ok(receipt));
        }
    }
}

#[test]
fn receipts_are_made_of_what_a_running_cluster_tells() {
    let mut world = Bank::world(4, 3);
    for ticket in 1..=12 {
        order(&mut world, ticket, issuer(1), custodial(u32::try_from(ticket % 4).expect("few")), 10);
    }
    assert!(settle(&mut world, 12));
    let sure = |world: &crate::bank::World| {
        let levels = world.users.told[1].levels.values();
        levels.filter(|levels| levels.contains(&Level::Stable)).count() == 12
    };
    assert!(world.until(sure));
    let mut by_level = [0; 4];
    for teller in [1_usize, 2] {
        let told = &world.users.told[teller];
        for (lot, (opened, proofs)) in &told.certified {
            let words: Vec<Receipt> =
                told.words.get(lot).into_iter().flat_map(|words| words.values().cloned()).collect();
            let header = &opened.batch.header;
            let material = Material { header, digests: &opened.digests, certificates: proofs, words: &words };
            for line in &opened.batch.lines {
                let receipt =
                    PaymentReceipt::new::<Certificate>(vec![(*line.entry).clone()], &material, &view(4));
                let proved = verify(&receipt.expect("it is certified")).expect("it is good");
                assert_eq!(proved.entry, *line.entry);
                by_level[proved.level as usize] += 1;
            }
        }
    }
    let [_, certified, _, stable] = by_level;
    assert_eq!(stable, 12, "the institution of the payer has everybody's word");
    assert!(certified >= 3, "that of a payee has the certificate");
}

#[test]
fn a_payment_that_only_a_later_one_of_its_log_certifies_is_proved_by_the_entries_between() {
    let entries = payments(4);
    let opened = of_lines(2, Hash([8; 32]), &entries[3..]);
    let certificate = certificate(&opened, &ALL);
    let words: Vec<Receipt> = [0, 1].map(|by| word(by, &opened, &[])).to_vec();
    let receipt = made(&entries[1..], &opened, &[certificate], &words).expect("it is certified");
    let proved = verify(&receipt).expect("it is good");
    assert_eq!((proved.level, proved.entry), (Level::Settled, entries[1].clone()));
    let chained = |entries: Vec<Entry>| {
        let chain = List::try_from(entries).expect("few");
        verify(&PaymentReceipt { chain, ..receipt.clone() })
    };
    let [_, two, three, four] = <[Entry; 4]>::try_from(entries).expect("four");
    let other = Entry { kind: pay(custodial(3), 1), ..two.clone() };
    let strange = Entry { id: EntryId { spender: account(1, 2), ..two.id }, ..two.clone() };
    for broken in [
        vec![],
        vec![two.clone(), four.clone()],
        vec![other, three.clone(), four.clone()],
        vec![strange, three.clone(), four.clone()],
        vec![three.clone(), two.clone(), four.clone()],
    ] {
        assert_eq!(chained(broken), Err(NoReceipt::Chain));
    }
    assert_eq!(chained(vec![two, three]), Err(NoReceipt::Inclusion));
}

#[test]
fn of_several_certificates_and_words_those_are_taken_that_leave_the_entry_in() {
    let entries = payments(3);
    let opened = of_lines(1, Hash::ZERO, &entries);
    let without = certificate(&opened, &[(0, &[1, 2]), (1, &[]), (2, &[1, 2])]);
    let mixed = certificate(&opened, &[(0, &[0]), (1, &[2]), (2, &[]), (3, &[])]);
    let words = [word(0, &opened, &[1]), word(1, &opened, &[2]), word(2, &opened, &[])];
    assert!(
        made(&entries[1..2], &opened, std::slice::from_ref(&without), &words).is_none(),
        "one endorses it, and two do not"
    );
    let receipt = made(&entries[1..2], &opened, &[without, mixed.clone()], &words).expect("all of four");
    let proved = verify(&receipt).expect("it is good");
    assert_eq!(proved.certified_by, members(&[0, 2, 3]), "the shortest lists, lowest members first");
    assert_eq!((proved.level, proved.settled_by), (Level::Settled, members(&[1, 2])));
    // Who leaves it out proves nothing of it, though enough others signed.
    let named = with(&receipt, &certificate(&opened, &[(0, &[1]), (1, &[]), (2, &[]), (3, &[])]));
    assert_eq!(verify(&named), Err(NoReceipt::Excepted(NodeId(0))));
    let open = SettledBy { member: 0, open: words[0].open.clone(), signature: words[0].signature };
    let settled = [vec![open], receipt.settled.to_vec()].concat();
    let open = PaymentReceipt { settled: List::try_from(settled).expect("few"), ..receipt };
    assert_eq!(verify(&open), Err(NoReceipt::Open(NodeId(0))));
}

#[test]
fn what_is_wrong_with_a_receipt_is_named() {
    let receipt = sample();
    let entries = payments(5);
    let opened = of_lines(1, Hash::ZERO, &entries);
    let good = certificate(&opened, &ALL);
    let of = |lists: &[(u32, &[u32])]| verify(&with(&receipt, &certificate(&opened, lists)));
    assert_eq!(of(&[(1, &[]), (2, &[])]), Err(NoReceipt::Certificate(Refusal::TooWeak)));
    assert_eq!(
        of(&[(1, &[]), (2, &[]), (2, &[])]),
        Err(NoReceipt::Certificate(Refusal::Unfit("the signers of a certificate stand in order, each once")))
    );
    assert_eq!(
        of(&[(1, &[]), (2, &[]), (3, &[]), (7, &[])]),
        Err(NoReceipt::Certificate(Refusal::Stranger(NodeId(7))))
    );
    let mut said = good.said.to_vec();
    said[1].signature = said[0].signature;
    let forged = Certificate { said: said.try_into().expect("few"), ..good.clone() };
    assert_eq!(verify(&with(&receipt, &forged)), Err(NoReceipt::Certificate(Refusal::Forged(NodeId(2)))));
    let other = of_lines(2, Hash::ZERO, &entries);
    assert_eq!(verify(&with(&receipt, &certificate(&other, &ALL))), Err(NoReceipt::OtherBatch));
    let elsewhere = Certificate { epoch: Epoch(8), ..good.clone() };
    assert_eq!(verify(&with(&receipt, &elsewhere)), Err(NoReceipt::OtherView));
    let foreign = |context| View { context, ..(*view(4)).clone() };
    let contexts = [
        synod_broadcast::signed::Context { shard: 1, ..CONTEXT },
        synod_broadcast::signed::Context { view: Hash([6; 32]), ..CONTEXT },
    ];
    for context in contexts {
        let told = verify_receipt::<Certificate>(&receipt, &foreign(context), &keys(9));
        assert_eq!(told, Err(NoReceipt::OtherView));
    }
    let later = Roster::new(Epoch(8), view(4).roster.members().to_vec()).expect("the same members");
    let later = View { roster: Arc::new(later), ..(*view(4)).clone() };
    let told = verify_receipt::<Certificate>(&receipt, &later, &keys(9));
    assert_eq!(told, Err(NoReceipt::OtherView));
    let cluster = View { cluster: Hash([3; 32]), ..(*view(4)).clone() };
    let told = verify_receipt::<Certificate>(&receipt, &cluster, &keys(9));
    assert!(matches!(told, Err(NoReceipt::Certificate(Refusal::Forged(_)))), "{told:?}");
    let nothing =
        PaymentReceipt { certificate: Blob::try_from(Bytes::new()).expect("short"), ..receipt.clone() };
    assert!(matches!(verify(&nothing), Err(NoReceipt::Malformed(_))));
    // One word is nobody's level.
    let few: Vec<SettledBy> = receipt.settled.iter().take(1).cloned().collect();
    let few = PaymentReceipt { settled: List::try_from(few).expect("few"), ..receipt.clone() };
    assert_eq!(verify(&few), Err(NoReceipt::Settled(Refusal::TooWeak)));
    let mut settled = receipt.settled.to_vec();
    settled[0].signature = settled[1].signature;
    let forged = PaymentReceipt { settled: List::try_from(settled).expect("few"), ..receipt };
    assert_eq!(verify(&forged), Err(NoReceipt::Settled(Refusal::Forged(NodeId(0)))));
}

/// Whether bytes are a receipt that is good.
fn passes(bytes: Vec<u8>) -> Option<Proved> {
    let receipt = PaymentReceipt::decode(Bytes::from(bytes), &Limits::default()).ok()?;
    verify(&receipt).ok()
}

#[test]
fn no_receipt_passes_of_which_a_bit_is_another() {
    let good = sample().encode().to_vec();
    assert!(passes(good.clone()).is_some());
    let mut drawn = Drawn::new(5);
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << drawn.below(8);
        assert_eq!(passes(bytes), None, "byte {at}");
    }
    for cut in 0..good.len() {
        assert_eq!(passes(good[..cut].to_vec()), None, "{cut} bytes");
    }
}

/// Bytes are changed, cut out, doubled and taken from receipts of other payments: what passes says the truth still.
#[test]
fn whatever_is_made_of_receipts_proves_only_what_happened() {
    let entries = payments(5);
    let opened = of_lines(1, Hash::ZERO, &entries);
    let words: Vec<Receipt> = (0..4).map(|by| word(by, &opened, &[])).collect();
    let receipts: Vec<PaymentReceipt> = (0..5)
        .map(|at| {
            let lists: &[(u32, &[u32])] =
                if at < 3 { &ALL } else { &[(0, &[0]), (1, &[1]), (2, &[]), (3, &[])] };
            made(&entries[at..=at], &opened, &[certificate(&opened, lists)], &words).expect("certified")
        })
        .collect();
    let happened: BTreeSet<Hash> = opened.digests.iter().copied().collect();
    let (mut passed, mut drawn) = (0, Drawn::new(11));
    for _ in 0..4_000 {
        let [one, other] = [0, 1].map(|_| receipts[pick(&mut drawn, 5)].clone());
        let mut receipt = one.clone();
        match drawn.below(8) {
            0 => receipt.chain = other.chain,
            1 => receipt.place = other.place,
            2 => receipt.header = other.header,
            3 => receipt.certificate = other.certificate,
            4 => receipt.settled = other.settled,
            5 => {
                let mut settled = [receipt.settled.to_vec(), other.settled.to_vec()].concat();
                settled.sort_by_key(|word| word.member);
                settled.dedup_by_key(|word| word.member);
                settled.truncate(pick(&mut drawn, 5));
                receipt.settled = List::try_from(settled).expect("few");
            }
            6 => {
                let (mut mine, theirs) = (certificate_of(&receipt), certificate_of(&other));
                let mut said = [mine.said.to_vec(), theirs.said.to_vec()].concat();
                said.swap(pick(&mut drawn, 6), 0);
                said.truncate(1 + pick(&mut drawn, 6));
                mine.said = List::try_from(said).expect("few");
                receipt = with(&receipt, &mine);
            }
            _ => {
                let mut changed = receipt.chain.to_vec();
                changed[0].kind =
                    Kind::Pay(Leg { to: custodial(3), amount: Units(u128::from(drawn.below(9))) });
                receipt.chain = List::try_from(changed).expect("one");
            }
        }
        let mut bytes = receipt.encode().to_vec();
        if drawn.below(3) == 0 {
            let at = pick(&mut drawn, bytes.len());
            bytes[at] = u8::try_from(drawn.below(256)).expect("a byte");
        }
        if let Some(proved) = passes(bytes) {
            passed += 1;
            assert!(happened.contains(&proved.digest), "{proved:?} never happened");
            assert_eq!(digest(&proved.entry), proved.digest);
            assert!(proved.certified_by.count() >= 3);
        }
    }
    assert!((100..3_000).contains(&passed), "{passed} of 4,000 passed");
}

/// Written by the first release that makes receipts: keys of the tests, a payment of 102 by 0-1-1 to 0-2-2.
#[test]
#[expect(clippy::disallowed_methods, reason = "the vector is read and, once, written by its test")]
fn receipts_of_the_first_format_are_read_for_ever() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/receipt-1.hex");
    let hex: String = sample().encode().iter().map(|byte| format!("{byte:02x}")).collect();
    if std::env::var_os("SYNOD_BLESS").is_some() && !std::path::Path::new(path).exists() {
        std::fs::write(path, format!("{hex}\n")).expect("the vector is written");
    }
    let kept = std::fs::read_to_string(path).expect("the vector is there");
    assert_eq!(kept.trim_end(), hex, "the format of receipts is another");
    let digits: Vec<u8> = kept.trim_end().bytes().collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("hex");
    let proved = passes(digits.chunks(2).map(byte).collect()).expect("it is good");
    assert_eq!((proved.level, proved.entry), (Level::Stable, payments(2).remove(1)));
    assert_eq!(sample().format, Format::First);
    assert_eq!(kept.get(..2), Some("01"), "the first byte is the format");
}

/// Which batches were shown with their certificates.
fn shown(alone: &Alone) -> Vec<Lot> {
    let all = alone.told.iter().filter_map(|output| match output {
        Output::Certified { opened, .. } => Some(opened.lot()),
        _ => None,
    });
    all.collect()
}

#[test]
fn certificates_of_payments_to_this_institution_are_told_again_until_what_they_settle_is_kept() {
    let mut alone = Alone::new();
    let ours = carried(issuer(3), 1, genesis(issuer(3)), pay(custodial(0), 1), 1);
    let theirs = carried(issuer(3), 2, digest(&ours.entry), pay(custodial(2), 1), 2);
    let one = batch(1, Hash::ZERO, Vec::new(), vec![ours]);
    let two = batch(2, one.digest, Vec::new(), vec![theirs]);
    for opened in [&one, &two] {
        alone.hear(3, prepare(opened));
        alone.certify(opened, ALL);
    }
    assert_eq!(shown(&alone), [one.lot()], "the second concerns nobody here");
    for again in [alone.restarted(), alone.compacted(), alone.compacted().restarted()] {
        assert_eq!(shown(&again), [one.lot()]);
    }
    alone.ask(Input::Kept(1));
    for again in [alone.restarted(), alone.compacted()] {
        assert!(shown(&again).is_empty(), "the user keeps it");
    }
}

#[test]
fn words_about_this_members_last_batches_are_asked_for_again_after_a_restart() {
    let mut alone = Alone::new();
    let draft = crate::bank::draft(issuer(0), pay(custodial(1), 5), 1);
    alone.ask(Input::Order { ticket: 1, draft });
    let mine = alone.mine();
    alone.certify(&mine, ALL);
    alone.ask(Input::Kept(1));
    for mut again in [alone.restarted(), alone.compacted()] {
        assert_eq!(shown(&again), [mine.lot()]);
        again.wait(500);
        let asks = again.sent.iter().filter(|message| {
            let own = synod_astro::Word::AskReceipts(List::try_from(vec![mine.lot()]).expect("one"));
            **message == crate::bank::Message::Own(own)
        });
        assert_eq!(asks.count(), 3, "everybody is asked");
        for by in [1, 2] {
            again.hear(by, crate::bank::Message::Own(synod_astro::Word::Receipt(word(by, &mine, &[]))));
        }
        let levels = again.told.iter().filter_map(|output| match output {
            Output::Progress { level, .. } => Some(*level),
            _ => None,
        });
        assert_eq!(
            levels.collect::<Vec<_>>(),
            [Level::Settled, Level::Stable],
            "with its own there are three"
        );
        let words = again.told.iter().filter(|output| matches!(output, Output::Receipted(_)));
        assert_eq!(words.count(), 3);
    }
}
