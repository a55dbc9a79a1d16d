//! One page of metrics: values put by name, encoded in the order of the table.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use synod_config::{Code, METRICS, Metric, MetricKind, explain};

use crate::traffic::{Api, BUCKETS_US, Traffic};

/// Series that each member may add to a page.
pub const SERIES_PER_MEMBER: usize = 60;
/// Series of a page besides.
pub const SERIES_FIXED: usize = 1_000;

/// The value of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// A word of this program.
    Word(&'static str),
    /// A member, by its index in the list that the listener was given; another index becomes `other`.
    Member(usize),
    /// A code of the catalogue; another code becomes `other`.
    Code(Code),
}

/// A distribution, as far as it is counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Upper bound of each bucket, ascending, with the events in that bucket alone.
    pub buckets: Vec<(f64, u64)>,
    /// All events, those above the last bound included.
    pub count: u64,
    /// Sum of their values.
    pub sum: f64,
}

#[derive(Debug)]
enum Value {
    Count(u64),
    Number(f64),
    Distribution(Distribution),
}

#[derive(Debug)]
struct Series {
    labels: Vec<(&'static str, Cow<'static, str>)>,
    value: Value,
}

/// The values of one scrape.
#[derive(Debug)]
pub struct Page {
    members: Arc<[String]>,
    rows: Vec<Vec<Series>>,
    count: usize,
    dropped: usize,
}

impl Page {
    pub(crate) fn new(members: Arc<[String]>) -> Self {
        Self { members, rows: METRICS.iter().map(|_| Vec::new()).collect(), count: 0, dropped: 0 }
    }

    /// Puts a whole number, for a counter or a gauge. Asserts that the name is in the table and that there is one
    /// value per label name, in the order of the table; so do the other two.
    pub fn count(&mut self, name: &str, labels: &[Label], value: u64) {
        self.put(name, labels, Value::Count(value));
    }

    /// Puts a number, for a counter or a gauge.
    pub fn number(&mut self, name: &str, labels: &[Label], value: f64) {
        self.put(name, labels, Value::Number(value));
    }

    /// Puts a duration in seconds, for a counter or a gauge.
    pub fn seconds(&mut self, name: &str, labels: &[Label], value: Duration) {
        self.number(name, labels, value.as_secs_f64());
    }

    /// Puts a distribution, for a histogram.
    pub fn distribution(&mut self, name: &str, labels: &[Label], value: Distribution) {
        self.put(name, labels, Value::Distribution(value));
    }

    fn put(&mut self, name: &str, labels: &[Label], value: Value) {
        let row = METRICS.iter().position(|metric| metric.name == name);
        let Some(row) = row else { unreachable!("{name} is not in the table of metrics") };
        let metric = &METRICS[row];
        assert_eq!(metric.labels.len(), labels.len(), "labels of {name}");
        let is_distribution = matches!(value, Value::Distribution(_));
        assert_eq!(metric.kind == MetricKind::Histogram, is_distribution, "kind of {name}");
        if self.count >= SERIES_FIXED + SERIES_PER_MEMBER * self.members.len() {
            self.dropped += 1;
            return;
        }
        self.count += 1;
        let labels =
            metric.labels.iter().zip(labels).map(|(name, label)| (*name, self.shown(*label))).collect();
        self.rows[row].push(Series { labels, value });
    }

    fn shown(&self, label: Label) -> Cow<'static, str> {
        match label {
            Label::Word(word) => Cow::Borrowed(word),
            Label::Member(index) => {
                self.members.get(index).map_or(Cow::Borrowed("other"), |name| Cow::Owned(name.clone()))
            }
            Label::Code(code) if explain(code).is_some() => Cow::Owned(code.to_string()),
            Label::Code(_) => Cow::Borrowed("other"),
        }
    }

    /// Series that found no place.
    pub(crate) fn dropped(&self) -> usize {
        self.dropped
    }

    pub(crate) fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (metric, series) in METRICS.iter().zip(&self.rows) {
            // The encoder adds the suffix of counters itself.
            let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
            let mut row = encoder.encode_descriptor(name, metric.help, None, kind(metric))?;
            for one in series {
                if one.labels.is_empty() {
                    value(&mut row, metric, &one.value)?;
                } else {
                    value(&mut row.encode_family(&one.labels)?, metric, &one.value)?;
                }
            }
        }
        Ok(())
    }
}

fn kind(metric: &Metric) -> MetricType {
    match metric.kind {
        MetricKind::Counter => MetricType::Counter,
        MetricKind::Gauge => MetricType::Gauge,
        MetricKind::Histogram => MetricType::Histogram,
        _ => MetricType::Unknown,
    }
}

fn value(row: &mut MetricEncoder<'_>, metric: &Metric, value: &Value) -> fmt::Result {
    let counter = metric.kind == MetricKind::Counter;
    match value {
        Value::Count(count) if counter => row.encode_counter::<NoLabelSet, u64, u64>(count, None),
        Value::Count(count) => row.encode_gauge(count),
        Value::Number(number) if counter => row.encode_counter::<NoLabelSet, f64, u64>(number, None),
        Value::Number(number) => row.encode_gauge(number),
        Value::Distribution(Distribution { buckets, count, sum }) => {
            let within: u64 = buckets.iter().map(|(_, events)| events).sum();
            let mut buckets = buckets.clone();
            buckets.push((f64::INFINITY, count.saturating_sub(within)));
            row.encode_histogram::<NoLabelSet>(*sum, *count, &buckets, None)
        }
    }
}

/// Puts what the gateway itself counts.
pub(crate) fn traffic(page: &mut Page, traffic: &Traffic, gateway_bytes: u64) {
    for api in Api::ALL {
        let word = Label::Word(api.word());
        let ok = [word, Label::Word("ok")];
        page.count("synod_requests_total", &ok, traffic.accepted_total(api));
        for (code, count) in traffic.refused_total(api) {
            page.count("synod_requests_total", &[word, Label::Code(code)], count);
        }
        let (counts, count, sum) = traffic.durations(api).read();
        let bounds = BUCKETS_US.iter().map(|us| Duration::from_micros(*us).as_secs_f64());
        let buckets = bounds.zip(counts).collect();
        let durations = Distribution { buckets, count, sum: sum.as_secs_f64() };
        page.distribution("synod_request_seconds", &[word], durations);
        page.count("synod_inflight_requests", &[word], traffic.inflight(api));
        page.count("synod_connections", &[word], traffic.connections(api));
    }
    page.count("synod_gateway_bytes", &[], gateway_bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        Page::new(Arc::from(["n0".to_owned(), "n1".to_owned()]))
    }

    #[test]
    fn a_label_is_a_word_a_member_or_a_known_code() {
        let page = page();
        assert_eq!(page.shown(Label::Member(1)), "n1");
        assert_eq!(page.shown(Label::Member(2)), "other");
        assert_eq!(page.shown(Label::Code(Code::new(2101))), "SYN-2101");
        assert_eq!(page.shown(Label::Code(Code::new(1))), "other");
    }

    #[test]
    fn series_have_a_bound() {
        let mut page = page();
        let most = SERIES_FIXED + 2 * SERIES_PER_MEMBER;
        for _ in 0..most {
            page.count("synod_equivocations_total", &[Label::Member(0)], 1);
        }
        assert_eq!(page.dropped(), 0);
        page.count("synod_sessions", &[], 1);
        assert_eq!(page.dropped(), 1);
    }

    #[test]
    #[should_panic(expected = "not in the table")]
    fn a_name_outside_the_table_is_a_bug() {
        page().count("synod_made_up", &[], 1);
    }
}
