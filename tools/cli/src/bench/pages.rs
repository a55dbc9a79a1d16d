//! Metrics pages of nodes, and what passed between two of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use synod_config::Address;

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// One value of a page.
#[derive(Clone, Debug)]
struct Series {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// What a node told at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    at: Instant,
    series: Vec<Series>,
}

impl Page {
    /// Asks a node; `None` if it does not answer.
    pub(crate) fn fetch(metrics: &Address) -> Option<Self> {
        let answer = crate::http::get(metrics, "/metrics", PATIENCE).ok()?;
        (answer.status == 200).then(|| Self::parse(&answer.body, Instant::now()))
    }

    pub(crate) fn parse(text: &str, at: Instant) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self { at, series: lines.filter_map(series).collect() }
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Series> {
        self.series.iter().filter(move |series| series.name == name)
    }

    /// The sum over all labels; `None` if the node has no such series.
    pub(crate) fn sum(&self, name: &str) -> Option<f64> {
        self.named(name).map(|series| series.value).reduce(|sum, value| sum + value)
    }

    /// The values of one label, each with the sum over all others.
    pub(crate) fn by(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for series in self.named(name) {
            if let Some(value) = series.labels.get(label) {
                *sums.entry(value.clone()).or_insert(0.0) += series.value;
            }
        }
        sums
    }

    /// The buckets of a histogram, upper bounds rising, counts cumulative; only those with this stage, if one is given.
    fn buckets(&self, name: &str, stage: Option<&str>) -> Vec<(f64, f64)> {
        let name = format!("{name}_bucket");
        let of_stage =
            |series: &&Series| stage.is_none_or(|s| series.labels.get("stage").is_some_and(|t| t == s));
        let bound = |series: &Series| -> Option<f64> {
            match series.labels.get("le")?.as_str() {
                "+Inf" => Some(f64::INFINITY),
                number => number.parse().ok(),
            }
        };
        let found = self.named(&name).filter(of_stage).filter_map(|s| Some((bound(s)?, s.value)));
        let mut found: Vec<(f64, f64)> = found.collect();
        found.sort_by(|left, right| left.0.total_cmp(&right.0));
        found
    }
}

/// Reads `name{label="value",...} number`.
fn series(line: &str) -> Option<Series> {
    let (head, value) = line.trim_end().rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let (name, rest) = head.split_once('{').unwrap_or((head, "}"));
    let mut labels = BTreeMap::new();
    // Values are names of members and closed sets of words: none holds a quote.
    for pair in rest.strip_suffix('}')?.split("\",").filter(|pair| !pair.is_empty()) {
        let (label, text) = pair.split_once("=\"")?;
        labels.insert(label.to_owned(), text.trim_end_matches('"').to_owned());
    }
    Some(Series { name: name.to_owned(), labels, value })
}

/// What passed at one node. A node that was started again counts from there: its counters began anew.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    before: Page,
    after: Page,
    restarted: bool,
}

impl Passed {
    pub(crate) fn new(before: Page, after: Page) -> Self {
        let uptime = |page: &Page| page.sum("synod_uptime_seconds");
        let restarted = uptime(&after) < uptime(&before);
        Self { before, after, restarted }
    }

    /// Seconds between the two looks.
    pub(crate) fn seconds(&self) -> f64 {
        self.after.at.saturating_duration_since(self.before.at).as_secs_f64().max(1e-6)
    }

    fn since(&self, after: f64, before: f64) -> f64 {
        if self.restarted || after < before { after } else { after - before }
    }

    /// By how much a counter rose.
    pub(crate) fn rise(&self, name: &str) -> Option<f64> {
        let after = self.after.sum(name)?;
        Some(self.since(after, self.before.sum(name).unwrap_or(0.0)))
    }

    /// What a gauge says at the end.
    pub(crate) fn last(&self, name: &str) -> Option<f64> {
        self.after.sum(name)
    }

    /// By how much a gauge that outlives restarts rose.
    pub(crate) fn growth(&self, name: &str) -> Option<f64> {
        Some((self.after.sum(name)? - self.before.sum(name)?).max(0.0))
    }

    /// By how much a counter rose, for each value of a label.
    pub(crate) fn rise_by(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let before = self.before.by(name, label);
        let after = self.after.by(name, label).into_iter();
        after
            .map(|(key, now)| (key.clone(), self.since(now, before.get(&key).copied().unwrap_or(0.0))))
            .collect()
    }

    /// What a histogram gathered.
    fn gathered(&self, name: &str, stage: Option<&str>) -> Vec<(f64, f64)> {
        let before = self.before.buckets(name, stage);
        let was =
            |bound: f64| before.iter().find(|(le, _)| le.total_cmp(&bound).is_eq()).map_or(0.0, |(_, n)| *n);
        let after = self.after.buckets(name, stage).into_iter();
        after.map(|(bound, now)| (bound, self.since(now, was(bound)))).collect()
    }
}

/// A histogram over several nodes.
pub(crate) struct Spread(Vec<(f64, f64)>);

impl Spread {
    /// What a histogram gathered at these nodes; the reason if there is nothing.
    ///
    /// # Errors
    /// Why there is nothing.
    pub(crate) fn over(nodes: &[Passed], name: &str, stage: Option<&str>) -> Result<Self, String> {
        let mut all: Vec<(f64, f64)> = Vec::new();
        for (bound, count) in nodes.iter().flat_map(|node| node.gathered(name, stage)) {
            match all.iter_mut().find(|(le, _)| le.total_cmp(&bound).is_eq()) {
                Some((_, sum)) => *sum += count,
                None => all.push((bound, count)),
            }
        }
        all.sort_by(|left, right| left.0.total_cmp(&right.0));
        match all.last() {
            None => Err(format!("the nodes do not export {name}")),
            Some((_, total)) if *total < 0.5 => Err(format!("{name} counted nothing in the measured time")),
            Some(_) => Ok(Self(all)),
        }
    }

    /// Observations.
    pub(crate) fn count(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, total)| *total)
    }

    /// The value below which this share lies, linear inside its bucket; the highest finite bound if it lies above.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let rank = share * self.count();
        let (mut low, mut below) = (0.0, 0.0);
        for (bound, count) in &self.0 {
            if *count >= rank && bound.is_finite() {
                let inside = if *count > below { (rank - below) / (count - below) } else { 1.0 };
                return low + (bound - low) * inside;
            }
            if bound.is_finite() {
                (low, below) = (*bound, *count);
            }
        }
        low
    }
}

/// Values of the label `stage` of a histogram.
pub(crate) fn stages(nodes: &[Passed], name: &str) -> Vec<String> {
    let name = format!("{name}_bucket");
    let mut all: Vec<String> =
        nodes.iter().flat_map(|node| node.after.by(&name, "stage").into_keys()).collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page::parse(text, Instant::now())
    }

    fn histogram(counts: [u32; 3], uptime: u32) -> Page {
        let [low, high, all] = counts;
        page(&format!(
            "# HELP synod_x_seconds x\nsynod_uptime_seconds {uptime}\n\
             synod_x_seconds_bucket{{stage=\"vote\",le=\"0.001\"}} {low}\n\
             synod_x_seconds_bucket{{stage=\"vote\",le=\"0.002\"}} {high}\n\
             synod_x_seconds_bucket{{stage=\"vote\",le=\"+Inf\"}} {all}\n"
        ))
    }

    #[test]
    fn series_are_read_with_their_labels_and_summed_over_them() {
        let text = "synod_a 3\nsynod_b{peer=\"n0\",class=\"all\"} 4\nsynod_b{peer=\"n1\",class=\"all\"} 1.5e1\nwrong\n";
        let page = page(text);
        assert_eq!(
            (page.sum("synod_a"), page.sum("synod_b"), page.sum("synod")),
            (Some(3.0), Some(19.0), None)
        );
        assert_eq!(
            page.by("synod_b", "peer"),
            BTreeMap::from([("n0".to_owned(), 4.0), ("n1".to_owned(), 15.0)])
        );
    }

    #[test]
    fn quantiles_lie_inside_their_bucket() {
        let node = Passed::new(histogram([10, 10, 10], 1), histogram([60, 110, 110], 2));
        let spread = Spread::over(&[node], "synod_x_seconds", Some("vote")).expect("it counted");
        assert!((spread.count() - 100.0).abs() < 1e-9);
        assert!((spread.at(0.25) - 0.000_5).abs() < 1e-9);
        assert!((spread.at(0.75) - 0.001_5).abs() < 1e-9);
        let beyond = Passed::new(histogram([0, 0, 0], 1), histogram([0, 0, 5], 2));
        let spread = Spread::over(&[beyond], "synod_x_seconds", None).expect("it counted");
        assert!((spread.at(0.5) - 0.002).abs() < 1e-9, "no more is known than the highest bound");
    }

    #[test]
    fn what_was_not_counted_has_a_reason_and_no_figure() {
        let node = Passed::new(histogram([3, 3, 3], 1), histogram([3, 3, 3], 2));
        let why =
            |name| Spread::over(std::slice::from_ref(&node), name, None).map(|_| ()).expect_err("nothing");
        assert!(why("synod_x_seconds").contains("counted nothing"));
        assert!(why("synod_y_seconds").contains("do not export synod_y_seconds"));
        assert_eq!(stages(&[node], "synod_x_seconds"), ["vote"]);
    }

    #[test]
    fn a_node_that_was_started_again_counts_from_there() {
        let node = Passed::new(histogram([50, 50, 50], 100), histogram([60, 60, 60], 1));
        let spread = Spread::over(&[node], "synod_x_seconds", None).expect("it counted");
        assert!((spread.count() - 60.0).abs() < 1e-9);
        let rise = |before, after| Passed::new(page(before), page(after)).rise("synod_n_total");
        assert_eq!(rise("synod_n_total 5\n", "synod_n_total 7\n"), Some(2.0));
        assert_eq!(rise("synod_n_total 5\n", "synod_n_total 3\n"), Some(3.0));
        assert_eq!(rise("synod_n_total 5\n", ""), None);
    }
}
