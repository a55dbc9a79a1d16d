//! What a recipe gives.

use serde::Serialize;

/// One line of a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points.
    pub points: Vec<(u64, u64)>,
}

/// A number in the paper's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Anchor {
    /// Of which system.
    pub series: &'static str,
    /// Where.
    pub x: u64,
    /// How much.
    pub value: u64,
    /// Where the paper says so.
    pub source: &'static str,
}

/// What must come out, and whether it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Expectation {
    /// What.
    pub what: String,
    /// The numbers it was judged by.
    pub seen: String,
    /// Whether it held.
    pub held: bool,
}

impl Expectation {
    /// What was expected, by which numbers it is judged, and whether it held.
    #[must_use]
    pub const fn new(what: String, seen: String, held: bool) -> Self {
        Self { what, seen, held }
    }
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// The recipe.
    pub id: String,
    /// Where the paper has it.
    pub paper: String,
    /// What it asks.
    pub question: String,
    /// How its numbers came to be; kinds never share an axis.
    pub label: &'static str,
    /// What was charged.
    pub circumstances: String,
    /// What the x axis shows.
    pub x: &'static str,
    /// What the y axis shows.
    pub y: &'static str,
    /// The lines.
    pub series: Vec<Series>,
    /// The paper's numbers.
    pub anchors: Vec<Anchor>,
    /// What was expected.
    pub expectations: Vec<Expectation>,
    /// What differs from the paper.
    pub differs: Vec<&'static str>,
    /// Further numbers, each with its name.
    pub beside: Vec<(String, u64)>,
}

impl Figure {
    /// Whether all that was expected held.
    #[must_use]
    pub fn held(&self) -> bool {
        self.expectations.iter().all(|expectation| expectation.held)
    }

    /// The line of this name.
    #[must_use]
    pub fn line(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }

    /// Tidy rows: series, x, y; the paper's numbers under the name of their system with `paper: ` before it.
    #[must_use]
    pub fn rows(&self) -> Vec<(String, u64, u64)> {
        let own = self.series.iter();
        let own = own.flat_map(|line| line.points.iter().map(|(x, y)| (line.name.clone(), *x, *y)));
        let paper = self.anchors.iter().map(|one| (format!("paper: {}", one.series), one.x, one.value));
        own.chain(paper).collect()
    }
}
