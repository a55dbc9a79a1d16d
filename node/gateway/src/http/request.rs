//! What a request says besides its operation: query, deadline, id, body.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Uri, header};
use bytes::Bytes;
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

/// A version as a decimal string.
pub(super) fn version(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
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
    let bytes: Bytes = tokio::time::timeout(BODY_MAX, reading)
        .await
        .unwrap_or_else(|_| Err(malformed("the body took longer than 10 s")))?;
    serde_json::from_slice(&bytes).map_err(|error| malformed(&error.to_string()))
}
