//! The nodes of a payment system as their customers reach them.

use super::reach::{Reach, Token};
use crate::http::{self, Answer, Fate, Request, Unanswered};
use crate::session::{Session, no_context, usage};
use serde_json::Value;
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use synod_config::{Address, Code, Genesis, Member, Pay, SynError, code, format_duration};
use synod_host::pay::{AccountId, Seat};

/// How long an answer may take when nothing is said.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of an answer: a receipt has a certificate of 512 KiB at most, in hex digits, and a page of a history 1,000 payments.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// A payment system as its customer reaches it.
pub(in crate::verbs) struct System {
    genesis: Genesis,
    pay: Pay,
    /// Where members take HTTP, in the order of the members; `None` where nobody says.
    places: Vec<Option<Address>>,
    token: Option<Token>,
    patience: Duration,
}

/// A member whose node takes requests.
#[derive(Clone, Copy)]
pub(in crate::verbs) struct Institution<'a> {
    system: &'a System,
    name: &'a str,
    http: &'a Address,
}

/// A name for a payment: 48 bits of the time in ms, and 80 that nobody else draws.
pub(super) fn draw_id() -> u128 {
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let random = RandomState::new();
    let drawn = u128::from(random.hash_one(1)) << 64 | u128::from(random.hash_one(2));
    (ms << 80) | (drawn >> 48)
}

impl System {
    /// The payment system of the context, with what the command line says of its nodes.
    ///
    /// # Errors
    /// Those of the context, of the genesis and of the token; SYN-1001 for a cluster of another kind, and for an address of somebody
    /// who is no member.
    pub(in crate::verbs) fn open(session: &Session, reach: &Reach) -> Result<Self, SynError> {
        let context = session.chosen()?.ok_or_else(no_context)?;
        let genesis = Genesis::read(&context.genesis)?;
        let kind = genesis.cluster().protocol;
        let pay = genesis.pay().cloned().ok_or_else(|| {
            usage(&format!("the cluster is of kind {kind}, and pay needs one of kind astro"))
                .because("start one with `synod up --kind astro --name bank --base-port 7200`")
        })?;
        if let Some((name, _)) = reach.http.iter().find(|(name, _)| genesis.member(name).is_none()) {
            return Err(no_member(name));
        }
        let own = context.member.zip(context.http);
        let places = genesis.members().iter().map(|member| {
            let mut said = reach.http.iter().chain(&own);
            let said = said.find(|(name, _)| *name == member.name).map(|(_, address)| address);
            said.or(member.http.as_ref()).cloned()
        });
        let places = places.collect();
        let token =
            reach.token_file.as_deref().or(context.token_file.as_deref()).map(Token::read).transpose()?;
        Ok(Self { places, genesis, pay, token, patience: session.timeout.unwrap_or(PATIENCE) })
    }

    pub(in crate::verbs) const fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    /// The members of a shard, in the order of their numbers there; none where there is no such shard.
    pub(in crate::verbs) fn members_of(&self, shard: u16) -> &[Member] {
        let group = self.genesis.groups().into_iter().nth(usize::from(shard)).unwrap_or_default();
        let at = |number| usize::try_from(number).unwrap_or(usize::MAX);
        self.genesis.members().get(at(group.start)..at(group.end)).unwrap_or_default()
    }

    /// Those members of a shard of which somebody says where they take requests.
    ///
    /// # Errors
    /// SYN-1001 where nobody says so of any.
    pub(super) fn all_of(&self, shard: u16) -> Result<Vec<Institution<'_>>, SynError> {
        let known = self.members_of(shard).iter().filter_map(|member| self.known(&member.name).ok());
        let known: Vec<Institution<'_>> = known.collect();
        match (known.is_empty(), self.members_of(shard).first()) {
            (true, Some(first)) => Err(self.nowhere(&first.name)),
            (true, None) => Err(usage(&format!("the cluster has no shard {shard}"))),
            (false, _) => Ok(known),
        }
    }

    /// The number of a member in the shard of an account.
    ///
    /// # Errors
    /// SYN-1001 for no member, and for one of another shard: its number there would name somebody else here.
    pub(super) fn number_beside(&self, account: AccountId, name: &str) -> Result<u8, SynError> {
        let (member, _) = self.genesis.member(name).ok_or_else(|| no_member(name))?;
        let Seat { shard, number } = Seat::of(&self.genesis, member);
        if shard != account.shard {
            let what = format!(
                "{name} is a member of shard {shard}, and {account} an account of shard {}",
                account.shard
            );
            return Err(usage(&what));
        }
        u8::try_from(number).map_err(|_| no_member(name))
    }

    /// Whether members come and go.
    pub(super) const fn has_views(&self) -> bool {
        self.pay.has_views()
    }

    /// How long an answer may take.
    pub(in crate::verbs) const fn patience(&self) -> Duration {
        self.patience
    }

    pub(super) fn is_drill(&self) -> bool {
        self.genesis.cluster().drill
    }

    /// Every member of which somebody says where it takes requests.
    ///
    /// # Errors
    /// SYN-1001 where nobody says so of any.
    pub(in crate::verbs) fn all(&self) -> Result<Vec<Institution<'_>>, SynError> {
        let members = self.genesis.members().iter().zip(&self.places);
        let known = members.filter_map(|(member, place)| Some(self.at(&member.name, place.as_ref()?)));
        let all: Vec<Institution<'_>> = known.collect();
        match (all.is_empty(), self.genesis.members().first()) {
            (true, Some(first)) => Err(self.nowhere(&first.name)),
            _ => Ok(all),
        }
    }

    /// The member of this name, by default the first registrar of which somebody says where it takes requests.
    pub(in crate::verbs) fn named(&self, name: Option<&str>) -> Result<Institution<'_>, SynError> {
        let registrars = || self.pay.registrars.iter().map(|registrar| registrar.member.as_str());
        let reached = || registrars().find(|name| self.known(name).is_ok());
        let name = name.or_else(reached).or_else(|| registrars().next());
        self.known(name.ok_or_else(|| usage("the genesis names no registrar"))?)
    }

    /// The member of this name, by default the institution of the account.
    pub(super) fn of(&self, account: AccountId, name: Option<&str>) -> Result<Institution<'_>, SynError> {
        if name.is_some() {
            return self.named(name);
        }
        let seat = Seat::over(account);
        let member = seat.member(&self.genesis).and_then(|member| usize::try_from(member.0).ok());
        let member = member.and_then(|at| self.genesis.members().get(at)).ok_or_else(|| {
            let what = account.to_string();
            let of_shard = if self.pay.has_shards() || seat.shard > 0 {
                format!(" in shard {}", seat.shard)
            } else {
                String::new()
            };
            SynError::of(code::UNKNOWN_ACCOUNT, &[("client", &what)])
                .because(format!("the cluster has no member {}{of_shard}", seat.number))
        })?;
        self.known(&member.name)
    }

    fn known(&self, name: &str) -> Result<Institution<'_>, SynError> {
        let mut members = self.genesis.members().iter().zip(&self.places);
        let (member, place) =
            members.find(|(member, _)| member.name == name).ok_or_else(|| no_member(name))?;
        let place = place.as_ref().ok_or_else(|| self.nowhere(name))?;
        Ok(self.at(&member.name, place))
    }

    const fn at<'a>(&'a self, name: &'a str, http: &'a Address) -> Institution<'a> {
        Institution { system: self, name, http }
    }

    fn nowhere(&self, name: &str) -> SynError {
        let error = usage(&format!("nothing says where the node of {name} takes HTTP")).because(format!(
            "nodes take it on their own machine alone: there, say `--http {name}=127.0.0.1:PORT`, or once for all in \
             `synod ctx add`"
        ));
        let members = self.genesis.members().iter().zip(&self.places);
        let known = members.filter(|(_, place)| place.is_some()).map(|(member, _)| member.name.as_str());
        let known: Vec<&str> = known.collect();
        if known.is_empty() {
            return error;
        }
        error.because(format!(
            "what all members know can be asked of another: --node {}",
            known.join(", --node ")
        ))
    }
}

fn no_member(name: &str) -> SynError {
    usage(&format!("the cluster has no member {name}"))
}

impl<'a> Institution<'a> {
    pub(in crate::verbs) const fn name(&self) -> &'a str {
        self.name
    }

    /// Its shard and its number there, which the names of its accounts have.
    pub(super) fn seat(&self) -> Seat {
        let member = self.system.genesis.member(self.name);
        member.map(|(member, _)| Seat::of(&self.system.genesis, member)).unwrap_or_default()
    }

    /// The ledger of the institution's money; `None` of a member that is no registrar and has none.
    pub(super) fn ledger(&self) -> Option<u32> {
        let mut registrars = self.system.pay.registrars.iter();
        registrars.find(|registrar| registrar.member == self.name).map(|registrar| registrar.ledger)
    }

    /// Asks; what the node refuses is refused as it says.
    pub(in crate::verbs) fn get(&self, path: &str) -> Result<Value, SynError> {
        let answer = self.ask(&format!("GET {path}"), "").map_err(|unanswered| unanswered.error)?;
        read(&answer).map_err(|strange| match strange {
            Unread::Refused(error) => error,
            Unread::Strange(why) => SynError::with_message(code::BUG, STRANGE).because(why),
        })
    }

    /// Orders what `what` names; what the node refuses is refused as it says.
    ///
    /// # Errors
    /// Those of reaching the node: nothing was sent then. SYN-3501 and SYN-3502 where it was and the node told no outcome.
    pub(in crate::verbs) fn post(&self, path: &str, (body, what): (&Value, &str)) -> Result<Value, SynError> {
        let unknown = |number: Code| {
            let deadline = format_duration(self.system.patience);
            SynError::of(number, &[("id", what), ("deadline", &deadline)])
        };
        let answer = match self.ask(&format!("POST {path}"), &body.to_string()) {
            Ok(answer) => answer,
            Err(Unanswered { fate: Fate::Unsent, error }) => return Err(error),
            Err(Unanswered { fate, error }) => {
                let number = if fate == Fate::Late { code::DEADLINE_PASSED } else { code::CONNECTION_LOST };
                let unknown = unknown(number).because(&error);
                return Err(error.causes().iter().fold(unknown, SynError::because));
            }
        };
        read(&answer).map_err(|strange| match strange {
            Unread::Refused(error) => error,
            Unread::Strange(why) => unknown(code::CONNECTION_LOST).because(STRANGE).because(why),
        })
    }

    fn ask(&self, line: &str, body: &str) -> Result<Answer, Unanswered> {
        let patience = self.system.patience;
        let mut headers = vec![format!("Synod-Deadline-Ms: {}", patience.as_millis().clamp(1, 600_000))];
        if let Some(token) = &self.system.token {
            let header = token.header(self.http);
            headers.push(header.map_err(|error| Unanswered { fate: Fate::Unsent, error })?);
        }
        // The answer that the time is up comes within the time, and a little later over the network.
        let patience = patience + Duration::from_secs(1);
        let request = Request { line, headers: &headers, body, patience, answer_bytes_max: ANSWER_BYTES_MAX };
        http::ask_until_taken(self.http, &request)
    }
}

/// Said of an answer that is not a node's.
const STRANGE: &str = "the answer is not that of a node";

/// Why an answer says nothing of what was asked for.
#[derive(Debug)]
enum Unread {
    /// The node refused, with its reason.
    Refused(SynError),
    /// It is no answer of a node, and this is strange of it.
    Strange(String),
}

/// An answer as JSON, or the problem that it states.
fn read(answer: &Answer) -> Result<Value, Unread> {
    let object: Value =
        serde_json::from_str(&answer.body).map_err(|error| Unread::Strange(error.to_string()))?;
    if answer.status < 300 {
        return Ok(object);
    }
    let Some(number) = object["code"].as_str().and_then(Code::parse) else {
        return Err(Unread::Strange(format!("status {} without a code", answer.status)));
    };
    let detail = object["detail"].as_str().unwrap_or("the node refused without a reason");
    let causes = object["causes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Err(Unread::Refused(causes.fold(SynError::with_message(number, detail), SynError::because)))
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
        match read(&Answer { status: 409, body: body.to_owned() }) {
            Err(Unread::Refused(error)) => {
                assert_eq!((error.code().number(), error.message()), (3115, "0-0-2 has less than 5"));
            }
            other => panic!("{other:?}"),
        }
        for (status, body) in [(200, "<html>"), (409, "{}"), (502, r#"{"code":"x"}"#)] {
            let strange = read(&Answer { status, body: body.to_owned() });
            assert!(matches!(strange, Err(Unread::Strange(_))), "{strange:?}");
        }
    }
}
