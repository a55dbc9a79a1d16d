//! `/v1/pay`: accounts and transfers of a payment system, through the teller of this node.
//!
//! A transfer pays one account or several, sets money aside (`pending`), or decides over what was (`post_pending`, `void_pending`).
//!
//! Names of accounts are `SHARD-REGISTRAR-LOCAL`; names of transfers and amounts are decimal strings. A transfer happens once
//! per payer and name: asked again it has the same answer, and with another payee, amount, ledger or code SYN-3116.
//!
//! The index is read beside the tasks of this runtime, and so are orders taken, which look into it.

mod bundles;
mod cuts;
mod evidence;
mod feed;
mod follow;
mod lanes;
mod many;
mod members;
mod order;
mod show;
mod terms;
mod wallet;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use synod_config::{Code, SynError, code, unhex};
use synod_host::pay::{
    self, AccountId, Answer, Asked, Denied, Found, LOOKED_MAX, Level, Named, Order, Owner, PAGE_MAX,
    PublicKey, Teller, Transfer,
};
use tokio::time::timeout;

pub(super) use bundles::bundles;
pub(super) use cuts::{cuts, prove, prove_liabilities, statement};
pub(super) use evidence::show as evidence;
pub(super) use feed::{changes, export};
pub(super) use lanes::lanes;
pub(super) use many::{accounts as create_accounts, transfers as create_transfers};
pub(super) use members::{change, members};
use order::{Payment, named};
use show::{proof, reply, shown, standing};
pub(super) use terms::alter;
pub(super) use wallet::{check, log, submit};
pub use webhook::{Hooked, Webhook};

use crate::{
    http::{
        ask::{Waiting, outcome},
        request::{Query, between, body, deadline, decimal, malformed, parsed, unsupported, whole},
        server::Front,
    },
    problem::Problem,
    shared::{Shared, backend_deadline},
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

fn number(name: &str, text: &str) -> Result<u128, Problem> {
    decimal(text).ok_or_else(|| malformed(&format!("{name} is not a decimal number below 2^128")))
}

fn level(text: Option<&str>) -> Result<Level, Problem> {
    let Some(text) = text else { return Ok(Level::Settled) };
    pay::level(text).ok_or_else(|| malformed("until is not certified, settled or stable"))
}

/// A transfer by its name, and by its payer where the query says whose it is.
fn transfer_named(uri: &Uri, behind: &str) -> Result<Named, Problem> {
    let query = Query::read(uri, &["from"])?;
    let payer = query.get("from").map(|text| account(&String::from_utf8_lossy(text))).transpose()?;
    Ok(Named { id: number("id", between(uri, "/v1/pay/transfers/", behind))?, payer })
}

/// What words about an order name: its name and payer, its payee and its amount.
type Said = (Named, String, String);

/// A refusal under its code, with what its words need.
fn denied(why: Denied, order: Option<Said>) -> Problem {
    let (named, to, amount) = order.unwrap_or((Named { id: 0, payer: None }, String::new(), String::new()));
    let (of, id) =
        named.payer.map_or_else(Default::default, |payer| (payer.to_string(), named.id.to_string()));
    let with = |number: Code, client: &str, field: &str| {
        let values = [
            ("client", client),
            ("account", &*of),
            ("amount", &amount),
            ("id", &id),
            ("field", field),
            ("verb", "this kind of account or payment"),
        ];
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
        Denied::Ambiguous(id) => {
            SynError::of(code::NAME_AMBIGUOUS, &[("what", &format!("a payment {id}"))]).into()
        }
        Denied::Busy(ms) => busy(ms),
        Denied::NotMember => {
            SynError::of(code::UNKNOWN_MEMBER, &[("name", "this node, or that number,")]).into()
        }
        Denied::Unendorsed => {
            let values = [("have", "too few"), ("need", "the needed")];
            SynError::of(code::ENDORSEMENTS_MISSING, &values).into()
        }
    }
}

/// What words about an order name.
fn named_of(order: &Order) -> Said {
    let (to, amount) = named(order);
    (Named { id: order.id, payer: Some(order.from) }, to, amount)
}

fn busy(ms: u32) -> Problem {
    Problem::from(SynError::of(code::BUSY, &[("retry_ms", &ms.to_string())])).after_ms(ms)
}

/// Waits for an answer of the teller, until the deadline at most; `refused` says what a refusal means.
async fn answered<T>(
    shared: &Shared,
    answer: Answer<T>,
    deadline: Duration,
    what: &str,
    refused: impl FnOnce(Denied) -> Problem,
) -> Result<T, Problem> {
    let waiting = Waiting { what, longest: backend_deadline(deadline), deadline };
    outcome(shared, answer, waiting, |told: Asked<T>| told.map_err(refused)).await
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
    let content = whole(&headers, content, front.request_max, &link.share).await?;
    let payment: Payment<'_> = parsed(&content)?;
    let order = payment.order()?;
    let (until, limit) = (level(payment.until.as_deref())?, deadline(&headers, front.deadline)?);
    link.writes();
    if order.what.hold().is_some() {
        // A hold that its payer was told of is in the index then; without, the answer is that it may come.
        let _ = timeout(limit / 2, teller.kept()).await;
    }
    let (asked, ordered) = (Arc::clone(teller), order.clone());
    let answer = blocking(move || asked.pay(&ordered, until)).await?;
    let ids = (order.id, payment.id.into_string(), order.from);
    carried(&front, &link, (answer, limit), ids, |why| denied(why, Some(named_of(&order)))).await
}

/// Waits until the order of an id, which the client wrote in its way, of an account is as sure as was asked for, and shows it.
async fn carried(
    front: &Front,
    link: &Link,
    (answer, limit): (Answer<Transfer>, Duration),
    (id, written, of): (u128, String, AccountId),
    refused: impl FnOnce(Denied) -> Problem,
) -> Result<Response, Problem> {
    let teller = Arc::clone(teller(front)?);
    let transfer = match answered(&front.shared, answer, limit, &format!("transfer {id}"), refused).await {
        Ok(transfer) => transfer,
        Err(problem) => {
            let problem = problem.of_request(Some(written));
            return Err(evidence::with_evidence(front, problem, of, limit).await);
        }
    };
    let shown = blocking(move || shown(teller.index(), &transfer)).await?;
    Ok(reply(link, &shown))
}

/// `GET /v1/pay/transfers/{id}`.
pub(super) async fn find(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (teller, named) = (Arc::clone(teller(&front)?), transfer_named(&uri, "")?);
    caught_up(&front, &teller, &headers).await?;
    let found = blocking(move || {
        let transfer = found(&teller, &named)?;
        Ok::<_, Problem>(shown(teller.index(), &transfer))
    });
    Ok(reply(&link, &found.await??))
}

/// The payment of a name.
fn found(teller: &Teller, named: &Named) -> Result<Transfer, Problem> {
    let missing = |message: String| SynError::with_message(code::NOT_FOUND, &message).into();
    match teller.find(named).map_err(|why| denied(why, None))? {
        Found::Payment(transfer) => Ok(transfer),
        Found::UnderWay => {
            Err(missing(format!("transfer {} is under way here, and not accepted yet", named.id)))
        }
        // The replica may have it under way from before a restart.
        Found::Nothing => Err(missing(format!("nothing has settled here as transfer {} yet", named.id))),
    }
}

/// `GET /v1/pay/transfers/{id}/receipt`: a proof as `synod client verify` reads it.
pub(super) async fn receipt(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (teller, named) = (Arc::clone(teller(&front)?), transfer_named(&uri, "/receipt")?);
    caught_up(&front, &teller, &headers).await?;
    let proof = blocking(move || {
        let transfer = found(&teller, &named)?;
        let receipt = teller.receipt(&transfer);
        receipt
            .map(|receipt| proof(&receipt, &teller))
            .ok_or_else(|| uncertified(&transfer, teller.has_views()))
    });
    Ok(reply(&link, &proof.await??))
}

/// The refusal where nothing here certifies a payment.
fn uncertified(transfer: &Transfer, has_views: bool) -> Problem {
    let what = format!("transfer {}", transfer.entry.transfer);
    let error = SynError::of(code::PROOF_UNAVAILABLE, &[("what", &what)]);
    let payer = transfer.entry.id.spender;
    if has_views {
        let why = "where members come and go, payments that a later view certified have no receipts";
        return error.because(why).into();
    }
    let error = error.because(format!(
        "this node keeps certificates of payments of and to its own accounts; the institution of {payer} may have it"
    ));
    error.into()
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
    let id = answered(&front.shared, answer, limit, "the opening", |why| denied(why, None)).await?;
    Ok(reply(&link, &json!({ "id": id.to_string() })))
}

/// `GET /v1/pay/accounts`.
pub(super) async fn list(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["after", "limit"])?;
    let teller = teller(&front)?;
    let count = query.limit(LIMIT_USUAL, LOOKED_MAX)?;
    let from = match query.get("after") {
        None => AccountId { shard: teller.seat().shard, registrar: 0, local: 1 },
        Some(text) => {
            let after = account(&String::from_utf8_lossy(text))?;
            kept_here(teller, after)?;
            AccountId { local: after.local.saturating_add(1), ..after }
        }
    };
    let answer = teller.look(from, count);
    let limit = deadline(&headers, front.deadline)?;
    let seen = answered(&front.shared, answer, limit, "the question", |why| denied(why, None)).await?;
    let rows: Vec<Value> = seen.iter().map(standing).collect();
    Ok(reply(&link, &json!({ "accounts": rows })))
}

/// `GET /v1/pay/accounts/{id}`.
pub(super) async fn show(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let id = account(between(&uri, "/v1/pay/accounts/", ""))?;
    kept_here(teller(&front)?, id)?;
    let found = evidence::seen(&front, id, deadline(&headers, front.deadline)?).await?;
    found.map(|seen| reply(&link, &standing(&seen))).ok_or_else(|| missing(&format!("account {id}")))
}

/// Refuses an account whose log other nodes keep: here stands what crossed alone.
fn kept_here(teller: &Teller, id: AccountId) -> Result<(), Problem> {
    if id.shard == teller.seat().shard {
        return Ok(());
    }
    Err(SynError::of(code::WRONG_SHARD, &[("account", &id.to_string())]).into())
}

/// `GET /v1/pay/accounts/{id}/history`.
pub(super) async fn history(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["after", "limit"])?;
    let teller = Arc::clone(teller(&front)?);
    let id = account(between(&uri, "/v1/pay/accounts/", "/history"))?;
    kept_here(&teller, id)?;
    let most = u32::try_from(PAGE_MAX).unwrap_or(u32::MAX);
    let count = usize::try_from(query.limit(LIMIT_USUAL, most)?).unwrap_or(usize::MAX);
    let after = match query.get("after") {
        None => 0,
        Some(text) => u64::try_from(number("after", &String::from_utf8_lossy(text))?).unwrap_or(u64::MAX),
    };
    caught_up(&front, &teller, &headers).await?;
    let read = move || {
        let found = teller.index().history(id, after, count);
        let rows = found.entries.iter().map(|transfer| shown(teller.index(), transfer));
        (rows.collect::<Vec<Value>>(), found.has_more)
    };
    // A page of long entries is shorter than was asked for: whether there is more is said.
    let (rows, has_more) = blocking(read).await?;
    Ok(reply(&link, &json!({ "account": id.to_string(), "transfers": rows, "more": has_more })))
}

/// Waits until the index has what the replica told of before: who was told that something happened sees it.
async fn caught_up(front: &Front, teller: &Teller, headers: &HeaderMap) -> Result<(), Problem> {
    let limit = deadline(headers, front.deadline)?;
    answered(&front.shared, teller.kept(), limit, "the question", |why| denied(why, None)).await
}

/// Does what looks into the index beside the tasks of this runtime.
async fn blocking<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let read = tokio::task::spawn_blocking(look).await;
    read.map_err(|_| SynError::with_message(code::BUG, "the index of payments could not be read").into())
}

fn missing(what: &str) -> Problem {
    SynError::of(code::NOT_FOUND, &[("what", what)]).into()
}

fn key(text: &str) -> Result<PublicKey, Problem> {
    let key = unhex(text).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    key.map(PublicKey).ok_or_else(|| malformed("ed25519 is not 64 hex digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_asked_for_by_its_name_and_by_its_payer_where_that_is_said() {
        let asked = |text: &str, behind| {
            let uri: Uri = format!("/v1/pay/transfers/{text}").parse().expect("a path");
            transfer_named(&uri, behind).map_err(|problem| problem.code())
        };
        let payer = AccountId { shard: 0, registrar: 1, local: 2 };
        assert_eq!(asked("7", ""), Ok(Named { id: 7, payer: None }));
        assert_eq!(asked("7?from=0-1-2", ""), Ok(Named { id: 7, payer: Some(payer) }));
        assert_eq!(asked("7/receipt?from=0-1-2", "/receipt"), Ok(Named { id: 7, payer: Some(payer) }));
        for wrong in ["x", "", "7?from=0-1", "7?from=", "7?to=0-1-2", "7?from=0-1-2&from=0-1-2"] {
            assert_eq!(asked(wrong, ""), Err(code::MALFORMED), "{wrong}");
        }
    }

    #[test]
    fn what_is_refused_is_said_under_its_code() {
        let code_of = |why| denied(why, None).code();
        assert_eq!(code_of(Denied::Ambiguous(7)), code::NAME_AMBIGUOUS);
        assert_eq!(code_of(Denied::Different("amount")), code::EXISTS_DIFFERENT);
        assert_eq!(code_of(Denied::Busy(50)), code::BUSY);
        assert_eq!(code_of(Denied::NotMember), code::UNKNOWN_MEMBER);
        assert_eq!(code_of(Denied::Unendorsed), code::ENDORSEMENTS_MISSING);
    }
}
