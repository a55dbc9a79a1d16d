//! The rows that one order handed in and carried does not show.

use synod_astro::{Auth, Authorized, Draft, LINE_BYTES_MAX, Line, Opened, Parameters, Promise};
use synod_broadcast::signed::{self, Except};
use synod_crypto::{Hash, Scope};
use synod_ledger::{Code, Entry, EntryId, HOLDS_OPEN_MAX, Kind, Part, Total, genesis};
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Blob, Bytes, Limits, Wire};

use super::shop::{At, Case, From, LIES, OTHER, OWN, Shop, decide, first_of, good, of, pays};
use crate::alone::{Alone, Record};
use crate::bank::{
    CLUSTER, CONTEXT, EPOCH, Message, custodial, digest, draft, first, hold_kind, issuer, keys, owner,
    signed as signs, signing,
};
use crate::forge::{ALL, batch};
use crate::{claims, queues, shards};

fn decoded(bytes: &[u8]) -> bool {
    Line::decode(Bytes::copy_from_slice(bytes), &Limits { frame_max: LINE_BYTES_MAX }).is_ok()
}

/// A frame of the liar's with these bytes for a batch, signed as if they were one.
fn payload(bytes: Vec<u8>, digest: Hash, epoch: Epoch) -> From {
    let mut shop = Shop::new();
    let opened = good_batch();
    let statement = signed::Acked {
        context: CONTEXT,
        lot: opened.lot(),
        digest,
        except: Except::default().digest(),
        authorized: true,
    };
    let scope = Scope { cluster: CLUSTER, epoch };
    let signature = keys(LIES).sign(scope, NodeId(LIES), statement).signature;
    let payload = Blob::try_from(Bytes::from(bytes)).expect("no longer than a frame");
    let message = signed::Message::Prepare { lot: opened.lot(), payload, signature };
    shop.alone.hear(LIES, Message::Broadcast(message));
    shop.made(&opened)
}

fn good_batch() -> Opened {
    batch(1, Hash::ZERO, Vec::new(), vec![good()])
}

/// The frame with these bytes, signed for what they are, or for a good batch where they are none.
fn frame(bytes: Vec<u8>, epoch: Epoch) -> From {
    let digest = Opened::read(&Bytes::from(bytes.clone())).map_or(good_batch().digest, |read| read.digest);
    payload(bytes, digest, epoch)
}

pub(super) fn malformed() -> (At, From) {
    assert_eq!(
        frame(good_batch().payload().to_vec(), EPOCH),
        From::Endorsed,
        "the control: the frame is good but for its bytes"
    );
    let line = good().encode();
    assert!(decoded(&line), "the control");
    let cut = &line[..line.len() - 1];
    let at = if decoded(cut) { At::Taken } else { At::Undecoded };
    let mut bytes = good_batch().payload().to_vec();
    bytes.pop();
    (at, frame(bytes, EPOCH))
}

pub(super) fn too_large() -> (At, From) {
    let longer = [good().encode().to_vec(), vec![0; LINE_BYTES_MAX as usize]].concat();
    let at = if decoded(&longer) { At::Taken } else { At::Undecoded };
    let most = usize::try_from(Alone::new().parameters.payload_max()).expect("few");
    let lines = (1_u64..).take(most / good().encode().len() + 1).map(|n| {
        let id = EntryId { spender: signing(LIES), n };
        signs(id, genesis(signing(LIES)), Kind::Move(3), u128::from(n))
    });
    let opened = batch(1, Hash::ZERO, Vec::new(), lines.collect());
    (at, frame(opened.payload().to_vec(), EPOCH))
}

/// Where institutions vouch for all, nothing that an owner signed is good; profile II sets no money aside.
pub(super) fn unsupported() -> (At, From) {
    claims::money_cannot_be_set_aside();
    let mut shop = Shop::of(Alone::custodians());
    let at = shop.submit(first(signing(OWN), Kind::Move(0), 1));
    let line = first_of(of(issuer(LIES), Kind::Move(3)));
    let opened = shop.carry(LIES, Vec::new(), vec![first(signing(LIES), Kind::Move(3), 1), line]);
    (at, shop.made(&opened))
}

/// An entry names no network: its owner's signature does.
pub(super) fn wrong_network() -> (At, From) {
    let of = |who: u32| {
        let line = first(signing(who), Kind::Move(0), 1);
        let scope = Scope { cluster: Hash([66; 32]), epoch: Epoch(0) };
        let statement = Authorized { entry: digest(&line.entry) };
        let claim = owner(signing(who)).sign(scope, NodeId(u32::MAX), statement);
        Line { auth: Auth::Owner(claim.signature), ..line }
    };
    both_lines(&of)
}

/// The same line of an owner here and there.
fn both_lines(of: &dyn Fn(u32) -> Line) -> (At, From) {
    (Shop::new().submit(of(OWN)), from_line(Shop::new(), of(LIES)))
}

fn from_line(mut shop: Shop, line: Line) -> From {
    let good = first_of(of(issuer(LIES), pays(custodial(OTHER), 1)));
    let opened = shop.carry(LIES, Vec::new(), vec![line, good]);
    shop.made(&opened)
}

/// What an owner signs is good in every view, so no order is of a wrong one. A batch of another view has no signature here.
pub(super) fn wrong_view() -> (At, From) {
    assert_ne!(EPOCH, Epoch(0), "the view here has another number than the one under which owners sign");
    let at = Shop::new().submit(first(signing(OWN), Kind::Move(0), 1));
    assert_eq!(at, At::Taken);
    (At::Nothing, frame(good_batch().payload().to_vec(), Epoch(EPOCH.0 + 1)))
}

/// With an invented signature, by its owner where its institution has to, and by an institution where its owner has to.
pub(super) fn unauthorized() -> (At, From) {
    let forged = |who: u32| {
        let other = first(signing(OTHER), Kind::Move(0), 1);
        Line { auth: other.auth, ..first(signing(who), Kind::Move(0), 1) }
    };
    let by_nobody = |who: u32| Line { auth: Auth::Institution, ..first(signing(who), Kind::Move(0), 1) };
    let by_itself = |who: u32| first(custodial(who), Kind::Move(0), 1);
    let told = both_lines(&forged);
    assert_eq!(both_lines(&by_itself), told);
    assert_eq!(from_line(Shop::new(), by_nobody(LIES)), told.1);
    assert_eq!(Shop::new().order(draft(signing(OWN), Kind::Move(0), 1)), told.0);
    told
}

/// No order of amounts below 2^96 takes a total past 2^192 in the life of a ledger: the total of the payee is put there by hand.
pub(super) fn overflow() -> (At, From) {
    let full = || {
        let edited = Alone::new().edited(|record| {
            if let Record::Own(Promise::Book(part)) = record
                && let Part::Account(standing) = &mut **part
                && standing.opening.id == custodial(OTHER)
            {
                (standing.credits, standing.debits) = (Total::MAX, Total::MAX);
            }
        });
        Shop::of(edited)
    };
    let case =
        Case { before: |_| Vec::new(), order: |who| of(issuer(who), pays(custodial(OTHER), 1)), cure: None };
    (case.at(full()), case.from(full()))
}

/// Nothing freezes an account yet: its flag is put there by hand.
pub(super) fn frozen() -> (At, From) {
    let cold = || {
        let edited = Alone::new().edited(|record| {
            if let Record::Own(Promise::Book(part)) = record
                && let Part::Account(standing) = &mut **part
                && [issuer(OWN), issuer(LIES)].contains(&standing.opening.id)
            {
                standing.is_frozen = true;
            }
        });
        Shop::of(edited)
    };
    let case =
        Case { before: |_| Vec::new(), order: |who| of(issuer(who), pays(custodial(OTHER), 1)), cure: None };
    (case.at(cold()), case.from(cold()))
}

/// The same bytes again: handed in, and in another batch of the liar's, open and settled.
pub(super) fn exists() -> (At, From) {
    let mut shop = Shop::new();
    let line = first(signing(OWN), Kind::Move(0), 1);
    assert_eq!(shop.submit(line.clone()), At::Taken);
    let open = shop.submit(line.clone());
    shop.certify_own();
    assert_eq!(shop.submit(line), open, "also once it has settled");
    let mut shop = Shop::new();
    let line = first_of(of(issuer(LIES), pays(custodial(OTHER), 1)));
    let first = shop.carry(LIES, Vec::new(), vec![line.clone()]);
    assert_eq!(shop.made(&first), From::Endorsed);
    let again = shop.carry(LIES, Vec::new(), vec![line.clone(), good()]);
    let made = shop.made(&again);
    shop.alone.certify(&again, ALL);
    let settled = shop.carry(LIES, Vec::new(), vec![line]);
    assert_eq!(shop.made(&settled), made);
    (open, made)
}

/// An entry below the last one that settled: its digest is not kept, so it is not told from another for its place. A node's index
/// finds it by its name before the replica is asked.
pub(super) fn exists_below() -> (At, From) {
    let chain = |who: u32| {
        let one = first(signing(who), Kind::Move(0), 1);
        let id = EntryId { spender: signing(who), n: 2 };
        let two = signs(id, digest(&one.entry), Kind::Move(0), 2);
        [one, two]
    };
    let mut shop = Shop::new();
    for line in chain(OWN) {
        assert_eq!(shop.submit(line), At::Taken);
        shop.certify_own();
    }
    shop.alone.ask(synod_astro::Input::Kept(2));
    let [one, _] = chain(OWN);
    let at = shop.submit(one);
    let mut shop = Shop::new();
    shop.settle_lines(LIES, Vec::new(), chain(LIES).to_vec());
    let [one, _] = chain(LIES);
    (at, from_line(shop, one))
}

/// An owner signs two entries for one place.
pub(super) fn sequence_conflict() -> (At, From) {
    let two = |who: u32| [1, 2].map(|transfer| first(signing(who), Kind::Move(0), transfer));
    let mut shop = Shop::new();
    let [one, other] = two(OWN);
    assert_eq!(shop.submit(one), At::Taken);
    let at = shop.submit(other);
    let mut shop = Shop::new();
    let [one, other] = two(LIES);
    let opened = shop.carry(LIES, Vec::new(), vec![one]);
    assert_eq!(shop.made(&opened), From::Endorsed);
    (at, from_line(shop, other))
}

/// Beyond the window, and inside it with a place missing: until that one is here.
pub(super) fn gap(distance: u64) -> (At, From) {
    let mut prev = genesis(signing(LIES));
    let chain: Vec<Line> = (1..=distance)
        .map(|n| {
            let line = signs(EntryId { spender: signing(LIES), n }, prev, Kind::Move(3), u128::from(n));
            prev = digest(&line.entry);
            line
        })
        .collect();
    let id = EntryId { spender: signing(OWN), n: distance };
    let at = Shop::new().submit(signs(id, Hash([1; 32]), Kind::Move(0), 1));
    let mut shop = Shop::new();
    let (last, before) = chain.split_last().expect("some");
    let good = first_of(of(issuer(LIES), pays(custodial(OTHER), 1)));
    let opened = shop.carry(LIES, Vec::new(), vec![last.clone(), good]);
    assert_eq!(shop.made(&opened), From::LeftOut);
    for lines in before.chunks(5) {
        shop.settle_lines(OTHER, Vec::new(), lines.to_vec());
    }
    assert_eq!(shop.alone.lists(&opened).last().map(Vec::len), Some(0), "endorsed behind the one before it");
    (at, From::LeftOutUntilCured)
}

pub(super) fn window() -> u64 {
    Alone::new().parameters.window
}

/// Behind an entry that was split, or is another's: on another branch.
pub(super) fn chain_mismatch() -> (At, From) {
    both_lines(&|who| {
        let id = EntryId { spender: signing(who), n: 1 };
        signs(id, Hash([8; 32]), Kind::Move(0), 1)
    })
}

/// Behind a place for which an owner signed two entries: until one of them is certified.
pub(super) fn conflicted() -> (At, From) {
    let branches = |who: u32| {
        let [one, other] = [1, 2].map(|transfer| first(signing(who), Kind::Move(0), transfer));
        let id = EntryId { spender: signing(who), n: 2 };
        (one.clone(), other, signs(id, digest(&one.entry), Kind::Move(0), 3))
    };
    let mut shop = Shop::new();
    let (one, other, behind) = branches(OWN);
    assert_eq!(shop.submit(one), At::Taken);
    assert_eq!(shop.submit(other), At::Shown(Code::SequenceConflict));
    let at = shop.submit(behind.clone());
    shop.certify_own();
    assert_eq!(shop.submit(behind), At::Taken, "the account goes on");
    let mut shop = Shop::new();
    let (one, other, behind) = branches(LIES);
    let first = shop.carry(LIES, Vec::new(), vec![one]);
    let second = shop.carry(LIES, Vec::new(), vec![other]);
    let good = first_of(of(issuer(LIES), pays(custodial(OTHER), 1)));
    let last = shop.carry(LIES, Vec::new(), vec![behind, good]);
    assert_eq!((shop.made(&first), shop.made(&second)), (From::Endorsed, From::LeftOutAndShown));
    assert_eq!(shop.alone.lists(&last), [[0]], "the others of the batch are endorsed");
    shop.alone.certify(&first, ALL);
    assert_eq!(
        shop.alone.lists(&last).last().map(Vec::len),
        Some(0),
        "endorsed once one of the two is certified"
    );
    assert_eq!(shop.alone.lists(&second), [[0]], "the other one never is");
    (at, From::LeftOutUntilCured)
}

pub(super) fn queued() -> (At, From) {
    let (is_queued, is_released) = queues::waits_for_money();
    assert!(is_released, "the liar's entry is delivered, and waits");
    (if is_queued { At::Queued } else { At::Nothing }, From::Waits)
}

pub(super) fn rejected() -> (At, From) {
    let (why, is_rejected) = claims::is_rejected_without_money();
    assert_eq!(why, synod_astro::Refusal::Ledger(Code::InsufficientFunds));
    (At::Told(Code::InsufficientFunds), if is_rejected { From::Rejected } else { From::Nothing })
}

/// A name that has a place already, for something else.
pub(super) fn exists_different() -> (At, From) {
    let mut shop = Shop::new();
    let order = |amount| Draft { transfer: 7, ..of(issuer(OWN), pays(custodial(OTHER), amount)) };
    assert_eq!(shop.order(order(1)), At::Taken);
    let at = shop.order(order(2));
    let theirs = Draft { spender: custodial(OWN), ..order(2) };
    assert_eq!(
        shop.order(theirs),
        At::Told(Code::InsufficientFunds),
        "a name of one payer is none of another's"
    );
    let mut shop = Shop::new();
    let one = first_of(of(issuer(LIES), pays(custodial(OTHER), 1)));
    let entry = Entry {
        id: EntryId { n: 2, ..one.entry.id },
        prev: digest(&one.entry),
        kind: pays(custodial(OTHER), 2),
        ..(*one.entry).clone()
    };
    let opened =
        shop.carry(LIES, Vec::new(), vec![one, Line { entry: entry.into(), auth: Auth::Institution }]);
    (at, shop.made(&opened))
}

/// More entries than an account may have open, or more batches than a lane.
pub(super) fn busy() -> (At, From) {
    let mut shop = Shop::of(Alone::bounded(|parameters| parameters.window = 3));
    let order = || of(issuer(OWN), pays(custodial(OTHER), 1));
    let draft = |at: u128| Draft { transfer: at, ..order() };
    assert!((1..=3).all(|at| shop.order(draft(at)) == At::Taken));
    let at = shop.order(draft(4));
    let mut shop = Shop::new();
    let lanes = shop.alone.parameters.lane_window;
    let lines = (1..=lanes + 1).map(|at| first_of(of(issuer(LIES), pays(custodial(OTHER), u128::from(at)))));
    let batches: Vec<_> = lines.map(|line| shop.carry(LIES, Vec::new(), vec![line])).collect();
    let (last, before) = batches.split_last().expect("more than a window");
    assert!(before.iter().all(|opened| !shop.alone.lists(opened).is_empty()), "a window of them is answered");
    (at, shop.made(last))
}

/// One hold more than a payer may have open, until one is decided.
pub(super) fn holds_open() -> (At, From) {
    let roomy = |parameters: &mut Parameters| {
        (parameters.window, parameters.batch_max, parameters.batch_bytes) = (2_048, 1_100, 256 << 10);
    };
    let holds = |who: u32| {
        let hold = hold_kind(custodial(OTHER), 1, issuer(OTHER));
        (0..u128::from(HOLDS_OPEN_MAX))
            .map(move |at| Draft { transfer: 10 + at, ..of(issuer(who), hold.clone()) })
    };
    let mut shop = Shop::of(Alone::bounded(roomy));
    for draft in holds(OWN) {
        assert_eq!(shop.order(draft), At::Taken);
    }
    let one_more = |who| of(issuer(who), hold_kind(custodial(OTHER), 1, issuer(OTHER)));
    let at = shop.order(one_more(OWN));
    let mut shop = Shop::of(Alone::bounded(roomy));
    let drafts = holds(LIES).collect();
    shop.settle(LIES, Vec::new(), drafts);
    let line = shop.line(one_more(LIES));
    let opened = shop.carry(LIES, Vec::new(), vec![line, good()]);
    assert_eq!(shop.made(&opened), From::LeftOut);
    decide(&mut shop, EntryId { spender: issuer(LIES), n: 1 });
    assert_eq!(shop.alone.lists(&opened).last().map(Vec::len), Some(0), "endorsed once one is decided");
    (at, From::LeftOutUntilCured)
}

/// Profile II: the entry is left out. Between shards: the batch is refused, and whoever made it or showed the bundle is blamed.
pub(super) fn forged_proofs() -> (At, From) {
    claims::a_dependency_that_proves_nothing_is_not_endorsed_and_holds_no_other_entry_up();
    shards::proofs::a_bundle_that_proves_nothing_is_blamed_and_changes_nothing();
    shards::proofs::a_batch_that_imports_what_cannot_be_credited_is_blamed();
    (At::Nothing, From::Blamed("bad_import"))
}

pub(super) fn replayed_proofs() -> (At, From) {
    claims::a_payment_that_is_shown_again_is_credited_once();
    shards::proofs::an_entry_is_imported_again_in_another_batch_and_none_but_it_in_its_place();
    (At::Nothing, From::Endorsed)
}
