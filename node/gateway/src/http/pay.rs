//! `/v1/pay`: accounts and transfers of a payment system, through the teller of this node.
//!
//! A transfer pays one account or several, sets money aside (`pending`), or decides over what was (`post_pending`, `void_pending`).
//!
//! Names of accounts are `SHARD-REGISTRAR-LOCAL`; names of transfers and amounts are decimal strings. A transfer happens once
//! per name: asked again it has the same answer, and with another payer, payee, amount, ledger or code SYN-3116.

mod order;

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use synod_config::{Code, SynError, code, format_duration};
use synod_host::pay::{AccountId, KIND, LOOKED_MAX, PublicKey};
use synod_host::pay::{
    Answer, Denied, Index, Known, Level, Order, Owner, PAGE_MAX, Seen, Teller, Transfer, known,
};
use synod_wire::Wire as _;
use tokio::time::{Instant, timeout};

use order::{Payment, named};

use crate::{
    http::{
        ask::Flight,
        request::{Query, body, deadline, malformed, unsupported},
        server::Front,
    },
    problem::Problem,
    shared::{Shared, backend_deadline},
    traffic::Api,
    web::Link,
};

/// Rows of a page when nothing is said.
const LIMIT_USUAL: u32 = 100;

/// The body of a POST of accounts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Account {
    ledger: Option<u32>,
    code: Option<u16>,
    /// A key of 64 hex digits: the owner signs for itself.
    ed25519: Option<String>,
}

fn teller(front: &Front) -> Result<&Arc<Teller>, Problem> {
    front.shared.teller.as_ref().ok_or_else(|| unsupported("/v1/pay at this gateway"))
}

fn account(text: &str) -> Result<AccountId, Problem> {
    text.parse().map_err(|why| malformed(&format!("{text:?}: {why}")))
}

/// A decimal number without signs.
fn number(name: &str, text: &str) -> Result<u128, Problem> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let read = digits.then(|| text.parse().ok()).flatten();
    read.ok_or_else(|| malformed(&format!("{name} is not a decimal number below 2^128")))
}

fn level(text: Option<&str>) -> Result<Level, Problem> {
    match text {
        None | Some("settled") => Ok(Level::Settled),
        Some("certified") => Ok(Level::Certified),
        Some("stable") => Ok(Level::Stable),
        Some(_) => Err(malformed("until is not certified, settled or stable")),
    }
}

const fn word(level: Level) -> &'static str {
    match level {
        Level::Accepted => "accepted",
        Level::Certified => "certified",
        Level::Settled => "settled",
        Level::Stable => "stable",
    }
}

/// A page's size, and the position or name behind which it begins.
fn limit(query: &Query, most: u32) -> Result<u32, Problem> {
    let Some(text) = query.get("limit") else { return Ok(LIMIT_USUAL.min(most)) };
    let limit: Option<u32> = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    limit
        .filter(|limit| (1..=most).contains(limit))
        .ok_or_else(|| malformed(&format!("limit is not a number from 1 to {most}")))
}

/// A refusal under its code, with what its words need.
fn denied(why: Denied, order: Option<&Order>) -> Problem {
    let (of, id) =
        order.map_or_else(Default::default, |order| (order.from.to_string(), order.id.to_string()));
    let (to, amount) = order.map(named).unwrap_or_default();
    let with = |number: Code, client: &str, field: &str| {
        let values =
            [("client", client), ("account", &*of), ("amount", &amount), ("id", &id), ("field", field)];
        SynError::of(number, &values)
    };
    match why {
        Denied::Ledger(reason) => {
            let number = Code::new(reason.number());
            let client = if number == code::UNKNOWN_BENEFICIARY { &to } else { &of };
            if number == code::BUSY {
                return busy(0);
            }
            with(number, client, "").into()
        }
        Denied::Different(field) => with(code::EXISTS_DIFFERENT, &of, field).into(),
        Denied::Busy(ms) => busy(ms),
    }
}

fn busy(ms: u32) -> Problem {
    Problem::from(SynError::of(code::BUSY, &[("retry_ms", &ms.to_string())])).after_ms(ms)
}

fn unknown(number: Code, what: &str, deadline: Duration) -> Problem {
    SynError::of(number, &[("id", what), ("deadline", &format_duration(deadline))]).into()
}

/// Waits for an answer of the teller, until the deadline at most.
async fn answered<T>(
    shared: &Shared,
    answer: Answer<T>,
    limit: Duration,
    (what, order): (&str, Option<&Order>),
) -> Result<T, Problem> {
    let begun = Instant::now();
    let flight = Flight::begin(shared);
    let told = timeout(backend_deadline(limit), answer).await;
    flight.end(begun.elapsed());
    let told = match told {
        Ok(Ok(told)) => told.map_err(|why| denied(why, order)),
        Ok(Err(_)) => Err(unknown(code::CONNECTION_LOST, what, limit)),
        Err(_) => Err(unknown(code::DEADLINE_PASSED, what, limit)),
    };
    match &told {
        Ok(_) => shared.traffic.accepted(Api::Http, 1),
        Err(problem) => shared.traffic.refused(Api::Http, problem.code()),
    }
    told
}

/// `POST /v1/pay/transfers`.
pub(super) async fn transfer(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let teller = teller(&front)?;
    let payment: Payment = body(&headers, content, front.request_max, &link.share).await?;
    let order = payment.order()?;
    let (until, limit) = (level(payment.until.as_deref())?, deadline(&headers, front.deadline)?);
    link.writes();
    let what = format!("transfer {}", order.id);
    let answer = teller.pay(&order, until);
    let transfer = answered(&front.shared, answer, limit, (&what, Some(&order)))
        .await
        .map_err(|problem| problem.of_request(Some(payment.id)))?;
    let teller = Arc::clone(teller);
    let shown = blocking(move || shown(teller.index(), &transfer)).await?;
    Ok(Json(shown).into_response())
}

/// `GET /v1/pay/transfers/{id}`.
pub(super) async fn find(
    State(front): State<Arc<Front>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let teller = Arc::clone(teller(&front)?);
    let text = uri.path().strip_prefix("/v1/pay/transfers/").unwrap_or_default();
    let id = number("id", text)?;
    caught_up(&front, &teller, &headers).await?;
    let found = move || teller.transfer(id).map(|transfer| shown(teller.index(), &transfer));
    let found = blocking(found).await?;
    found.map(|transfer| Json(transfer).into_response()).ok_or_else(|| missing(&format!("transfer {id}")))
}

/// `GET /v1/pay/transfers/{id}/receipt`: a proof as `synod client verify` reads it.
pub(super) async fn receipt(
    State(front): State<Arc<Front>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let teller = Arc::clone(teller(&front)?);
    let path = uri.path().strip_prefix("/v1/pay/transfers/").and_then(|path| path.strip_suffix("/receipt"));
    let id = number("id", path.unwrap_or_default())?;
    caught_up(&front, &teller, &headers).await?;
    let asked = Arc::clone(&teller);
    let found = blocking(move || {
        let transfer = asked.transfer(id)?;
        let receipt = asked.receipt(&transfer);
        Some((transfer, receipt))
    });
    let (transfer, receipt) = found.await?.ok_or_else(|| missing(&format!("transfer {id}")))?;
    let receipt = receipt.ok_or_else(|| {
        let payer = transfer.entry.id.spender;
        let error = SynError::of(code::PROOF_UNAVAILABLE, &[("what", &format!("transfer {id}"))]);
        error.because(format!(
            "this node keeps certificates of payments of and to its own accounts; the institution of {payer} may have it"
        ))
    })?;
    let (cluster, epoch) = (teller.view().cluster.to_string(), teller.view().roster.epoch().0);
    let bytes: String = receipt.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    let proof = json!({
        "schema": "synod-proof/1", "kind": KIND, "cluster": cluster, "epoch": epoch, "bytes": bytes,
    });
    Ok(Json(proof).into_response())
}

/// `POST /v1/pay/accounts`.
pub(super) async fn open(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let teller = teller(&front)?;
    let account: Account = body(&headers, content, front.request_max, &link.share).await?;
    let owner = account.ed25519.as_deref().map(key).transpose()?.map(Owner::SelfSigned);
    let limit = deadline(&headers, front.deadline)?;
    link.writes();
    let answer = teller.open_account(owner, account.ledger.unwrap_or(1), account.code.unwrap_or(0));
    let id = answered(&front.shared, answer, limit, ("the opening", None)).await?;
    Ok(Json(json!({ "id": id.to_string() })).into_response())
}

/// `GET /v1/pay/accounts`.
pub(super) async fn list(
    State(front): State<Arc<Front>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["after", "limit"])?;
    let teller = teller(&front)?;
    let count = limit(&query, LOOKED_MAX)?;
    let from = match query.get("after") {
        None => AccountId { shard: 0, registrar: 0, local: 1 },
        Some(text) => {
            let after = account(&String::from_utf8_lossy(text))?;
            AccountId { local: after.local.saturating_add(1), ..after }
        }
    };
    let answer = teller.look(from, count);
    let limit = deadline(&headers, front.deadline)?;
    let seen = answered(&front.shared, answer, limit, ("the question", None)).await?;
    let rows: Vec<Value> = seen.iter().map(standing).collect();
    Ok(Json(json!({ "accounts": rows })).into_response())
}

/// `GET /v1/pay/accounts/{id}`.
pub(super) async fn show(
    State(front): State<Arc<Front>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let teller = teller(&front)?;
    let id = account(uri.path().strip_prefix("/v1/pay/accounts/").unwrap_or_default())?;
    let limit = deadline(&headers, front.deadline)?;
    let seen = answered(&front.shared, teller.look(id, 1), limit, ("the question", None)).await?;
    let found = seen.into_iter().find(|seen| seen.standing.opening.id == id);
    found.map(|seen| Json(standing(&seen)).into_response()).ok_or_else(|| missing(&format!("account {id}")))
}

/// `GET /v1/pay/accounts/{id}/history`.
pub(super) async fn history(
    State(front): State<Arc<Front>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["after", "limit"])?;
    let teller = Arc::clone(teller(&front)?);
    let path = uri.path().strip_prefix("/v1/pay/accounts/").and_then(|path| path.strip_suffix("/history"));
    let id = account(path.unwrap_or_default())?;
    let most = u32::try_from(PAGE_MAX).unwrap_or(u32::MAX);
    let count = usize::try_from(limit(&query, most)?).unwrap_or(usize::MAX);
    let after = match query.get("after") {
        None => 0,
        Some(text) => u64::try_from(number("after", &String::from_utf8_lossy(text))?).unwrap_or(u64::MAX),
    };
    caught_up(&front, &teller, &headers).await?;
    let read = move || {
        let found = teller.index().history(id, after, count);
        found.iter().map(|transfer| shown(teller.index(), transfer)).collect::<Vec<Value>>()
    };
    let rows = blocking(read).await?;
    Ok(Json(json!({ "account": id.to_string(), "transfers": rows })).into_response())
}

/// Waits until the index has what the replica told of before: who was told that something happened sees it.
async fn caught_up(front: &Front, teller: &Teller, headers: &HeaderMap) -> Result<(), Problem> {
    let limit = deadline(headers, front.deadline)?;
    answered(&front.shared, teller.kept(), limit, ("the question", None)).await
}

/// Reads the index beside the tasks of this runtime.
async fn blocking<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let read = tokio::task::spawn_blocking(read).await;
    read.map_err(|_| SynError::with_message(code::BUG, "the index of payments could not be read").into())
}

fn missing(what: &str) -> Problem {
    SynError::of(code::NOT_FOUND, &[("what", what)]).into()
}

fn key(text: &str) -> Result<PublicKey, Problem> {
    let digits = text.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let plain = digits.iter().all(u8::is_ascii_hexdigit);
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    let key = bytes.filter(|_| plain).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    key.map(PublicKey).ok_or_else(|| malformed("ed25519 is not 64 hex digits"))
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
    }
    if !known.legs.is_empty() {
        let legs = known.legs.iter();
        let legs = legs.map(|(to, amount)| json!({ "to": to.to_string(), "amount": amount.to_string() }));
        put("legs", Value::from(legs.collect::<Vec<_>>()));
    }
}

/// A payment as JSON.
fn shown(index: &Index, transfer: &Transfer) -> Value {
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

/// An account as JSON.
fn standing(seen: &Seen) -> Value {
    let standing = &seen.standing;
    let opening = &standing.opening;
    let state = match (standing.is_closed, standing.is_frozen) {
        (true, _) => "closed",
        (false, true) => "frozen",
        (false, false) => "open",
    };
    let owner = match opening.terms.owner {
        Owner::Custodial(member) => json!({ "custodial": member }),
        Owner::SelfSigned(key) | Owner::Distilled { single: key, .. } => {
            let hex: String = key.0.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({ "ed25519": hex })
        }
    };
    json!({
        "id": opening.id.to_string(),
        "ledger": opening.ledger,
        "code": opening.terms.code,
        "state": state,
        "owner": owner,
        "representative": opening.representative,
        "available": seen.available.to_string(),
        "credits": standing.credits.to_string(),
        "debits": standing.debits.to_string(),
        "pending": seen.pending.to_string(),
        "limit": opening.terms.limit.0.to_string(),
        "entries": standing.sequence.to_string(),
        "open_entries": seen.open,
        "head": standing.head.to_string(),
    })
}
