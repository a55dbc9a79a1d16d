//! The members of a payment system: `GET /v1/pay/members`, and `POST /v1/pay/members` for a change that operators signed.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use synod_host::pay::Signature;

use super::show::reply;
use super::wallet::signature;
use super::{answered, denied, teller};
use crate::http::request::{Query, body, deadline, malformed, unsupported};
use crate::http::server::Front;
use crate::problem::Problem;
use crate::web::Link;

/// The body of a POST of a change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    /// `join` or `leave`.
    change: String,
    /// The number of the member in the genesis.
    member: u8,
    signatures: Vec<Signed>,
}

/// An operator's signature.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    /// The number of the operator in the genesis.
    operator: u8,
    signature: String,
}

impl Change {
    /// Whether the member joins.
    fn joins(&self) -> Result<bool, Problem> {
        match self.change.as_str() {
            "join" => Ok(true),
            "leave" => Ok(false),
            _ => Err(malformed("change is not join or leave")),
        }
    }

    /// The signatures in the order of the operators.
    fn signed(&self) -> Result<Vec<(u8, Signature)>, Problem> {
        let signed = self.signatures.iter().map(|one| Ok((one.operator, signature(&one.signature)?)));
        let mut signed = signed.collect::<Result<Vec<_>, Problem>>()?;
        signed.sort_by_key(|(operator, _)| *operator);
        Ok(signed)
    }
}

/// `GET /v1/pay/members`.
pub(in crate::http) async fn members(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    Ok(reply(&link, &standing(&front)?))
}

fn standing(front: &Front) -> Result<Value, Problem> {
    let known = teller(front)?.members();
    let known = known.ok_or_else(|| unsupported("/v1/pay/members where members are there for good"))?;
    let (view, standing) = (known.view, known.standing.word());
    Ok(json!({ "view": view, "standing": standing, "members": known.members }))
}

/// `POST /v1/pay/members`.
pub(in crate::http) async fn change(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    standing(&front)?;
    let change: Change = body(&headers, content, front.request_max, &link.share).await?;
    let (joins, signed) = (change.joins()?, change.signed()?);
    let limit = deadline(&headers, front.deadline)?;
    link.writes();
    let answer = teller(&front)?.change((change.member, joins), signed);
    answered(&front.shared, answer, limit, "the change", |why| denied(why, None)).await?;
    Ok(reply(&link, &standing(&front)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(change: &str, signatures: &Value) -> Result<(bool, Vec<u8>), Problem> {
        let body = json!({ "change": change, "member": 4, "signatures": signatures });
        let change: Change = serde_json::from_value(body).expect("it has every field");
        Ok((change.joins()?, change.signed()?.into_iter().map(|(operator, _)| operator).collect()))
    }

    #[test]
    fn a_change_is_read_with_its_signatures_in_the_order_of_the_operators() {
        let hex = "00".repeat(64);
        let signed = |operator: u8| json!({ "operator": operator, "signature": hex });
        let both = json!([signed(2), signed(0)]);
        assert_eq!(read("join", &both).map_err(|problem| problem.code()), Ok((true, vec![0, 2])));
        assert_eq!(read("leave", &json!([])).map_err(|problem| problem.code()), Ok((false, vec![])));
        let code = |read: Result<_, Problem>| read.map_err(|problem| problem.code()).err();
        let malformed = Some(synod_config::code::MALFORMED);
        assert_eq!(code(read("expel", &both)), malformed);
        let short = json!([{ "operator": 0, "signature": "00" }]);
        assert_eq!(code(read("join", &short)), malformed);
    }
}
