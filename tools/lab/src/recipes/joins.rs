//! Members that join one by one (Figure 8).

use super::list::Recipe;
use crate::circumstances::{Circumstances, Scale};
use crate::figure::{Expectation, Figure, Series};
use crate::joins::{Join, join_up_to};

pub(super) const JOINS: Recipe = Recipe {
    id: "astro/8",
    paper: "Astro Figure 8",
    question: "how long does a join take, by the number of members, and how long do payments pause?",
    run,
};

const DIFFERS: [&str; 6] = [
    "simulated network and prices instead of t2.medium machines in four European regions",
    "the paper's system is quiet; here four customers keep one payment each under way (T27)",
    "links between all who will ever be members are open from the beginning",
    "a member asks for the join, not the node that joins",
    "who joins takes every batch since the beginning, not a certified cut",
    "the paper's text has no numbers of this figure but that BFT-SMaRt takes ten times as long; a join by consensus is not built here",
];

fn run(with: &Circumstances, tell: &mut dyn FnMut(&str)) -> Result<Figure, String> {
    let members = match with.scale {
        Scale::Quick => 7,
        Scale::Usual => 16,
        Scale::Full => 80,
    };
    let joined = join_up_to(members, with)?;
    let line = |name: &str, of: fn(&Join) -> u64| Series {
        name: name.to_owned(),
        points: joined.joins.iter().map(|join| (u64::from(join.members), of(join))).collect(),
    };
    for join in &joined.joins {
        tell(&format!(
            "{} members: {} us to join, {} us of pause, {} ms without a payment, {} payments a second meanwhile",
            join.members, join.latency_us, join.pause_us, join.gap_ms, join.during
        ));
    }
    let slowest = joined.joins.iter().map(|join| join.latency_us).max().unwrap_or(u64::MAX);
    let gap = joined.joins.iter().map(|join| join.gap_ms).max().unwrap_or(u64::MAX);
    let all = joined.joins.len() as u64;
    Ok(Figure {
        x: "members with the one who joins",
        y: "us",
        series: vec![
            line("Astro II-F: from the request to taking part", |join| join.latency_us),
            line("Astro II-F: longest pause of a member", |join| join.pause_us),
        ],
        expectations: vec![
            Expectation::new(
                format!("all {} join, one by one, each within a second", members - 4),
                format!("{all} joined, the slowest in {slowest} us"),
                all == u64::from(members - 4) && slowest < 1_000_000,
            ),
            Expectation::new(
                "payments stand still for less than a second around each join".to_owned(),
                format!("{gap} ms at most"),
                gap < 1_000,
            ),
            Expectation::new(
                "behind the last join at least half as many settle as before the first".to_owned(),
                format!("{} a second before, {} after", joined.before, joined.after),
                joined.before > 0 && joined.after * 2 >= joined.before,
            ),
        ],
        differs: DIFFERS.to_vec(),
        beside: joined
            .joins
            .iter()
            .map(|join| (format!("gap_ms at {}", join.members), join.gap_ms))
            .collect(),
        ..JOINS.blank(with)
    })
}
