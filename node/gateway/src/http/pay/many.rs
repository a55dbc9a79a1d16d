//! `POST /v1/pay/create_transfers` and `/create_accounts`: arrays, with one result per item, in their order.
//!
//! An item that is refused or of unknown outcome takes no other with it: its result is a problem with its code. What is refused as a
//! whole is a body that is no array of such items (SYN-3001), or one of more than [`GROUP_MAX`] or of too many bytes (SYN-3002).
//!
//! *Bounds.* Items become orders while the body is read, and results are 300 bytes of text at most where nothing is refused.

use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse as _, Response};
use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::{Value, json};
use synod_config::{SynError, code, format_duration};
use synod_host::pay::{AccountId, Asked, GROUP_MAX, Gathering, Level, NewAccount, Order, Owner, Paid, word};
use tokio::time::{Duration, Instant, timeout};

use super::order::Payment;
use super::{Account, blocking, denied, key, level, named_of, teller};
use crate::{
    http::{
        ask::Flight,
        request::{Query, body, deadline, parsed, whole},
        server::Front,
    },
    problem::Problem,
    shared::{Shared, backend_deadline},
    traffic::Api,
    web::Link,
};

/// What an item of an array says, or why it says nothing.
trait Item: Sized {
    /// As it stands in the array.
    type Form<'a>: Deserialize<'a>;

    fn read(form: Self::Form<'_>) -> Result<Self, Refused>;
}

/// An item that says nothing, with the name that it gives itself.
struct Refused {
    id: Option<String>,
    why: Box<Problem>,
}

/// The items of an array, [`GROUP_MAX`] at most, and how many there were.
struct Many<T> {
    items: Vec<Result<T, Refused>>,
    count: usize,
}

impl<'de, T: Item> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Array<T>(std::marker::PhantomData<T>);
        impl<'de, T: Item> Visitor<'de> for Array<T> {
            type Value = Many<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Many<T>, A::Error> {
                let mut items = Vec::new();
                while items.len() < GROUP_MAX
                    && let Some(form) = array.next_element::<T::Form<'de>>()?
                {
                    items.push(T::read(form));
                }
                let mut count = items.len();
                while items.len() == GROUP_MAX && array.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Many { items, count })
            }
        }
        from.deserialize_seq(Array(std::marker::PhantomData))
    }
}

impl<T> Many<T> {
    /// The items, none of which is too many.
    fn bounded(self, what: &str) -> Result<Vec<Result<T, Refused>>, Problem> {
        if self.count <= GROUP_MAX {
            return Ok(self.items);
        }
        let (size, limit) = (format!("{} {what}", self.count), format!("{GROUP_MAX} {what}"));
        Err(SynError::of(code::TOO_LARGE, &[("what", "the array"), ("size", &size), ("limit", &limit)])
            .into())
    }
}

/// A transfer, with the level that it asks for itself.
struct Transfer(Order, Option<Level>);

impl Item for Transfer {
    type Form<'a> = Payment<'a>;

    fn read(form: Payment<'_>) -> Result<Self, Refused> {
        let read = || {
            let until = form.until.as_deref().map(|text| level(Some(text))).transpose()?;
            Ok(Self(form.order()?, until))
        };
        read().map_err(|why: Problem| Refused { why: Box::new(why), id: Some(form.id.into_string()) })
    }
}

impl Item for NewAccount {
    type Form<'a> = Account;

    fn read(form: Account) -> Result<Self, Refused> {
        let owner = form.ed25519.as_deref().map(key).transpose();
        let owner = owner.map_err(|why| Refused { id: None, why: Box::new(why) })?;
        let (ledger, code) = (form.ledger.unwrap_or(1), form.code.unwrap_or(0));
        Ok(Self { owner: owner.map(Owner::SelfSigned), ledger, code })
    }
}

/// The results as text.
struct Results(String);

impl Results {
    fn new(items: usize) -> Self {
        let mut text = String::with_capacity(items.saturating_mul(200));
        text.push_str("{\"results\":[");
        Self(text)
    }

    fn push(&mut self, result: fmt::Arguments<'_>) {
        if !self.0.ends_with('[') {
            self.0.push(',');
        }
        self.add(result);
    }

    /// Goes on with the last one.
    fn add(&mut self, more: fmt::Arguments<'_>) {
        // A string takes whatever is written.
        let _ = fmt::Write::write_fmt(&mut self.0, more);
    }

    fn refused(&mut self, id: Option<&str>, why: Problem, shared: &Shared) {
        shared.traffic.refused(Api::Http, why.code());
        let mut object = why.of_request(id.map(str::to_owned)).object();
        if let Some(id) = id {
            object["id"] = Value::from(id);
        }
        self.push(format_args!("{object}"));
    }

    fn reply(mut self, link: &Link) -> Response {
        self.0.push_str("]}");
        link.share.settle(self.0.len() as u64 * 2);
        ([(header::CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}

/// Waits until all is answered, until the deadline at most; what is not is of unknown outcome.
async fn gathered<T>(shared: &Shared, mut gathering: Gathering<T>, limit: Duration) -> Vec<Option<Asked<T>>> {
    let (flight, begun) = (Flight::begin(shared), Instant::now());
    // Whether all is answered stands in the results.
    let _ = timeout(backend_deadline(limit), gathering.done()).await;
    flight.end(begun.elapsed());
    gathering.results()
}

fn unknown(what: &str, limit: Duration) -> Problem {
    let deadline = format_duration(limit);
    SynError::of(code::DEADLINE_PASSED, &[("id", what), ("deadline", &deadline)]).into()
}

/// `POST /v1/pay/create_transfers`.
pub(in crate::http) async fn transfers(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["until"])?;
    let until = query.get("until").map(String::from_utf8_lossy);
    let (until, limit) = (level(until.as_deref())?, deadline(&headers, front.deadline)?);
    let teller = teller(&front)?;
    let content = whole(&headers, content, front.request_max, &link.share).await?;
    let items = parsed::<Many<Transfer>>(&content)?.bounded("transfers")?;
    drop(content);
    link.writes();
    let items: Vec<Result<(Order, Level), Refused>> = items
        .into_iter()
        .map(|item| item.map(|Transfer(order, own)| (order, own.unwrap_or(until))))
        .collect();
    let orders: Vec<(Order, Level)> = items.iter().flatten().cloned().collect();
    if orders.iter().any(|(order, _)| order.what.hold().is_some()) {
        // A hold that its payer was told of is in the index then; without, the answer is that it may come.
        let _ = timeout(limit / 2, teller.kept()).await;
    }
    let asked = Arc::clone(teller);
    let gathering = blocking(move || asked.pay_all(&orders)).await?;
    let mut told = gathered(&front.shared, gathering, limit).await.into_iter();
    let mut results = Results::new(items.len());
    let mut paid = 0;
    for item in items {
        let order = match item {
            Ok((order, _)) => order,
            Err(Refused { id, why }) => {
                results.refused(id.as_deref(), *why, &front.shared);
                continue;
            }
        };
        let id = order.id.to_string();
        match told.next().flatten() {
            Some(Ok(known)) => {
                paid += 1;
                put_paid(&mut results, &id, &known);
            }
            Some(Err(why)) => results.refused(Some(&id), denied(why, Some(named_of(&order))), &front.shared),
            None => results.refused(Some(&id), unknown(&format!("transfer {id}"), limit), &front.shared),
        }
    }
    front.shared.traffic.accepted(Api::Http, paid);
    Ok(results.reply(&link))
}

fn put_paid(results: &mut Results, id: &str, known: &Paid) {
    let Paid { place, digest, level, position } = known;
    let (state, n) = (word(*level), place.n);
    let mut digits = [0; 64];
    let digest = in_hex(&digest.0, &mut digits);
    results
        .push(format_args!("{{\"id\":\"{id}\",\"state\":\"{state}\",\"n\":\"{n}\",\"digest\":\"{digest}\""));
    if *position > 0 {
        results.add(format_args!(",\"position\":\"{position}\""));
    }
    results.add(format_args!("}}"));
}

/// Bytes in hex digits, in the place that is given: a formatter takes longer than all else of a result.
fn in_hex<'a>(bytes: &[u8; 32], digits: &'a mut [u8; 64]) -> &'a str {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| DIGITS.get(usize::from(half)).copied().unwrap_or(b'0');
    let (pairs, _) = digits.as_chunks_mut::<2>();
    pairs.iter_mut().zip(bytes).for_each(|(pair, byte)| *pair = [digit(byte >> 4), digit(byte & 15)]);
    str::from_utf8(digits).unwrap_or_default()
}

/// `POST /v1/pay/create_accounts`.
pub(in crate::http) async fn accounts(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let limit = deadline(&headers, front.deadline)?;
    let teller = teller(&front)?;
    let many: Many<NewAccount> = body(&headers, content, front.request_max, &link.share).await?;
    let items = many.bounded("accounts")?;
    link.writes();
    let accounts: Vec<NewAccount> = items.iter().flatten().copied().collect();
    let told = gathered(&front.shared, teller.open_all(&accounts), limit).await;
    let mut told = told.into_iter();
    let mut results = Results::new(items.len());
    let mut opened = 0;
    for item in items {
        let result: Option<Asked<AccountId>> = match item {
            Ok(_) => told.next().flatten(),
            Err(Refused { why, .. }) => {
                results.refused(None, *why, &front.shared);
                continue;
            }
        };
        match result {
            Some(Ok(id)) => {
                opened += 1;
                results.push(format_args!("{}", json!({ "id": id.to_string() })));
            }
            Some(Err(why)) => results.refused(None, denied(why, None), &front.shared),
            None => results.refused(None, unknown("the opening", limit), &front.shared),
        }
    }
    front.shared.traffic.accepted(Api::Http, opened);
    Ok(results.reply(&link))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Many<Transfer>, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    fn item(id: usize) -> String {
        format!(r#"{{"id": "{id}", "from": "0-0-2", "to": "0-1-2", "amount": "5"}}"#)
    }

    #[test]
    fn a_result_is_json_with_the_digest_in_hex_digits_and_a_position_if_it_settled() {
        let place = synod_host::pay::AccountId { shard: 0, registrar: 1, local: 2 };
        let digest = synod_crypto::Hash(std::array::from_fn(|at| u8::try_from(at * 8).expect("below 256")));
        let mut results = Results::new(2);
        for position in [0, 9] {
            let place = synod_host::pay::EntryId { spender: place, n: 5 };
            put_paid(&mut results, "7", &Paid { place, digest, level: Level::Settled, position });
        }
        let told: Value = serde_json::from_str(&format!("{}]}}", results.0)).expect("JSON");
        let mut wanted = json!({ "id": "7", "state": "settled", "n": "5", "digest": digest.to_string() });
        assert_eq!(told["results"][0], wanted);
        wanted["position"] = json!("9");
        assert_eq!(told["results"][1], wanted);
    }

    #[test]
    fn an_item_that_says_nothing_is_refused_alone() {
        let text = format!(r#"[{}, {{"id": "8", "from": "0-0-2"}}, {}]"#, item(7), item(9));
        let items = read(&text).expect("an array").bounded("transfers").expect("three");
        let ids = items.iter().map(|item| match item {
            Ok(Transfer(order, None)) => order.id.to_string(),
            Ok(Transfer(order, Some(until))) => format!("{} {until:?}", order.id),
            Err(Refused { id, why }) => format!("{id:?} {}", why.code()),
        });
        assert_eq!(ids.collect::<Vec<_>>(), ["7", "Some(\"8\") SYN-3001", "9"]);
        for wrong in ["{}", "[1]", r#"[{"id": "7"}]"#, "[", "7"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_item_may_use_the_names_of_tigerbeetle_and_ask_for_a_level_of_its_own() {
        let text = r#"[{"id": "7", "debit_account_id": "0-0-2", "credit_account_id": "0-1-2", "amount": "5",
            "until": "stable"}]"#;
        let items = read(text).expect("an array").items;
        assert!(matches!(items.as_slice(), [Ok(Transfer(order, Some(Level::Stable)))] if order.id == 7));
    }

    #[test]
    fn an_array_has_8189_items_and_one_more_is_too_many() {
        for (count, wanted) in [(0, None), (GROUP_MAX, None), (GROUP_MAX + 1, Some(code::TOO_LARGE))] {
            let text = format!("[{}]", (0..count).map(item).collect::<Vec<_>>().join(","));
            let many = read(&text).expect("an array");
            assert_eq!((many.items.len(), many.count), (count.min(GROUP_MAX), count));
            assert_eq!(many.bounded("transfers").err().map(|why| why.code()), wanted);
        }
    }
}
