//! The table of section 6, in its order.

use std::collections::BTreeSet;

use synod_ledger::{AccountId, Class, Code, EntryId, Flags, Kind, Leg, Owner, Units, Verdict};
use synod_wire::List;

use super::cases;
use super::shop::At::{Busy, Exists, Nothing as NobodyAsks, Queued, Shown, Taken, Told, Undecoded};
use super::shop::From::{
    Blamed, Dropped, Endorsed, LeftOut, LeftOutAndShown, LeftOutUntilCured, Nothing, Rejected, Waits,
};
use super::shop::{At, Case, From, OTHER, Shop, decide, of, pays, voids};
use crate::bank::{EURO, LIMIT, account, custodial, hold_kind, issuer, multi, opening};

/// A line of the specification.
struct Row {
    /// Its codes and words.
    row: &'static str,
    /// Both columns, as they come out.
    play: fn() -> (At, From),
    /// Both columns, as they are to be.
    comes_to: (At, From),
}

const fn row(row: &'static str, play: fn() -> (At, From), at: At, from: From) -> Row {
    Row { row, play, comes_to: (at, from) }
}

/// Rows 3501 `deadline_passed` and 3132 `not_found` are answers of a node: `node/host/src/pay/tests/codes.rs` and `tools/cli/tests`.
/// What differs from the specification is said in docs/papers/astro.md.
const TABLE: [Row; 45] = [
    row("ok", || plain(|who| of(issuer(who), pays(custodial(OTHER), 1))), Taken, Endorsed),
    row("3001 malformed", cases::malformed, Undecoded, Blamed("wrong_payload")),
    row("3002 too_large", cases::too_large, Undecoded, Blamed("too_long")),
    row("3003 unsupported", cases::unsupported, Told(Code::Unsupported), LeftOut),
    // The signature of an owner names the network, and nothing else does: SYN-3104.
    row("3101 wrong_network", cases::wrong_network, Told(Code::Unauthorized), LeftOut),
    row("3102 wrong_shard", || plain(|_| of(ABROAD, Kind::Move(0))), Told(Code::WrongShard), LeftOut),
    row(
        "3102 wrong_shard of a payee",
        || plain(|who| of(issuer(who), pays(ABROAD, 1))),
        Told(Code::WrongShard),
        LeftOut,
    ),
    row("3103 wrong_view", cases::wrong_view, NobodyAsks, Blamed("bad_signature")),
    row("3104 unauthorized by its signature", cases::unauthorized, Told(Code::Unauthorized), LeftOut),
    row(
        "3104 unauthorized in this lane",
        || plain(|_| of(custodial(OTHER), Kind::Move(0))),
        Told(Code::Unauthorized),
        LeftOut,
    ),
    row("3105 unknown_account", || UNKNOWN_ACCOUNT.both(), Told(Code::UnknownAccount), LeftOutUntilCured),
    row(
        "3106 unknown_beneficiary",
        || UNKNOWN_BENEFICIARY.both(),
        Told(Code::UnknownBeneficiary),
        LeftOutUntilCured,
    ),
    row("3107 amount_zero", || paying(0), Told(Code::AmountZero), LeftOut),
    row("3123 amount_too_large", || paying(1 << 96), Told(Code::AmountTooLarge), LeftOut),
    row("3108 overflow", cases::overflow, Told(Code::Overflow), LeftOut),
    row("3109 ledger_mismatch", || plain(other_ledger), Told(Code::LedgerMismatch), LeftOut),
    row(
        "3110 self_payment",
        || plain(|who| of(issuer(who), pays(issuer(who), 1))),
        Told(Code::SelfPayment),
        Endorsed,
    ),
    row("3110 self_payment with allow_self", || plain(meant), Taken, Endorsed),
    row("3111 exists", cases::exists, Exists, Endorsed),
    // The digest of an entry below the last settled one is not kept.
    row("3111 exists, n < sn", cases::exists_below, Told(Code::SequenceConflict), LeftOut),
    row("3112 sequence_conflict", cases::sequence_conflict, Shown(Code::SequenceConflict), LeftOutAndShown),
    row(
        "3113 sequence_gap, n beyond window",
        || cases::gap(cases::window() + 1),
        Told(Code::SequenceGap),
        LeftOutUntilCured,
    ),
    // The representative holds nothing: a wallet gives the entry again.
    row("- n > sn + 1 inside window", || cases::gap(2), Told(Code::SequenceGap), LeftOutUntilCured),
    row("3114 chain_mismatch", cases::chain_mismatch, Told(Code::ChainMismatch), LeftOut),
    row(
        "3115 insufficient_funds, II-F",
        || UNFUNDED.both(),
        Told(Code::InsufficientFunds),
        LeftOutUntilCured,
    ),
    row("3115 insufficient_funds, I: 3121 queued", cases::queued, Queued, Waits),
    row(
        "3115 insufficient_funds, II: 3122 rejected_funds",
        cases::rejected,
        Told(Code::InsufficientFunds),
        Rejected,
    ),
    // The code of the difference is the node's, which knows what was ordered: SYN-3116.
    row("3116 exists_different", cases::exists_different, Exists, Endorsed),
    // Not built: a refusal binds no name, so the same order is taken once its reason is gone.
    row(
        "3117 id_already_failed",
        || (UNFUNDED.at(Shop::new()), Nothing),
        Told(Code::InsufficientFunds),
        Nothing,
    ),
    row("3118 account_closed", || CLOSED.both(), Told(Code::AccountClosed), LeftOut),
    // Not built: no line of a batch freezes.
    row("3119 frozen", cases::frozen, Told(Code::Frozen), LeftOut),
    row("3120 conflicted", cases::conflicted, Told(Code::Conflicted), LeftOutUntilCured),
    row("3124 hold_not_found", || HOLD_TO_COME.both(), Told(Code::HoldNotFound), LeftOutUntilCured),
    row("3125 hold_resolved", || HOLD_RESOLVED.both(), Told(Code::HoldResolved), LeftOut),
    row("3126 hold_wrong_resolver", || WRONG_RESOLVER.both(), Told(Code::HoldWrongResolver), LeftOut),
    row("3127 hold_amount_exceeded", || AMOUNT_EXCEEDED.both(), Told(Code::HoldAmountExceeded), LeftOut),
    row("3128 too_many_legs", || plain(|who| of(issuer(who), multi(&[]))), Told(Code::TooManyLegs), LeftOut),
    row("3129 limit_not_cosigned", || limit(LIMIT + 1), Told(Code::LimitNotCosigned), LeftOut),
    row("3130 limit_below_use", || LIMIT_BELOW_USE.both(), Told(Code::LimitBelowUse), LeftOutUntilCured),
    row("3131 close_not_empty", || CLOSE_NOT_EMPTY.both(), Told(Code::CloseNotEmpty), LeftOutUntilCured),
    row(
        "3131 close_not_empty, less than is seen",
        || CLOSE_LEAVES.both(),
        Told(Code::CloseNotEmpty),
        Endorsed,
    ),
    row("3402 busy, window", cases::busy, Busy, Dropped),
    row("3402 busy, holds_open", cases::holds_open, Told(Code::Busy), LeftOutUntilCured),
    row("- dependency or bundle forged", cases::forged_proofs, NobodyAsks, Blamed("bad_import")),
    row("- dependency or bundle replayed", cases::replayed_proofs, NobodyAsks, Endorsed),
];

const ABROAD: AccountId = AccountId { shard: 9, registrar: 0, local: 1 };

/// An order that nothing comes before and nothing cures.
fn plain(order: fn(u32) -> synod_astro::Draft) -> (At, From) {
    Case { before: |_| Vec::new(), order, cure: None }.both()
}

fn paying(amount: u128) -> (At, From) {
    match amount {
        0 => plain(|who| of(issuer(who), pays(custodial(OTHER), 0))),
        _ => plain(|who| of(issuer(who), pays(custodial(OTHER), 1 << 96))),
    }
}

fn limit(_: u128) -> (At, From) {
    plain(|who| of(issuer(who), Kind::SetLimit(Units(LIMIT + 1))))
}

fn other_ledger(who: u32) -> synod_astro::Draft {
    synod_astro::Draft { ledger: EURO + 1, ..of(issuer(who), pays(custodial(OTHER), 1)) }
}

fn meant(who: u32) -> synod_astro::Draft {
    synod_astro::Draft { flags: Flags::ALLOW_SELF, ..of(issuer(who), pays(issuer(who), 1)) }
}

fn institution(who: u32) -> Owner {
    Owner::Custodial(u8::try_from(who).expect("few"))
}

/// An account that another institution opens for this one.
const UNKNOWN_ACCOUNT: Case = Case {
    before: |_| Vec::new(),
    order: |who| of(account(OTHER, 4), Kind::Move(u8::try_from(who).expect("few"))),
    cure: Some(|shop, who| {
        drop(shop.settle(OTHER, vec![opening(account(OTHER, 4), institution(who), 0)], Vec::new()));
    }),
};

const UNKNOWN_BENEFICIARY: Case = Case {
    before: |_| Vec::new(),
    order: |who| of(issuer(who), pays(account(OTHER, 4), 1)),
    cure: Some(|shop, _| {
        drop(shop.settle(OTHER, vec![opening(account(OTHER, 4), institution(OTHER), 0)], Vec::new()))
    }),
};

const UNFUNDED: Case = Case {
    before: |_| Vec::new(),
    order: |who| of(custodial(who), pays(custodial(OTHER), 5)),
    cure: Some(|shop, who| fund(shop, custodial(who), 5)),
};

/// The other institution's issuer pays.
fn fund(shop: &mut Shop, to: AccountId, amount: u128) {
    shop.settle(OTHER, Vec::new(), vec![of(issuer(OTHER), pays(to, amount))]);
}

fn named(transfer: u128, draft: synod_astro::Draft) -> synod_astro::Draft {
    synod_astro::Draft { transfer, ..draft }
}

const CLOSED: Case = Case {
    before: |who| vec![named(1, of(custodial(who), Kind::Close(Leg { to: issuer(who), amount: Units(0) })))],
    order: |who| of(custodial(who), Kind::Move(0)),
    cure: None,
};

const HOLD_TO_COME: Case = Case {
    before: |_| Vec::new(),
    order: |who| of(custodial(who), voids(EntryId { spender: issuer(OTHER), n: 1 })),
    cure: Some(|shop, who| {
        let hold = hold_kind(custodial(OTHER), 1, custodial(who));
        shop.settle(OTHER, Vec::new(), vec![of(issuer(OTHER), hold)]);
    }),
};

/// A hold of 5 by the issuer, over which this one of its institution decides.
fn held(who: u32, resolver: AccountId) -> synod_astro::Draft {
    named(1, of(issuer(who), hold_kind(custodial(OTHER), 5, resolver)))
}

fn first_hold(who: u32) -> EntryId {
    EntryId { spender: issuer(who), n: 1 }
}

const HOLD_RESOLVED: Case = Case {
    before: |who| vec![held(who, issuer(who)), named(2, of(issuer(who), voids(first_hold(who))))],
    order: |who| of(issuer(who), voids(first_hold(who))),
    cure: None,
};

const WRONG_RESOLVER: Case = Case {
    before: |who| vec![held(who, custodial(who))],
    order: |who| of(issuer(who), voids(first_hold(who))),
    cure: None,
};

const AMOUNT_EXCEEDED: Case = Case {
    before: |who| vec![held(who, issuer(who))],
    order: |who| {
        let holds = List::try_from(vec![first_hold(who)]).expect("one");
        let verdict = Verdict::Post(List::try_from(vec![Units(6)]).expect("one"));
        of(issuer(who), Kind::Resolve { holds, verdict })
    },
    cure: None,
};

const LIMIT_BELOW_USE: Case = Case {
    before: |who| vec![named(1, of(issuer(who), pays(custodial(OTHER), 10)))],
    order: |who| of(issuer(who), Kind::SetLimit(Units(5))),
    cure: Some(|shop, who| fund(shop, issuer(who), 5)),
};

const CLOSE_NOT_EMPTY: Case = Case {
    before: |who| vec![named(1, of(issuer(who), hold_kind(custodial(OTHER), 5, issuer(OTHER))))],
    order: |who| of(issuer(who), Kind::Close(Leg { to: custodial(OTHER), amount: Units(0) })),
    cure: Some(|shop, who| decide(shop, first_hold(who))),
};

/// An account that has 5 would close and pay 4 out. Members who endorse it may have seen less.
const CLOSE_LEAVES: Case = Case {
    before: |who| vec![named(1, of(issuer(who), pays(custodial(who), 5)))],
    order: |who| of(custodial(who), Kind::Close(Leg { to: issuer(who), amount: Units(4) })),
    cure: None,
};

#[test]
fn every_row_of_bad_input_comes_to_what_the_table_says_in_both_columns() {
    let mut wrong = Vec::new();
    for Row { row, play, comes_to } in &TABLE {
        match std::panic::catch_unwind(play) {
            Ok(came) if came == *comes_to => {}
            Ok(came) => wrong.push(format!("{row}: {came:?}, and not {comes_to:?}")),
            Err(_) => wrong.push(format!("{row}: it panicked, as said above")),
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// What the same bytes can come to later is the class of the code: what is left out for ever is of a permanent one.
#[test]
fn what_may_be_good_later_is_transient_and_nothing_else() {
    for Row { row, comes_to: (at, from), .. } in &TABLE {
        let (Told(code) | Shown(code)) = at else { continue };
        let number = code.number().to_string();
        // These are told under another row's code.
        let is_own = row.starts_with(&number) || row.starts_with("- n >");
        let is_cured = match from {
            LeftOutUntilCured => true,
            LeftOut | LeftOutAndShown => false,
            _ => continue,
        };
        // Nobody thaws, so what is frozen stays out.
        if is_own && *code != Code::Frozen {
            assert_eq!(code.class() == Class::Transient, is_cured, "{row}");
        }
    }
    assert_eq!(Code::Frozen.class(), Class::Transient);
}

/// The codes of section 6, but for those of nodes alone.
#[test]
fn the_table_has_every_code_of_the_section() {
    let has: BTreeSet<&str> = TABLE.iter().flat_map(|row| row.row.split([' ', ','])).collect();
    let wanted = (3_101..=3_131).chain(3_001..=3_003).chain([3_402]);
    for number in wanted {
        assert!(has.contains(&*number.to_string()), "{number}");
    }
}
