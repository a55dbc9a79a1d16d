//! What the members signed together of how accounts stood: `GET /v1/pay/cuts`, `/v1/pay/accounts/{id}/proof`,
//! `/v1/pay/ledgers/{ledger}/proof` and `/v1/pay/accounts/{id}/statement`.
//!
//! A cut is named by its number; where none is said the newest that this node keeps is meant.

use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Map, Value, json};
use synod_config::{SynError, code, hex, unhex};
use synod_host::pay::{
    AccountId, CUT_KIND, Cursor, Cuts, Gap, KeptCut, PAGE_MAX, Period, Proof, Statement, StatementLine,
    Stood, Teller, Total,
};
use synod_wire::{Limits, Wire as _};

use super::show::{reply, shown};
use super::{LIMIT_USUAL, account, blocking, teller};
use crate::http::request::{Query, between, malformed, unsupported};
use crate::http::server::Front;
use crate::problem::Problem;
use crate::web::Link;

/// A number of the query.
fn told(query: &Query, name: &str) -> Result<Option<u64>, Problem> {
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    let number = query.get(name).map(|text| number(text).ok_or_else(|| malformed(&not_number(name))));
    number.transpose()
}

fn not_number(name: &str) -> String {
    format!("{name} is not a decimal number below 2^64")
}

/// Why something is not told of a cut; `what` is what was asked for.
fn refused(gap: Gap, what: &str) -> Problem {
    let text = |number: u64| number.to_string();
    match gap {
        Gap::Off => unsupported("what needs cuts, with protocol.cut_every = 0 in the genesis,"),
        Gap::NotYet(number, newest) => {
            let cut = number.map_or_else(|| "the first cut".to_owned(), |number| format!("cut {number}"));
            let newest = if newest == 0 { "none".to_owned() } else { text(newest) };
            SynError::of(code::CUT_NOT_YET, &[("cut", &cut), ("newest", &newest)]).into()
        }
        Gap::NotKept(number, (oldest, newest)) => {
            let values = [("cut", &*text(number)), ("oldest", &*text(oldest)), ("newest", &*text(newest))];
            SynError::of(code::CUT_NOT_KEPT, &values).into()
        }
        Gap::Nothing(number) => {
            SynError::of(code::NOT_FOUND, &[("what", &format!("{what} behind cut {number}"))]).into()
        }
        Gap::Lacks(number) => {
            SynError::of(code::INDEX_LACKS, &[("what", what), ("cut", &text(number))]).into()
        }
        Gap::Backwards => malformed("the statement would end before it begins"),
    }
}

/// A proof as `synod client verify` reads it.
fn proof(proof: &Proof, by: &Teller) -> Value {
    let view = by.view();
    json!({
        "schema": "synod-proof/1",
        "kind": CUT_KIND,
        "cluster": view.cluster.to_string(),
        "epoch": view.roster.epoch().0,
        "bytes": hex(&proof.encode()),
    })
}

/// A cut that is kept.
fn kept(cut: &KeptCut) -> Value {
    let ledgers = cut.record.ledgers.iter().map(|of| {
        let sums = &of.root.sums;
        json!({
            "ledger": of.ledger,
            "accounts": of.count,
            "credits": sums.credits.to_string(),
            "debits": sums.debits.to_string(),
            "pending": sums.pending.to_string(),
            "liabilities": sums.liabilities.to_string(),
            "issued": sums.issued.to_string(),
        })
    });
    json!({
        "cut": cut.record.number.to_string(),
        "proposer": cut.record.proposer,
        "heard_ms": cut.heard_ms.to_string(),
        "root": cut.record.digest().to_string(),
        "signers": cut.certificate.signed.iter().map(|one| one.member).collect::<Vec<u8>>(),
        "ledgers": ledgers.collect::<Vec<Value>>(),
    })
}

/// `GET /v1/pay/cuts`: the cuts that this node keeps behind a number, oldest first; without one the newest.
pub(in crate::http) async fn cuts(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["after", "limit"])?;
    let teller = Arc::clone(teller(&front)?);
    let most = u32::try_from(PAGE_MAX).unwrap_or(u32::MAX);
    let count = usize::try_from(query.limit(LIMIT_USUAL, most)?).unwrap_or(usize::MAX);
    let after = told(&query, "after")?;
    let read = move || {
        let cuts = teller.cuts().map_err(|gap| refused(gap, "cuts"))?;
        let last = || cuts.newest().saturating_sub(count as u64).saturating_add(1);
        let from = after.map_or_else(last, |after| after.saturating_add(1));
        let mut found = cuts.cuts_from(from, count.saturating_add(1));
        let has_more = found.len() > count;
        found.truncate(count);
        Ok::<_, Problem>((found.iter().map(kept).collect::<Vec<Value>>(), has_more))
    };
    let (rows, has_more) = blocking(read).await??;
    Ok(reply(&link, &json!({ "cuts": rows, "more": has_more })))
}

/// The ledger of an account behind a cut: its own, or that of the money of its registrar.
fn ledger(cuts: &Cuts, account: AccountId, as_of: Option<u64>) -> Result<u32, Problem> {
    let number = cuts.cut(as_of).map_err(|gap| refused(gap, ""))?.record.number;
    let issuer = AccountId { local: 1, ..account };
    let stood = cuts.stood(account, number).or_else(|| cuts.stood(issuer, number));
    let ledger = stood.map(|stood| stood.standing.opening.ledger);
    ledger.ok_or_else(|| malformed("ledger is needed: the account's registrar has none of its own"))
}

/// `GET /v1/pay/accounts/{id}/proof`: how an account stood behind a cut, or that it was not there.
pub(in crate::http) async fn prove(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["as_of", "ledger"])?;
    let teller = Arc::clone(teller(&front)?);
    let id = account(between(&uri, "/v1/pay/accounts/", "/proof"))?;
    let (as_of, said) = (told(&query, "as_of")?, told(&query, "ledger")?);
    let said = said.map(u32::try_from).transpose().map_err(|_| malformed("ledger is not below 2^32"))?;
    let read = move || {
        let cuts = teller.cuts().map_err(|gap| refused(gap, "proofs"))?;
        let ledger = said.map_or_else(|| ledger(cuts, id, as_of), Ok)?;
        let found = cuts.prove((ledger, id), as_of);
        let found = found.map_err(|gap| refused(gap, &format!("ledger {ledger}")))?;
        Ok::<_, Problem>(proof(&found, &teller))
    };
    Ok(reply(&link, &blocking(read).await??))
}

/// `GET /v1/pay/ledgers/{ledger}/proof`: what all accounts of a ledger were owed behind a cut.
pub(in crate::http) async fn prove_liabilities(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["as_of"])?;
    let teller = Arc::clone(teller(&front)?);
    let ledger: u32 = between(&uri, "/v1/pay/ledgers/", "/proof")
        .parse()
        .map_err(|_| malformed("the ledger is not a decimal number below 2^32"))?;
    let as_of = told(&query, "as_of")?;
    let read = move || {
        let cuts = teller.cuts().map_err(|gap| refused(gap, "proofs"))?;
        let found = cuts.prove_liabilities(ledger, as_of);
        let found = found.map_err(|gap| refused(gap, &format!("ledger {ledger}")))?;
        Ok::<_, Problem>(proof(&found, &teller))
    };
    Ok(reply(&link, &blocking(read).await??))
}

/// What an account has, which an issuer has below 0.
fn balance(stood: &Stood) -> String {
    match stood.credits.checked_sub(stood.debits) {
        Some(has) => has.to_string(),
        None => format!("-{}", stood.debits.saturating_sub(stood.credits)),
    }
}

fn standing(stood: &Stood, cut: Option<&KeptCut>) -> Value {
    json!({
        "cut": cut.map_or_else(|| "0".to_owned(), |cut| cut.record.number.to_string()),
        "balance": balance(stood),
        "credits": stood.credits.to_string(),
        "debits": stood.debits.to_string(),
        "pending": stood.pending.to_string(),
        "n": stood.n.to_string(),
    })
}

/// What an entry did to the account, and the balance behind it.
fn line(teller: &Teller, line: &StatementLine) -> Value {
    let mut object = shown(teller.index(), &line.transfer);
    let text = |sum: Total| Value::from(sum.to_string());
    let effect = &line.effect;
    let all =
        [("credit", effect.credit), ("debit", effect.debit), ("held", effect.held), ("freed", effect.freed)];
    let row: &mut Map<String, Value> = object.as_object_mut().expect("a payment is shown as an object");
    row.extend(all.map(|(name, sum)| (name.to_owned(), text(sum))));
    row.insert("balance".to_owned(), Value::from(balance(&line.after)));
    row.insert("pending".to_owned(), text(line.after.pending));
    object
}

/// A cursor as the hex digits of its encoding.
fn cursor(text: &[u8]) -> Option<Cursor> {
    let bytes = unhex(std::str::from_utf8(text).ok()?)?;
    Cursor::decode(bytes.into(), &Limits::default()).ok()
}

/// `GET /v1/pay/accounts/{id}/statement`: opening balance, entries and closing balance between two cuts.
pub(in crate::http) async fn statement(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["since", "as_of", "after", "limit"])?;
    let teller = Arc::clone(teller(&front)?);
    let id = account(between(&uri, "/v1/pay/accounts/", "/statement"))?;
    let most = u32::try_from(PAGE_MAX).unwrap_or(u32::MAX);
    let count = usize::try_from(query.limit(LIMIT_USUAL, most)?).unwrap_or(usize::MAX);
    let after = query
        .get("after")
        .map(|text| cursor(text).ok_or_else(|| malformed("after is no cursor of a statement")));
    let after = after.transpose()?;
    let period = Period { account: id, since: told(&query, "since")?, as_of: told(&query, "as_of")? };
    let read = move || {
        let found = teller.statement(&period, (after, count));
        let found = found.map_err(|gap| refused(gap, &format!("account {id}")))?;
        let Statement { ledger, since, as_of, opening, closing, lines, next } = &found;
        Ok::<_, Problem>(json!({
            "account": id.to_string(),
            "ledger": ledger,
            "opening": standing(opening, since.as_ref()),
            "closing": standing(closing, Some(as_of)),
            "entries": lines.iter().map(|row| line(&teller, row)).collect::<Vec<Value>>(),
            "next": next.as_ref().map(|next| hex(&next.encode())),
        }))
    };
    Ok(reply(&link, &blocking(read).await??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_as_written_and_nothing_else_is_one() {
        let stood = Stood { n: 3, credits: Total::MAX, debits: Total::of(5), pending: Total::ZERO };
        let written = |position| hex(&Cursor { position, stood }.encode());
        for position in [0, 7, u64::MAX] {
            assert_eq!(cursor(written(position).as_bytes()), Some(Cursor { position, stood }));
        }
        let text = written(7);
        for wrong in ["", "1", "xy", &text[2..], &text[..text.len() - 2], &format!("{text}00")] {
            assert_eq!(cursor(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn an_issuer_stands_below_nothing() {
        let of = |credits, debits| {
            let (credits, debits) = (Total::of(credits), Total::of(debits));
            balance(&Stood { n: 1, credits, debits, pending: Total::ZERO })
        };
        assert_eq!([of(5, 3), of(5, 5), of(3, 5)], ["2", "0", "-2"]);
    }

    #[test]
    fn each_gap_has_a_code_of_its_own() {
        let of = |gap| refused(gap, "account 0-0-2").code();
        assert_eq!(of(Gap::Off), code::UNSUPPORTED);
        assert_eq!(of(Gap::NotYet(None, 0)), code::CUT_NOT_YET);
        assert_eq!(of(Gap::NotKept(1, (2, 3))), code::CUT_NOT_KEPT);
        assert_eq!(of(Gap::Nothing(3)), code::NOT_FOUND);
        assert_eq!(of(Gap::Lacks(3)), code::INDEX_LACKS);
        assert_eq!(of(Gap::Backwards), code::MALFORMED);
    }
}
