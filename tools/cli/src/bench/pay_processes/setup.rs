//! Processes, accounts and money before the first payment.

use super::books::Books;
use super::load::AMOUNT_MAX;
use super::plan::{Fault, ProcessPlan};
use crate::bench::processes::{Processes, Start};
use crate::exit::bug;
use crate::http::{Request, ask_until_taken};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use synod_config::{Address, Service, SynError, code};
use synod_host::pay::{AccountId, GROUP_MAX, Seat};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long all nodes may take until they know something.
const EVERYWHERE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);
/// Most accounts of a page.
const PAGE: u32 = 1_024;
/// Longest answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// An account as a node shows it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub(crate) struct Shown {
    pub(crate) id: String,
    pub(crate) credits: String,
    pub(crate) debits: String,
    pub(crate) available: String,
    pub(crate) pending: String,
    pub(crate) limit: String,
    pub(crate) entries: String,
    pub(crate) open_entries: u32,
}

#[derive(serde::Deserialize)]
struct Page {
    accounts: Vec<Shown>,
}

/// Asks a node for something and reads its answer; one that is busy, as after a restart, is asked again.
pub(crate) fn asked(place: &Address, line: &str, body: &str) -> Result<String, SynError> {
    let headers = [format!("Synod-Deadline-Ms: {}", PATIENCE.as_millis())];
    let patience = PATIENCE + Duration::from_secs(1);
    let request = Request { line, headers: &headers, body, patience, answer_bytes_max: ANSWER_BYTES_MAX };
    let answer = ask_until_taken(place, &request).map_err(|unanswered| unanswered.error)?;
    if answer.status == 200 {
        return Ok(answer.body);
    }
    Err(bug("bench", &format!("{line}: status {}: {}", answer.status, answer.body)))
}

/// Every account, as it stands at a node.
pub(crate) fn accounts(place: &Address) -> Result<Vec<Shown>, SynError> {
    let mut all: Vec<Shown> = Vec::new();
    loop {
        let after = all.last().map(|last| format!("&after={}", last.id)).unwrap_or_default();
        let page = asked(place, &format!("GET /v1/pay/accounts?limit={PAGE}{after}"), "")?;
        let page: Page = serde_json::from_str(&page).map_err(|error| bug("bench", &error))?;
        if page.accounts.is_empty() {
            return Ok(all);
        }
        all.extend(page.accounts);
    }
}

/// Starts the processes; they speak through proxies where one is to be slowed.
pub(crate) fn start(plan: &ProcessPlan, name: &str) -> Result<Processes, SynError> {
    let flags = [("storage.sync".to_owned(), plan.sync.to_owned())];
    let with = Start { name, nodes: plan.nodes.into(), dead: 0, parameters: &|_| {}, flags: &flags };
    Processes::start_pay(&with, plan.faults.contains(&Fault::Slow))
}

/// Where each node takes HTTP.
pub(crate) fn places(cluster: &Processes) -> Vec<Address> {
    cluster.addresses(Service::Http)
}

/// Opens every account and gives it money; the books at that point.
pub(crate) fn open(plan: &ProcessPlan, cluster: &Processes) -> Result<Books, SynError> {
    let mut books = Books::new(usize::from(plan.nodes), plan.customers());
    let places = places(cluster);
    let cap = cluster.genesis.pay().and_then(|pay| pay.registrars.first()).map_or(0, |first| first.cap);
    let most = u64::from(AMOUNT_MAX).saturating_mul(plan.payments);
    let grant = most.min(cap / u64::from(plan.customers()));
    let all: Vec<usize> = (0..books.accounts.len()).collect();
    for (institution, place) in places.iter().enumerate() {
        let own: Vec<usize> =
            all.iter().copied().filter(|one| books.institution(*one) == institution).collect();
        for some in own.chunks(GROUP_MAX) {
            let wanted: Vec<Value> = some.iter().map(|_| json!({})).collect();
            let told = results(place, "POST /v1/pay/create_accounts", &wanted)?;
            let ids: Vec<String> = some.iter().map(|customer| books.id(*customer).to_string()).collect();
            let opened: Vec<&str> = told.iter().filter_map(|told| told["id"].as_str()).collect();
            if opened != ids {
                return Err(bug("bench", &"accounts were not opened in their order"));
            }
        }
    }
    everywhere(&places, "the accounts", &|shown| shown.len() == all.len() + places.len())?;
    for (institution, place) in places.iter().enumerate() {
        let from = Seat { shard: 0, number: u32::try_from(institution).unwrap_or(u32::MAX) }.issuer();
        let own: Vec<AccountId> =
            all.iter().map(|one| books.id(*one)).filter(|id| id.registrar == from.registrar).collect();
        for some in own.chunks(1_000) {
            let wanted = some.iter().map(|to| {
                let id = (u128::from(u32::MAX) << 96) | u128::from(to.registrar) << 80 | u128::from(to.local);
                json!({ "id": id.to_string(), "from": from.to_string(), "to": to.to_string(), "amount": grant.to_string() })
            });
            let wanted: Vec<Value> = wanted.collect();
            let told = results(place, "POST /v1/pay/create_transfers?until=stable", &wanted)?;
            if let Some(refused) = told.iter().find(|told| told["state"].is_null()) {
                return Err(bug("bench", &format!("no money: {refused}")));
            }
        }
    }
    books.grant(u128::from(grant));
    let granted = grant.to_string();
    let is_given = |shown: &[Shown]| shown.iter().filter(|one| one.credits == granted).count() == all.len();
    everywhere(&places, "the money", &is_given)?;
    Ok(books)
}

fn results(place: &Address, line: &str, wanted: &[Value]) -> Result<Vec<Value>, SynError> {
    let told = asked(place, line, &Value::from(wanted.to_vec()).to_string())?;
    let mut told: Value = serde_json::from_str(&told).map_err(|error| bug("bench", &error))?;
    match told["results"].take() {
        Value::Array(results) if results.len() == wanted.len() => Ok(results),
        _ => Err(bug("bench", &"another number of results than of items")),
    }
}

/// Waits until every node shows what is wanted.
pub(crate) fn everywhere(
    places: &[Address],
    what: &str,
    is_there: &dyn Fn(&[Shown]) -> bool,
) -> Result<Vec<Vec<Shown>>, SynError> {
    let until = Instant::now() + EVERYWHERE;
    loop {
        let shown: Vec<Vec<Shown>> = places.iter().map(accounts).collect::<Result<_, _>>()?;
        if shown.iter().all(|shown| is_there(shown)) {
            return Ok(shown);
        }
        if Instant::now() >= until {
            let values = [("address", "the nodes"), ("stage", what)];
            return Err(SynError::of(code::NO_ANSWER, &values));
        }
        std::thread::sleep(LOOK);
    }
}
