//! The HTTP routes, and `/openapi.json` made from them.

use crate::choice::choices;
use serde_json::{Map, Value, json};

choices! {
    /// Method of a request.
    Method {
        /// Reads; never changes state.
        Get = "GET",
        /// Writes a value under its key.
        Put = "PUT",
        /// Submits.
        Post = "POST",
        /// Removes.
        Delete = "DELETE",
    }
}

/// One route. Parts of the path in braces are parameters.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Method.
    pub method: Method,
    /// Path, with `{name}` for a parameter.
    pub path: &'static str,
    /// Name of the operation, unique.
    pub name: &'static str,
    /// What it does.
    pub does: &'static str,
    /// Query parameters it takes.
    pub query: &'static [&'static str],
    /// Headers of the request it honours.
    pub headers: &'static [&'static str],
    /// Codes it may answer with, besides those of availability and access.
    pub codes: &'static [u16],
}

const DEADLINE: &str = "Synod-Deadline-Ms";
const REQUEST_ID: &str = "Synod-Request-Id";

/// Every route of the first release that this release serves.
pub const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/v1/kv/{key}",
        name: "kv_get",
        does: "Reads the value of a key.",
        query: &["read", "proof"],
        headers: &[DEADLINE],
        codes: &[3001, 3004, 3008],
    },
    Route {
        method: Method::Put,
        path: "/v1/kv/{key}",
        name: "kv_put",
        does: "Writes the value of a key; If-Match makes it conditional on the version.",
        query: &[],
        headers: &[DEADLINE, REQUEST_ID, "If-Match"],
        codes: &[3001, 3002, 3005, 3006, 3007],
    },
    Route {
        method: Method::Delete,
        path: "/v1/kv/{key}",
        name: "kv_delete",
        does: "Removes a key; If-Match makes it conditional on the version.",
        query: &[],
        headers: &[DEADLINE, REQUEST_ID, "If-Match"],
        codes: &[3001, 3005, 3006, 3007],
    },
    Route {
        method: Method::Get,
        path: "/v1/kv",
        name: "kv_scan",
        does: "Lists keys with a prefix in byte order, behind a key, up to a limit.",
        query: &["prefix", "after", "limit", "read"],
        headers: &[DEADLINE],
        codes: &[3001, 3002],
    },
    Route {
        method: Method::Post,
        path: "/v1/txn",
        name: "kv_txn",
        does: "Compares versions and, if all hold, applies the writes as one step.",
        query: &[],
        headers: &[DEADLINE, REQUEST_ID],
        codes: &[3001, 3002, 3005, 3006, 3007],
    },
    Route {
        method: Method::Get,
        path: "/v1/pay/members",
        name: "pay_members",
        does: "Tells the number and the members of the view that this node of a payment system is in, where members come and go, and what the node is in it.",
        query: &[],
        headers: &[],
        codes: &[3003],
    },
    Route {
        method: Method::Post,
        path: "/v1/pay/members",
        name: "pay_change_members",
        does: "Has a member of the genesis join or leave, with the signatures of a quorum of operators; answers when a quorum of the members has recorded it, before the view changes.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[3001, 3002, 3003, 3402, 3501, 3603, 3604],
    },
    Route {
        method: Method::Get,
        path: "/v1/pay/accounts",
        name: "pay_accounts",
        does: "Lists accounts behind one, as they stand at this node.",
        query: &["after", "limit"],
        headers: &[DEADLINE],
        codes: &[3001, 3002, 3102, 3402],
    },
    Route {
        method: Method::Post,
        path: "/v1/pay/accounts",
        name: "pay_open",
        does: "Opens an account at the institution of this node.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[3001, 3402],
    },
    Route {
        method: Method::Get,
        path: "/v1/pay/accounts/{id}",
        name: "pay_account",
        does: "Tells how an account stands at this node: available, pending, credits, debits; `state` is open, closed, frozen or conflicted, which `conflict` explains.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[3001, 3102, 3132],
    },
    Route {
        method: Method::Post,
        path: "/v1/pay/accounts/{id}/close",
        name: "pay_close",
        does: "Closes an account of this institution, once per id, and pays what is left to `to`: `amount`, or all of its balance. What is paid to a closed account leaves it by closing it once more.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[
            3001, 3002, 3102, 3104, 3105, 3106, 3108, 3109, 3110, 3115, 3116, 3120, 3123, 3131, 3402, 3501,
        ],
    },
    Route {
        method: Method::Post,
        path: "/v1/pay/accounts/{id}/rekey",
        name: "pay_rekey",
        does: "Gives an account of this institution another owner from its next entry on, once per id: whoever signs with the key `ed25519`, or the institution `custodial`, a member's number.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[3001, 3002, 3003, 3104, 3105, 3116, 3118, 3120, 3402, 3501],
    },
    Route {
        method: Method::Post,
        path: "/v1/pay/accounts/{id}/move",
        name: "pay_move",
        does: "Gives an account of this institution another representative, once per id: `representative`, a member's number.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[3001, 3002, 3104, 3105, 3116, 3118, 3120, 3402, 3501],
    },
    Route {
        method: Method::Post,
        path: "/v1/pay/accounts/{id}/limit",
        name: "pay_limit",
        does: "Sets how much an account of this institution may owe, once per id: `limit`, at most the `limit_max` that was agreed when it was opened.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[3001, 3002, 3104, 3105, 3116, 3118, 3120, 3129, 3130, 3402, 3501],
    },
    Route {
        method: Method::Get,
        path: "/v1/pay/accounts/{id}/evidence",
        name: "pay_evidence",
        does: "Gives both entries that the owner of a conflicted account signed for one place: a proof for `synod client verify`.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[3001, 3132, 3402, 3501],
    },
    Route {
        method: Method::Get,
        path: "/v1/pay/accounts/{id}/history",
        name: "pay_history",
        does: "Lists what settled of an account behind a position, in the order in which it settled at this node. A page of long entries is shorter than asked for; `more` says whether there is more.",
        query: &["after", "limit"],
        headers: &[DEADLINE],
        codes: &[3001, 3002, 3102, 3501],
    },
    Route {
        method: Method::Get,
        path: "/v1/pay/accounts/{id}/log",
        name: "pay_log",
        does: "Tells a wallet how far the log of an account is at this node: the n and digest of its last settled entry, and the open entries behind it, in hex digits.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[3001, 3132, 3402, 3501],
    },
    Route {
        method: Method::Get,
        path: "/v1/pay/accounts/{id}/proof",
        name: "pay_proof",
        does: "Proves how an account stood behind the cut `as_of`, by default the newest that this node keeps, or that it was not there in `ledger`: a proof for `synod client verify`.",
        query: &["as_of", "ledger"],
        headers: &[],
        codes: &[3001, 3003, 3132, 3134, 3135, 3136],
    },
    Route {
        method: Method::Get,
        path: "/v1/pay/accounts/{id}/statement",
        name: "pay_statement",
        does: "States what an account was paid and paid behind the cut `since`, by default all, up to the cut `as_of`, by default the newest that this node keeps: opening balance, entries with the balance behind each, closing balance. `next` is where the next page begins (`after`).",
        query: &["since", "as_of", "after", "limit"],
        headers: &[],
        codes: &[3001, 3002, 3003, 3132, 3134, 3135, 3136],
    },
    Route {
        method: Method::Get,
        path: "/v1/pay/ledgers/{ledger}/proof",
        name: "pay_liabilities",
        does: "Proves what all accounts of a ledger were owed together behind the cut `as_of`, by default the newest that this node keeps: a proof for `synod client verify`.",
        query: &["as_of"],
        headers: &[],
        codes: &[3001, 3003, 3132, 3134, 3135],
    },
    Route {
        method: Method::Get,
        path: "/v1/pay/cuts",
        name: "pay_cuts",
        does: "Lists the cuts that this node keeps behind the number `after`, by default the newest: who signed them, and the sums of each ledger.",
        query: &["after", "limit"],
        headers: &[],
        codes: &[3001, 3002, 3003],
    },
    Route {
        method: Method::Get,
        path: "/v1/pay/bundles",
        name: "pay_bundles",
        does: "Tells what left this node's shard for others and is not known to be credited there: a bundle per batch and shard, with the `entries` that are left of it and how often this node `sent` it, 1,024 at most; `entries` is the sum over all, and `coming` counts proven payments of other shards that wait for their credit here.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[3402, 3501],
    },
    Route {
        method: Method::Get,
        path: "/v1/pay/lanes",
        name: "pay_lanes",
        does: "Tells how far the batches of each member are at this node: the last one it judged, and up to which all are certified (`frontier`); of its own batches which members are `behind` with saying that they settled there. `two_batches` is a place for which the member was seen to sign two.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[3402, 3501],
    },
    Route {
        method: Method::Get,
        path: "/v1/pay/log",
        name: "pay_export",
        does: "Gives a page of all that settled at this node up to the position `until`, then of the batches, certificates and members' words that prove it, and the cuts with what they count, as records in hex digits for `synod pay audit`; `next` is where the next page begins (`from`).",
        query: &["from", "until"],
        headers: &[DEADLINE],
        codes: &[3001, 3501],
    },
    Route {
        method: Method::Get,
        path: "/v1/changes",
        name: "pay_changes",
        does: "Lists what settled behind a cursor (`from`), in the order in which it settled at this node, and gives the cursor behind it. A page of long entries is shorter than asked for; `more` says whether there is more. With `Accept: text/event-stream` each row is an event with its position as its id, now and as more settles; `Last-Event-ID` goes on behind one. 64 such streams at a time find a place.",
        query: &["from", "limit"],
        headers: &[DEADLINE],
        codes: &[3001, 3002, 3402, 3501],
    },
    Route {
        method: Method::Post,
        path: "/v1/pay/check",
        name: "pay_check",
        does: "Tells a wallet whether this node would endorse an entry that is not signed yet. It promises nothing.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[
            3001, 3102, 3104, 3105, 3106, 3107, 3108, 3109, 3110, 3112, 3113, 3114, 3115, 3116, 3118, 3119,
            3120, 3123, 3124, 3125, 3126, 3127, 3128, 3129, 3131, 3402, 3501,
        ],
    },
    Route {
        method: Method::Post,
        path: "/v1/pay/entries",
        name: "pay_submit",
        does: "Carries an entry that the owner of its account signed, whoever opened the account, and answers when it is certified, settled or stable. The same bytes happen once at all nodes together.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[
            3001, 3102, 3104, 3105, 3106, 3107, 3108, 3109, 3110, 3112, 3113, 3114, 3115, 3116, 3118, 3119,
            3120, 3123, 3124, 3125, 3126, 3127, 3128, 3129, 3131, 3402, 3501,
        ],
    },
    Route {
        method: Method::Post,
        path: "/v1/pay/transfers",
        name: "pay_transfer",
        does: "Pays one account or several (`legs`), sets money aside (`pending`) or decides over what was (`post_pending`, `void_pending`; `pending_from` says whose hold it is), once per payer and id, and answers when it is certified, settled or stable.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[
            3001, 3102, 3104, 3105, 3106, 3107, 3108, 3109, 3110, 3115, 3116, 3118, 3119, 3120, 3123, 3124,
            3125, 3126, 3127, 3128, 3133, 3402, 3501,
        ],
    },
    Route {
        method: Method::Post,
        path: "/v1/pay/create_transfers",
        name: "pay_create_transfers",
        does: "Takes an array of up to 8,189 transfers with the fields of `/v1/pay/transfers` (`debit_account_id` and `credit_account_id` are other names of `from` and `to`) and answers `results`, one per item in their order: id, state, n, digest and position, or a problem with its code. Each happens once per payer and id; items wait for room within the deadline.",
        query: &["until"],
        headers: &[DEADLINE],
        codes: &[
            3001, 3002, 3102, 3104, 3105, 3106, 3107, 3108, 3109, 3110, 3115, 3116, 3118, 3119, 3120, 3123,
            3124, 3125, 3126, 3127, 3128, 3133, 3402, 3501,
        ],
    },
    Route {
        method: Method::Post,
        path: "/v1/pay/create_accounts",
        name: "pay_create_accounts",
        does: "Opens the accounts of an array of up to 8,189, with the fields of `/v1/pay/accounts`, at the institution of this node, and answers `results`, one per item in their order: its id, or a problem with its code.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[3001, 3002, 3402, 3501],
    },
    Route {
        method: Method::Get,
        path: "/v1/pay/transfers/{id}",
        name: "pay_find",
        does: "Tells a payment by its id, and how sure it is; `from` is its payer, where several have the id.",
        query: &["from"],
        headers: &[DEADLINE],
        codes: &[3001, 3132, 3133, 3501],
    },
    Route {
        method: Method::Get,
        path: "/v1/pay/transfers/{id}/receipt",
        name: "pay_receipt",
        does: "Gives the receipt of a settled payment, at the highest level that its own batches show: a proof for `synod client verify`; `from` is its payer, where several have the id.",
        query: &["from"],
        headers: &[DEADLINE],
        codes: &[3001, 3008, 3132, 3133, 3501],
    },
    Route {
        method: Method::Get,
        path: "/v1/requests/{id}",
        name: "request",
        does: "Tells the outcome of a request id.",
        query: &[],
        headers: &[DEADLINE],
        codes: &[3001, 3014],
    },
    Route {
        method: Method::Get,
        path: "/v1/status",
        name: "status",
        does: "Tells epoch, view, leader, height, quorum, and the state of each node.",
        query: &[],
        headers: &[],
        codes: &[],
    },
    Route {
        method: Method::Get,
        path: "/v1/why",
        name: "why",
        does: "Tells what the cluster waits for.",
        query: &[],
        headers: &[],
        codes: &[],
    },
    Route {
        method: Method::Get,
        path: "/v1/members",
        name: "members",
        does: "Lists the members of the current epoch.",
        query: &[],
        headers: &[],
        codes: &[],
    },
    Route {
        method: Method::Get,
        path: "/v1/views",
        name: "views",
        does: "Lists views from one on: leader, how it was entered, what it committed.",
        query: &["from"],
        headers: &[],
        codes: &[3001],
    },
    Route {
        method: Method::Get,
        path: "/openapi.json",
        name: "openapi",
        does: "This description.",
        query: &[],
        headers: &[],
        codes: &[],
    },
    Route {
        method: Method::Get,
        path: "/version",
        name: "version",
        does: "Tells commit, toolchain, features and the versions of protocols and formats.",
        query: &[],
        headers: &[],
        codes: &[],
    },
];

impl Route {
    /// Names of the parameters in the path, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    fn to_openapi(self) -> Value {
        let parameter = |place: &str, name: &str, required: bool| json!({ "name": name, "in": place, "required": required, "schema": { "type": "string" } });
        let mut parameters: Vec<Value> =
            self.parameters().map(|name| parameter("path", name, true)).collect();
        parameters.extend(self.query.iter().map(|name| parameter("query", name, false)));
        parameters.extend(self.headers.iter().map(|name| parameter("header", name, false)));
        let mut responses = Map::new();
        responses.insert("200".to_owned(), json!({ "description": "The answer." }));
        for code in self.codes {
            let Some(entry) = crate::errors::explain(crate::errors::Code::new(*code)) else { continue };
            let status = entry.http.unwrap_or(500).to_string();
            let known = responses.get(&status).and_then(|response| response["description"].as_str());
            let line = format!("{} {}", entry.code, entry.name);
            let description = known.map_or(line.clone(), |known| format!("{known}; {line}"));
            responses.insert(status, problem(&description));
        }
        responses.insert("default".to_owned(), problem("Access, availability or an unknown outcome."));
        json!({
            "operationId": self.name,
            "summary": self.does,
            "parameters": parameters,
            "responses": responses,
        })
    }
}

fn problem(description: &str) -> Value {
    let schema = json!({ "$ref": "#/components/schemas/Problem" });
    json!({ "description": description, "content": { "application/problem+json": { "schema": schema } } })
}

/// The document served as `/openapi.json` (OpenAPI 3.1).
#[must_use]
pub fn openapi_json() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = route.to_openapi();
    }
    let string = json!({ "type": "string" });
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Synod", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "security": [{ "bearer": [] }],
        "components": {
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Problem": {
                "type": "object",
                "required": ["type", "title", "status", "code", "outcome", "retry", "fix", "causes"],
                "properties": {
                    "type": string, "title": string, "status": { "type": "integer" }, "detail": string,
                    "instance": string, "code": string, "outcome": { "enum": ["rejected", "unknown"] },
                    "retry": { "enum": ["P", "T", "D", "U"] }, "retry_after_ms": { "type": "integer" },
                    "fix": string, "causes": { "type": "array", "items": string },
                },
            } },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn routes_are_unique_and_name_codes_of_the_catalogue() {
        let (mut seen, mut names) = (BTreeSet::new(), BTreeSet::new());
        for route in ROUTES {
            assert!(seen.insert((route.path, route.method.as_str())), "{} {}", route.method, route.path);
            assert!(names.insert(route.name), "{}", route.name);
            for number in route.codes {
                let entry = crate::explain(crate::Code::new(*number)).expect("the code is in the catalogue");
                assert!(entry.http.is_some(), "{} has no status", entry.code);
            }
        }
        assert!(
            ROUTES.iter().all(|route| route.method != Method::Get || !route.headers.contains(&REQUEST_ID))
        );
    }

    #[test]
    fn the_description_holds_every_route_with_its_parameters() {
        let document = openapi_json();
        for route in ROUTES {
            let operation = &document["paths"][route.path][route.method.as_str().to_ascii_lowercase()];
            assert_eq!(operation["operationId"], route.name);
            let count = operation["parameters"].as_array().expect("a list").len();
            assert_eq!(count, route.parameters().count() + route.query.len() + route.headers.len());
        }
        let put = &document["paths"]["/v1/kv/{key}"]["put"]["responses"];
        assert_eq!(put["409"]["description"], "SYN-3006 outside_window; SYN-3007 id_reused");
        assert_eq!(put["412"]["description"], "SYN-3005 condition_failed");
    }
}
