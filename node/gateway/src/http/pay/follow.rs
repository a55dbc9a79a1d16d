//! What settles at this node as it does, as server-sent events (`GET /v1/changes` with `Accept: text/event-stream`).
//!
//! An event's id is its position, its data a row as in the pages. A client that comes back names the last id it saw, as browsers do by
//! themselves (`Last-Event-ID`), and misses nothing and sees nothing twice. One that reads slowly holds up itself alone: the next page is
//! read once the one before it is out. A stream ends when the node stops.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use synod_config::{SynError, code};
use synod_host::pay::{Teller, Transfer};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;

use super::show::shown;
use super::{blocking, number};
use crate::http::request::malformed;
use crate::http::server::{Front, STREAMS_MAX};
use crate::problem::Problem;
use crate::stop::Stop;
use crate::web::{GoesOn, Link};

/// Rows that are read from the index at once.
const ROWS: usize = 64;
/// Between two looks at an index in which nothing settled.
const LOOK: Duration = Duration::from_millis(50);
/// Between two comments where nothing settles, so that both ends know that the other is there.
const ALIVE: Duration = Duration::from_secs(10);
/// What a client waits that finds no place.
const RETRY_MS: u32 = 5_000;

/// Whether a client wants events.
pub(super) fn is_asked(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let kinds = accept.flat_map(|value| value.split(','));
    let mut kinds = kinds.map(|kind| kind.split(';').next().unwrap_or_default().trim());
    kinds.any(|kind| kind.eq_ignore_ascii_case("text/event-stream"))
}

/// Behind which position it wants them: the last one it saw, or `from`.
pub(super) fn cursor(headers: &HeaderMap, from: u64) -> Result<u64, Problem> {
    let Some(last) = headers.get("last-event-id") else { return Ok(from) };
    let last = last.to_str().map_err(|_| malformed("Last-Event-ID is not a number"))?;
    u64::try_from(number("Last-Event-ID", last)?).map_err(|_| malformed("Last-Event-ID is not below 2^64"))
}

/// One client's stream.
struct Following {
    teller: Arc<Teller>,
    cursor: u64,
    /// Rows that were read and are not out.
    rows: VecDeque<Event>,
    stop: Stop,
    _place: OwnedSemaphorePermit,
    _open: GoesOn,
}

impl Following {
    /// The next row, once there is one; `None` when the node stops.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some(row) = self.rows.pop_front() {
                return Some((Ok(row), self));
            }
            if self.teller.index().position() <= self.cursor {
                tokio::select! {
                    () = self.stop.clone().stopped() => return None,
                    () = sleep(LOOK) => continue,
                }
            }
            let (teller, from) = (Arc::clone(&self.teller), self.cursor);
            let read = move || {
                let found = teller.index().changes(from, ROWS);
                let last = found.entries.last().map_or(from, |last| last.position);
                let row =
                    |transfer: &Transfer| (transfer.position, shown(teller.index(), transfer).to_string());
                (found.entries.iter().map(row).collect::<Vec<_>>(), last)
            };
            let (rows, last) = blocking(read).await.ok()?;
            self.cursor = last;
            let event = |(position, row): (u64, String)| Event::default().id(position.to_string()).data(row);
            self.rows = rows.into_iter().map(event).collect();
        }
    }
}

/// All that settles behind a position, as it does.
pub(super) fn stream(
    front: &Front,
    link: &Link,
    teller: Arc<Teller>,
    cursor: u64,
) -> Result<Response, Problem> {
    let place = Arc::clone(&front.streams).try_acquire_owned().map_err(|_| {
        tracing::warn!(most = STREAMS_MAX, "a client that follows changes found no place");
        let busy = SynError::of(code::BUSY, &[("retry_ms", &RETRY_MS.to_string())]);
        Problem::from(busy).after_ms(RETRY_MS)
    })?;
    let following = Following {
        teller,
        cursor,
        rows: VecDeque::new(),
        stop: front.shared.stop.clone(),
        _place: place,
        _open: link.goes_on(),
    };
    let alive = KeepAlive::new().interval(ALIVE);
    Ok(Sse::new(stream::unfold(following, Following::next)).keep_alive(alive).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().expect("a name"), value.parse().expect("a value"))])
    }

    #[test]
    fn events_are_for_who_accepts_them_among_others() {
        for (value, is_wanted) in [
            ("text/event-stream", true),
            ("application/json;q=0.5, Text/Event-Stream;q=1", true),
            ("application/json", false),
            ("*/*", false),
            ("text/event-streams", false),
        ] {
            assert_eq!(is_asked(&headers("accept", value)), is_wanted, "{value}");
        }
        assert!(!is_asked(&HeaderMap::new()));
    }

    #[test]
    fn who_comes_back_goes_on_behind_the_last_event_it_saw() {
        let read =
            |value: &str| cursor(&headers("last-event-id", value), 3).map_err(|problem| problem.code());
        assert_eq!(cursor(&HeaderMap::new(), 3).ok(), Some(3));
        assert_eq!(read("17"), Ok(17));
        for wrong in ["x", "-1", "", "18446744073709551616"] {
            assert_eq!(read(wrong), Err(code::MALFORMED), "{wrong}");
        }
    }
}
