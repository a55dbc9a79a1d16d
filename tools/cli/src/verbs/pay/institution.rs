//! The nodes of a payment system as their customers reach them.

use crate::context;
use crate::http::{self, Answer};
use crate::session::{Session, no_context, usage};
use serde_json::Value;
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use synod_config::{Address, Code, Genesis, Pay, SynError, code};
use synod_host::pay::AccountId;

/// How long an answer may take when nothing is said.
const PATIENCE: Duration = Duration::from_secs(10);

/// A member whose node takes requests.
#[derive(Clone, Debug)]
pub(super) struct Institution {
    name: String,
    http: Address,
    ledger: Option<u32>,
    is_drill: bool,
}

/// A name for a payment: 48 bits of the time in ms, and 80 that nobody else draws.
pub(super) fn draw_id() -> u128 {
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let random = RandomState::new();
    let drawn = u128::from(random.hash_one(1)) << 64 | u128::from(random.hash_one(2));
    (ms << 80) | (drawn >> 48)
}

impl Institution {
    /// Every registrar of the context's payment system that says where it takes requests.
    pub(super) fn all(session: &Session) -> Result<Vec<Self>, SynError> {
        let (genesis, pay) = genesis(session)?;
        let members = genesis.members().iter();
        let all: Vec<Self> = members.filter_map(|member| of(&genesis, &pay, &member.name).ok()).collect();
        if all.is_empty() {
            return Err(usage("no member of this cluster states an address for HTTP"));
        }
        Ok(all)
    }

    /// The member of this name, by default the first registrar.
    pub(super) fn named(session: &Session, name: Option<&str>) -> Result<Self, SynError> {
        let (genesis, pay) = genesis(session)?;
        match name.or_else(|| pay.registrars.first().map(|registrar| registrar.member.as_str())) {
            Some(name) => of(&genesis, &pay, name),
            None => Err(usage("the genesis names no registrar")),
        }
    }

    /// The member of this name, by default the institution of the account.
    pub(super) fn of(session: &Session, account: AccountId, name: Option<&str>) -> Result<Self, SynError> {
        if name.is_some() {
            return Self::named(session, name);
        }
        let (genesis, pay) = genesis(session)?;
        let member = usize::try_from(account.registrar).ok().and_then(|at| genesis.members().get(at));
        let member = member.ok_or_else(|| {
            let what = account.to_string();
            SynError::of(code::UNKNOWN_ACCOUNT, &[("client", &what)])
                .because(format!("the cluster has no member {}", account.registrar))
        })?;
        of(&genesis, &pay, &member.name)
    }

    pub(super) fn name(&self) -> String {
        self.name.clone()
    }

    /// The ledger of the institution's money.
    pub(super) const fn ledger(&self) -> Option<u32> {
        self.ledger
    }

    pub(super) const fn is_drill(&self) -> bool {
        self.is_drill
    }

    pub(super) fn get(&self, session: &Session, path: &str) -> Result<Value, SynError> {
        self.ask(session, &format!("GET {path}"), "")
    }

    pub(super) fn post(&self, session: &Session, path: &str, body: &Value) -> Result<Value, SynError> {
        self.ask(session, &format!("POST {path}"), &body.to_string())
    }

    fn ask(&self, session: &Session, line: &str, body: &str) -> Result<Value, SynError> {
        let patience = session.timeout.unwrap_or(PATIENCE);
        let headers = [format!("Synod-Deadline-Ms: {}", patience.as_millis().clamp(1, 600_000))];
        // The answer that the time is up comes within the time, and a little later over the network.
        let answer = http::ask(&self.http, line, &headers, body, patience + Duration::from_secs(1))?;
        read(&answer)
    }
}

fn genesis(session: &Session) -> Result<(Genesis, Pay), SynError> {
    let genesis = context::genesis(session)?.ok_or_else(no_context)?;
    let pay = genesis.pay().cloned();
    let kind = genesis.cluster().protocol;
    let pay = pay.ok_or_else(|| {
        usage(&format!("the cluster is of kind {kind}, and pay needs one of kind astro"))
            .because("start one with `synod up --kind astro`")
    })?;
    Ok((genesis, pay))
}

fn of(genesis: &Genesis, pay: &Pay, name: &str) -> Result<Institution, SynError> {
    let (_, member) =
        genesis.member(name).ok_or_else(|| usage(&format!("the cluster has no member {name}")))?;
    let http = member.http.clone().ok_or_else(|| {
        usage(&format!("{name} states no address for HTTP in the genesis")).because("ask on its own machine")
    })?;
    let registrar = pay.registrars.iter().find(|registrar| registrar.member == name);
    Ok(Institution {
        name: name.to_owned(),
        http,
        ledger: registrar.map(|registrar| registrar.ledger),
        is_drill: genesis.cluster().drill,
    })
}

/// An answer as JSON, or the problem that it states.
fn read(answer: &Answer) -> Result<Value, SynError> {
    let object: Value = serde_json::from_str(&answer.body)
        .map_err(|error| SynError::with_message(code::BUG, "the node's answer is no JSON").because(error))?;
    if answer.status < 300 {
        return Ok(object);
    }
    let number = object["code"].as_str().and_then(Code::parse).unwrap_or(code::BUG);
    let detail = object["detail"].as_str().unwrap_or("the node refused without a reason");
    let causes = object["causes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Err(causes.fold(SynError::with_message(number, detail), SynError::because))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_payments_are_drawn_apart_and_begin_with_the_time() {
        let drawn: std::collections::BTreeSet<u128> = (0..1_000).map(|_| draw_id()).collect();
        assert_eq!(drawn.len(), 1_000);
        let ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970").as_millis();
        assert!(drawn.iter().all(|id| (id >> 80).abs_diff(ms) < 60_000));
    }

    #[test]
    fn a_problem_is_shown_as_the_node_stated_it() {
        let body = r#"{"code":"SYN-3115","detail":"0-0-2 has less than 5","causes":["it was spent"]}"#;
        let error = read(&Answer { status: 409, body: body.to_owned() }).expect_err("a refusal");
        assert_eq!((error.code().number(), error.message()), (3115, "0-0-2 has less than 5"));
        let strange = read(&Answer { status: 200, body: "<html>".to_owned() }).expect_err("no JSON");
        assert_eq!(strange.code(), code::BUG);
    }
}
