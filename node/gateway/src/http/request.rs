//! What a request says besides its operation: query, deadline, id, body.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Uri, header};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use synod_config::{SynError, code};
use synod_host::Mode;

use crate::{budget::Share, http::octets::from_percent, problem::Problem};

/// The header that sets how long the answer may take.
pub(super) const DEADLINE_MS: &str = "synod-deadline-ms";
/// The header that names a request.
pub(super) const REQUEST_ID: &str = "synod-request-id";
/// Longest deadline that a client may ask for.
const DEADLINE_MAX_MS: u64 = 600_000;
/// Longest id that a client may give, in bytes.
const ID_BYTES_MAX: usize = 64;
/// Longest time for a body to arrive.
const BODY_MAX: Duration = Duration::from_secs(10);

/// A refusal of the request's form.
pub(super) fn malformed(problem: &str) -> Problem {
    SynError::of(code::MALFORMED, &[("problem", problem)]).into()
}

/// A refusal of what this release does not do.
pub(super) fn unsupported(verb: &str) -> Problem {
    SynError::of(code::UNSUPPORTED, &[("verb", verb)]).into()
}

/// A refusal of a size.
pub(super) fn too_large(what: &str, size: usize, limit: usize) -> Problem {
    let (size, limit) = (format!("{size} bytes"), format!("{limit} bytes"));
    SynError::of(code::TOO_LARGE, &[("what", what), ("size", &size), ("limit", &limit)]).into()
}

/// The parameters of a query, each of which is `known` and given once.
pub(super) struct Query(BTreeMap<&'static str, Vec<u8>>);

impl Query {
    pub(super) fn read(uri: &Uri, known: &[&'static str]) -> Result<Self, Problem> {
        let mut found = BTreeMap::new();
        for part in uri.query().unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let name = known.iter().find(|known| **known == name);
            let name = name.ok_or_else(|| malformed("the query has an unknown parameter"))?;
            let value = from_percent(value).ok_or_else(|| malformed("the query is not percent-encoded"))?;
            if found.insert(*name, value).is_some() {
                return Err(malformed("the query gives a parameter twice"));
            }
        }
        Ok(Self(found))
    }

    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// The size of a page: `?limit=`, else `usual`.
    ///
    /// # Errors
    /// SYN-3001 for what is no positive number, SYN-3002 for more than `most`.
    pub(super) fn limit(&self, usual: u32, most: u32) -> Result<u32, Problem> {
        let Some(text) = self.get("limit") else { return Ok(usual.min(most)) };
        let limit = std::str::from_utf8(text).ok().and_then(decimal).filter(|limit| *limit > 0);
        let limit = limit.ok_or_else(|| malformed("limit is not a positive number"))?;
        let fits = u32::try_from(limit).ok().filter(|limit| *limit <= most);
        fits.ok_or_else(|| {
            let (size, most) = (format!("{limit} rows"), format!("{most} rows"));
            SynError::of(code::TOO_LARGE, &[("what", "the page"), ("size", &size), ("limit", &most)]).into()
        })
    }

    /// How a read is carried out: `?read=`, else `usual`.
    pub(super) fn mode(&self, usual: Mode) -> Result<Mode, Problem> {
        if self.get("proof").is_some_and(|proof| proof != b"0") {
            return Err(unsupported("proof=1"));
        }
        match self.get("read") {
            None => Ok(usual),
            Some(b"linearizable") => Ok(Mode::Quorum),
            Some(b"ordered") => Ok(Mode::Ordered),
            Some(b"local") => Ok(Mode::Local),
            Some(b"stale") => Err(unsupported("read=stale")),
            Some(_) => Err(malformed("read is not linearizable, ordered or local")),
        }
    }
}

/// The deadline that a request asks for, else `usual`.
pub(super) fn deadline(headers: &HeaderMap, usual: Duration) -> Result<Duration, Problem> {
    let Some(value) = headers.get(DEADLINE_MS) else { return Ok(usual) };
    let ms = value.to_str().ok().and_then(|text| text.parse().ok());
    match ms.filter(|ms| (1..=DEADLINE_MAX_MS).contains(ms)) {
        Some(ms) => Ok(Duration::from_millis(ms)),
        None => Err(malformed("Synod-Deadline-Ms is not a number from 1 to 600000")),
    }
}

/// The id that a request gives itself.
pub(super) fn request_id(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(REQUEST_ID) else { return Ok(None) };
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let id = value.as_bytes();
    if id.is_empty() || id.len() > ID_BYTES_MAX || !id.iter().all(plain) {
        return Err(malformed(
            "Synod-Request-Id is not 1 to 64 letters, digits, dots, dashes or underscores",
        ));
    }
    Ok(value.to_str().ok().map(str::to_owned))
}

/// What `If-Match` demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// Nothing.
    Always,
    /// That the key is there.
    Present,
    /// That it has this version; 0 is absence.
    Version(u64),
}

impl Condition {
    pub(super) fn read(headers: &HeaderMap) -> Result<Self, Problem> {
        // A condition that is not understood must not be passed over.
        if headers.contains_key(header::IF_NONE_MATCH) {
            return Err(unsupported("If-None-Match"));
        }
        let Some(value) = headers.get(header::IF_MATCH) else { return Ok(Self::Always) };
        let text = value.to_str().unwrap_or_default();
        if text == "*" {
            return Ok(Self::Present);
        }
        let version = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).and_then(version);
        version.map(Self::Version).ok_or_else(|| malformed("If-Match is neither * nor one quoted version"))
    }
}

/// A decimal number below 2^128, without signs.
pub(super) fn decimal(text: &str) -> Option<u128> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// A version as a decimal string.
pub(super) fn version(text: &str) -> Option<u64> {
    decimal(text).and_then(|number| u64::try_from(number).ok())
}

/// What a path says between these; nothing where it has another form.
pub(super) fn between<'a>(uri: &'a Uri, before: &str, behind: &str) -> &'a str {
    let path = uri.path().strip_prefix(before).and_then(|path| path.strip_suffix(behind));
    path.unwrap_or_default()
}

/// Reads a body of at most `max` bytes as JSON.
///
/// # Errors
/// SYN-3002 for a longer one, SYN-3001 for one that is late or no such object, SYN-3402 when memory is spent.
pub(super) async fn body<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Body,
    max: usize,
    share: &Share,
) -> Result<T, Problem> {
    parsed(&whole(headers, body, max, share).await?)
}

/// A body as JSON, which may borrow from it.
///
/// # Errors
/// SYN-3001 for one that is no such object.
pub(super) fn parsed<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| malformed(&error.to_string()))
}

/// Reads a body of at most `max` bytes.
///
/// # Errors
/// As [`body`], but for what is in it.
pub(super) async fn whole(
    headers: &HeaderMap,
    body: Body,
    max: usize,
    share: &Share,
) -> Result<Bytes, Problem> {
    let stated = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let length: usize = stated.unwrap_or(max);
    if length > max {
        return Err(too_large("the body", length, max));
    }
    let reading = async {
        // Twice: the body and what is read from it.
        if !share.wait(length as u64 * 2).await {
            return Err(SynError::of(code::BUSY, &[("retry_ms", "5000")]).into());
        }
        let whole = to_bytes(body, max).await;
        whole.map_err(|error| match stated {
            Some(_) => malformed("the body did not arrive whole"),
            None => Problem::from(
                SynError::of(code::TOO_LARGE, &[("what", "the body"), ("limit", &format!("{max} bytes"))])
                    .because(error),
            ),
        })
    };
    tokio::time::timeout(BODY_MAX, reading)
        .await
        .unwrap_or_else(|_| Err(malformed("the body took longer than 10 s")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_positive_size_up_to_the_largest() {
        let limit = |query: &str| {
            let uri: Uri = format!("/v1/kv{query}").parse().expect("a path");
            let query = Query::read(&uri, &["limit"]).expect("a query");
            query.limit(100, 1_000).map_err(|problem| problem.code())
        };
        for (query, wanted) in [
            ("", Ok(100)),
            ("?limit=1", Ok(1)),
            ("?limit=1000", Ok(1_000)),
            ("?limit=1001", Err(code::TOO_LARGE)),
            ("?limit=4294967297", Err(code::TOO_LARGE)),
            ("?limit=0", Err(code::MALFORMED)),
            ("?limit=-1", Err(code::MALFORMED)),
            ("?limit=%2B1", Err(code::MALFORMED)),
            ("?limit=", Err(code::MALFORMED)),
        ] {
            assert_eq!(limit(query), wanted, "{query}");
        }
        let uri: Uri = "/v1/kv".parse().expect("a path");
        assert_eq!(Query::read(&uri, &["limit"]).ok().and_then(|query| query.limit(100, 9).ok()), Some(9));
    }

    #[test]
    fn a_path_says_what_stands_between_its_ends() {
        let uri: Uri = "/v1/pay/transfers/7/receipt?from=0-0-2".parse().expect("a path");
        assert_eq!(between(&uri, "/v1/pay/transfers/", "/receipt"), "7");
        assert_eq!(between(&uri, "/v1/pay/transfers/", "/history"), "");
        assert_eq!(between(&uri, "/v1/kv/", ""), "");
    }

    #[test]
    fn numbers_have_digits_alone() {
        assert_eq!(decimal("340282366920938463463374607431768211455"), Some(u128::MAX));
        for text in ["340282366920938463463374607431768211456", "", "+1", "-1", "1 ", "0x1"] {
            assert_eq!(decimal(text), None, "{text:?}");
        }
        assert_eq!(
            (version("18446744073709551615"), version("18446744073709551616")),
            (Some(u64::MAX), None)
        );
    }
}
