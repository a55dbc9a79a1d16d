//! Accounts, payments and receipts as JSON.

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Map, Value, json};
use synod_config::hex;
use synod_host::pay::{
    Index, KIND, Known, Owner, PaymentReceipt, Seen, Teller, Transfer, digest, known, word,
};
use synod_wire::Wire as _;

use crate::web::Link;

/// An answer; its connection pays for it.
pub(super) fn reply(link: &Link, object: &Value) -> Response {
    let body = object.to_string();
    // Twice: the text and what it was made from.
    link.share.settle(body.len() as u64 * 2);
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// What the index says of a hold that was decided over, or of the holds that an entry decides over.
fn decided(index: &Index, transfer: &Transfer, known: &Known, put: &mut dyn FnMut(&str, Value)) {
    let text = |number: u128| Value::from(number.to_string());
    if let Some((resolver, expires_at)) = known.resolver {
        put("resolver", Value::from(resolver.to_string()));
        put("expires_at", Value::from(expires_at.to_string()));
        let by = index.decided(transfer.place());
        let is_posted = by.as_ref().is_some_and(|by| by.is_posting());
        put(
            "hold",
            Value::from(if is_posted {
                "posted"
            } else if by.is_some() {
                "voided"
            } else {
                "open"
            }),
        );
        put("decided_by", by.map_or(Value::Null, |by| text(by.entry.transfer)));
    }
    if let Some(hold) = known.holds.first().and_then(|hold| index.entry(*hold)) {
        put("pending_id", text(hold.entry.transfer));
        put("pending_from", Value::from(hold.entry.id.spender.to_string()));
    }
    if let Some(named) = known.owner {
        put("owner", owner(named));
    }
    if let Some(to) = known.representative {
        put("representative", Value::from(to));
    }
    if let Some(limit) = known.limit {
        put("limit", text(limit));
    }
    if !known.legs.is_empty() {
        let legs = known.legs.iter();
        let legs = legs.map(|(to, amount)| json!({ "to": to.to_string(), "amount": amount.to_string() }));
        put("legs", Value::from(legs.collect::<Vec<_>>()));
    }
}

/// A payment as JSON.
pub(super) fn shown(index: &Index, transfer: &Transfer) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    let known = known(&transfer.entry);
    put("id", Value::from(known.id.to_string()));
    put("state", Value::from(word(transfer.level)));
    put("kind", Value::from(known.kind));
    put("from", Value::from(known.from.to_string()));
    put("to", known.to.map_or(Value::Null, |to| Value::from(to.to_string())));
    put("amount", known.amount.map_or(Value::Null, |amount| Value::from(amount.to_string())));
    put("ledger", Value::from(known.ledger));
    put("code", Value::from(known.code));
    decided(index, transfer, &known, &mut put);
    put("n", Value::from(known.n.to_string()));
    put("digest", Value::from(transfer.digest.to_string()));
    if transfer.position > 0 {
        put("position", Value::from(transfer.position.to_string()));
    }
    Value::from(object)
}

/// An owner as JSON.
fn owner(owner: Owner) -> Value {
    match owner {
        Owner::Custodial(member) => json!({ "custodial": member }),
        Owner::SelfSigned(key) | Owner::Distilled { single: key, .. } => json!({ "ed25519": hex(&key.0) }),
    }
}

/// An account as JSON.
pub(super) fn standing(seen: &Seen) -> Value {
    let standing = &seen.standing;
    let opening = &standing.opening;
    let state = match (&seen.torn, standing.is_closed, standing.is_frozen) {
        (Some(_), ..) => "conflicted",
        (None, true, _) => "closed",
        (None, false, true) => "frozen",
        (None, false, false) => "open",
    };
    let mut object = json!({
        "id": opening.id.to_string(),
        "ledger": opening.ledger,
        "code": opening.terms.code,
        "state": state,
        "owner": owner(opening.terms.owner),
        "representative": opening.representative,
        "available": seen.available.to_string(),
        "credits": standing.credits.to_string(),
        "debits": standing.debits.to_string(),
        "pending": seen.pending.to_string(),
        "limit": opening.terms.limit.0.to_string(),
        "limit_max": opening.limit_max.0.to_string(),
        "entries": standing.sequence.to_string(),
        "open_entries": seen.open,
        "head": standing.head.to_string(),
    });
    if let Some(two) = &seen.torn {
        let digests = [&two.one, &two.other].map(|line| digest(&line.entry).to_string());
        object["conflict"] = json!({ "n": two.place().n.to_string(), "digests": digests });
    }
    object
}

/// A receipt as JSON, as `synod client verify` reads it.
pub(super) fn proof(receipt: &PaymentReceipt, by: &Teller) -> Value {
    let view = by.view();
    json!({
        "schema": "synod-proof/1",
        "kind": KIND,
        "cluster": view.cluster.to_string(),
        "epoch": view.roster.epoch().0,
        "bytes": hex(&receipt.encode()),
    })
}
