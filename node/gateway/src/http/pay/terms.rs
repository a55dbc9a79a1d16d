//! What becomes of an account itself: `POST /v1/pay/accounts/{id}/close`, `/rekey`, `/move` and `/limit`. Each is an entry of the account's
//! log with a name, as a transfer is: sent again it happens once.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde::Deserialize;
use synod_config::{SynError, code};
use synod_host::pay::{AccountId, Order, Owner, Seen, Teller, What};

use super::{account, blocking, carried, denied, evidence, key, level, named_of, number, teller};
use crate::http::request::{Query, body, deadline, malformed};
use crate::http::server::Front;
use crate::problem::Problem;
use crate::web::Link;

/// The body of such a POST.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    id: String,
    /// Who has what is left of a closed account.
    to: Option<String>,
    /// How much that is; by default all of the balance.
    amount: Option<String>,
    /// The key of the new owner.
    ed25519: Option<String>,
    /// The institution that is the new owner, as a member's number.
    custodial: Option<u8>,
    /// The new representative, as a member's number.
    representative: Option<u8>,
    /// How much the account may owe.
    limit: Option<String>,
    code: Option<u16>,
    until: Option<String>,
}

/// The account and the last word of the path.
fn asked(uri: &Uri) -> Result<(AccountId, &str), Problem> {
    let rest = uri.path().strip_prefix("/v1/pay/accounts/").and_then(|rest| rest.split_once('/'));
    let (id, word) = rest.ok_or_else(|| malformed("the path names no account"))?;
    Ok((account(id)?, word))
}

impl Change {
    /// Makes sure that nothing is said that another of the four wants.
    fn only(&self, wanted: &[&str]) -> Result<(), Problem> {
        let said = [
            ("to", self.to.is_some()),
            ("amount", self.amount.is_some()),
            ("ed25519", self.ed25519.is_some()),
            ("custodial", self.custodial.is_some()),
            ("representative", self.representative.is_some()),
            ("limit", self.limit.is_some()),
        ];
        let other = said.iter().find(|(name, is_said)| *is_said && !wanted.contains(name));
        other.map_or(Ok(()), |(name, _)| Err(malformed(&format!("{name} does not go with this change"))))
    }

    /// What is to happen; `left` is what a closed account pays out where nothing is said of it, and there are so many members.
    fn what(&self, word: &str, left: u128, members: u32) -> Result<What, Problem> {
        let missing = |name: &str| malformed(&format!("{name} is missing"));
        let member = |of: u8| {
            if u32::from(of) < members { Ok(of) } else { Err(malformed("no member has that number")) }
        };
        match word {
            "close" => {
                self.only(&["to", "amount"])?;
                let to = account(self.to.as_deref().ok_or_else(|| missing("to"))?)?;
                let amount = self.amount.as_deref().map(|amount| number("amount", amount)).transpose()?;
                Ok(What::Close { to, amount: amount.unwrap_or(left) })
            }
            "rekey" => {
                self.only(&["ed25519", "custodial"])?;
                match (&self.ed25519, self.custodial) {
                    (Some(text), None) => Ok(What::Rekey(Owner::SelfSigned(key(text)?))),
                    (None, Some(institution)) => Ok(What::Rekey(Owner::Custodial(member(institution)?))),
                    _ => Err(malformed("one of ed25519 and custodial is said")),
                }
            }
            "move" => {
                self.only(&["representative"])?;
                let to = self.representative.ok_or_else(|| missing("representative"))?;
                Ok(What::Move(member(to)?))
            }
            _ => {
                self.only(&["limit"])?;
                let limit = self.limit.as_deref().ok_or_else(|| missing("limit"))?;
                Ok(What::Limit(number("limit", limit)?))
            }
        }
    }
}

/// What an account has, as an amount of one entry.
fn left(seen: &Seen) -> u128 {
    let balance = seen.standing.credits.saturating_sub(seen.standing.debits);
    // An entry moves less than 2^96; the rest leaves by another one.
    balance.to_string().parse().unwrap_or(u128::MAX).min((1 << 96) - 1)
}

/// The amount of an order to close of this name that came before: sent again it is the same order.
async fn before(teller: &Arc<Teller>, (id, of): (u128, AccountId)) -> Result<Option<u128>, Problem> {
    let teller = Arc::clone(teller);
    blocking(move || teller.closed_with(id, of)).await
}

/// `POST /v1/pay/accounts/{id}/close`, `/rekey`, `/move` and `/limit`.
pub(in crate::http) async fn alter(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let (teller, (of, word)) = (Arc::clone(teller(&front)?), asked(&uri)?);
    let change: Change = body(&headers, content, front.request_max, &link.share).await?;
    let id = number("id", &change.id)?;
    let (until, limit) = (level(change.until.as_deref())?, deadline(&headers, front.deadline)?);
    let seen = evidence::seen(&front, of, limit).await?;
    let seen = seen
        .ok_or_else(|| Problem::from(SynError::of(code::UNKNOWN_ACCOUNT, &[("client", &of.to_string())])))?;
    let amount = if word == "close" { before(&teller, (id, of)).await? } else { None };
    let what = change.what(word, amount.unwrap_or_else(|| left(&seen)), teller.view().roster.size())?;
    let (ledger, code) = (seen.standing.opening.ledger, change.code.unwrap_or(0));
    let order = Order { id, from: of, what, ledger, code };
    link.writes();
    let ordered = order.clone();
    let answer = blocking(move || teller.pay(&ordered, until)).await?;
    let ids = (id, change.id, of);
    carried(&front, &link, (answer, limit), ids, |why| denied(why, Some(named_of(&order)))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(word: &str, fields: &str) -> Result<What, String> {
        let body = format!("{{\"id\": \"7\"{fields}}}");
        let change: Change = serde_json::from_str(&body).map_err(|error| error.to_string())?;
        change.what(word, 90, 4).map_err(|problem| problem.code().to_string())
    }

    #[test]
    fn a_body_changes_what_its_path_says_and_nothing_else() {
        let to = AccountId { shard: 0, registrar: 1, local: 2 };
        let digits = "07".repeat(32);
        let owner = Owner::SelfSigned(synod_host::pay::PublicKey([7; 32]));
        for (word, fields, wanted) in [
            ("close", r#", "to": "0-1-2""#, What::Close { to, amount: 90 }),
            ("close", r#", "to": "0-1-2", "amount": "0""#, What::Close { to, amount: 0 }),
            ("rekey", &*format!(r#", "ed25519": "{digits}""#), What::Rekey(owner)),
            ("rekey", r#", "custodial": 3"#, What::Rekey(Owner::Custodial(3))),
            ("move", r#", "representative": 0"#, What::Move(0)),
            ("limit", r#", "limit": "5", "code": 9"#, What::Limit(5)),
        ] {
            assert_eq!(what(word, fields), Ok(wanted), "{word} {fields}");
        }
        for (word, fields) in [
            ("close", ""),
            ("close", r#", "to": "0-1-2", "limit": "5""#),
            ("close", r#", "to": "0-1-2", "amount": "-1""#),
            ("rekey", ""),
            ("rekey", r#", "ed25519": "07""#),
            ("rekey", r#", "custodial": 4"#),
            ("rekey", &*format!(r#", "custodial": 1, "ed25519": "{digits}""#)),
            ("move", r#", "representative": 4"#),
            ("move", r#", "to": "0-1-2", "representative": 1"#),
            ("limit", r#", "representative": 1"#),
        ] {
            assert_eq!(what(word, fields), Err("SYN-3001".to_owned()), "{word} {fields}");
        }
        assert!(what("limit", r#", "limit": 5"#).is_err(), "amounts are strings");
    }

    #[test]
    fn a_path_names_its_account_and_the_change() {
        let path = |text: &str| {
            asked(&text.parse().expect("a path")).map(|(id, word)| (id.to_string(), word.to_owned())).ok()
        };
        assert_eq!(path("/v1/pay/accounts/0-1-2/close"), Some(("0-1-2".to_owned(), "close".to_owned())));
        assert_eq!(path("/v1/pay/accounts/0-1/close"), None);
    }
}
