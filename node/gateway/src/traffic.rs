//! What the gateway counts about requests: outcomes by code, durations, what is in flight, open connections.
//!
//! Codes are those of the catalogue and nothing else, so a label is never text of a client. Counting takes a few
//! relaxed additions per call, however many operations it carries; nothing is allocated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use synod_config::{Code, ERRORS};

/// An interface of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// RESP2 and RESP3.
    Resp,
    /// HTTP/JSON.
    Http,
    /// The text protocol of Memcached.
    Memcached,
}

impl Api {
    /// Every interface.
    pub const ALL: [Self; 3] = [Self::Resp, Self::Http, Self::Memcached];

    /// The word in metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Resp => "resp",
            Self::Http => "http",
            Self::Memcached => "memcached",
        }
    }
}

/// Upper bounds of the buckets of a duration, in microseconds; the last bucket has none.
pub const BUCKETS_US: [u64; 14] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    5_000_000,
];

/// A distribution of durations.
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [AtomicU64; BUCKETS_US.len()],
    count: AtomicU64,
    sum_us: AtomicU64,
}

/// Counters of one interface.
#[derive(Debug)]
struct Counters {
    accepted: AtomicU64,
    refused: Box<[AtomicU64]>,
    durations: Durations,
    inflight: AtomicU64,
    connections: AtomicU64,
}

/// All of it.
#[derive(Debug)]
pub struct Traffic {
    resp: Counters,
    http: Counters,
    memcached: Counters,
    /// Connections closed because of a limit: slow readers, slow commands, spent budgets, no place.
    closed: AtomicU64,
}

impl Durations {
    /// Counts `times` events of one duration.
    pub fn record(&self, duration: Duration, times: u64) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = BUCKETS_US.iter().position(|bound| us <= *bound) {
            self.buckets[bucket].fetch_add(times, Ordering::Relaxed);
        }
        self.count.fetch_add(times, Ordering::Relaxed);
        self.sum_us.fetch_add(us.saturating_mul(times), Ordering::Relaxed);
    }

    /// Events per bucket of [`BUCKETS_US`], all events, and the sum of their durations.
    #[must_use]
    pub fn read(&self) -> ([u64; BUCKETS_US.len()], u64, Duration) {
        let buckets = std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed));
        let sum = Duration::from_micros(self.sum_us.load(Ordering::Relaxed));
        (buckets, self.count.load(Ordering::Relaxed), sum)
    }
}

impl Counters {
    fn new() -> Self {
        Self {
            accepted: AtomicU64::new(0),
            refused: ERRORS.iter().map(|_| AtomicU64::new(0)).collect(),
            durations: Durations::default(),
            inflight: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        }
    }
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            resp: Counters::new(),
            http: Counters::new(),
            memcached: Counters::new(),
            closed: AtomicU64::new(0),
        }
    }
}

impl Traffic {
    fn of(&self, api: Api) -> &Counters {
        match api {
            Api::Resp => &self.resp,
            Api::Http => &self.http,
            Api::Memcached => &self.memcached,
        }
    }

    /// Counts operations that were given to the backend.
    pub fn began(&self, api: Api, operations: u64) {
        self.of(api).inflight.fetch_add(operations, Ordering::Relaxed);
    }

    /// Counts operations whose outcomes came after `duration`.
    pub fn ended(&self, api: Api, operations: u64, duration: Duration) {
        self.of(api).inflight.fetch_sub(operations, Ordering::Relaxed);
        self.of(api).durations.record(duration, operations);
    }

    /// Counts operations whose connection ended before their outcomes came.
    pub fn abandoned(&self, api: Api, operations: u64) {
        self.of(api).inflight.fetch_sub(operations, Ordering::Relaxed);
    }

    /// Counts accepted outcomes.
    pub fn accepted(&self, api: Api, operations: u64) {
        self.of(api).accepted.fetch_add(operations, Ordering::Relaxed);
    }

    /// Counts one outcome with a code; one outside the catalogue counts as SYN-9001.
    pub fn refused(&self, api: Api, code: Code) {
        let row = |code: Code| ERRORS.binary_search_by_key(&code, |entry| entry.code).ok();
        if let Some(row) = row(code).or_else(|| row(synod_config::code::BUG)) {
            self.of(api).refused[row].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a connection that opened.
    pub fn opened(&self, api: Api) {
        self.of(api).connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that ended.
    pub fn left(&self, api: Api) {
        self.of(api).connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a connection closed because of a limit.
    pub fn cut(&self) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }

    /// Connections closed because of a limit.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// Outcomes accepted so far.
    #[must_use]
    pub fn accepted_total(&self, api: Api) -> u64 {
        self.of(api).accepted.load(Ordering::Relaxed)
    }

    /// Outcomes so far by code, those that occurred.
    pub fn refused_total(&self, api: Api) -> impl Iterator<Item = (Code, u64)> {
        let counts = self.of(api).refused.iter().map(|count| count.load(Ordering::Relaxed));
        ERRORS.iter().map(|entry| entry.code).zip(counts).filter(|(_, count)| *count > 0)
    }

    /// Operations given to the backend without an outcome yet.
    #[must_use]
    pub fn inflight(&self, api: Api) -> u64 {
        self.of(api).inflight.load(Ordering::Relaxed)
    }

    /// Open connections.
    #[must_use]
    pub fn connections(&self, api: Api) -> u64 {
        self.of(api).connections.load(Ordering::Relaxed)
    }

    /// Durations of operations.
    #[must_use]
    pub fn durations(&self, api: Api) -> &Durations {
        &self.of(api).durations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_config::code;

    #[test]
    fn outcomes_are_counted_by_code_and_unknown_codes_as_a_bug() {
        let traffic = Traffic::default();
        traffic.accepted(Api::Resp, 7);
        traffic.refused(Api::Resp, code::BUSY);
        traffic.refused(Api::Resp, code::BUSY);
        traffic.refused(Api::Resp, Code::new(3999));
        assert_eq!(traffic.accepted_total(Api::Resp), 7);
        let seen: Vec<_> = traffic.refused_total(Api::Resp).collect();
        assert_eq!(seen, [(code::BUSY, 2), (code::BUG, 1)]);
        assert_eq!(traffic.refused_total(Api::Http).count(), 0);
    }

    #[test]
    fn durations_fall_into_the_first_bucket_that_holds_them() {
        let durations = Durations::default();
        durations.record(Duration::from_micros(100), 2);
        durations.record(Duration::from_micros(101), 1);
        durations.record(Duration::from_secs(60), 1);
        let (buckets, count, sum) = durations.read();
        assert_eq!((buckets[0], buckets[1], buckets.iter().sum::<u64>()), (2, 1, 3));
        assert_eq!(count, 4);
        assert_eq!(sum, Duration::from_micros(60_000_301));
    }
}
