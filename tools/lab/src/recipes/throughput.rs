//! Throughput: by the number of members (Figure 3), and latency by throughput (Figure 4).

use synod_astro::Profile;
use synod_machine::Span;

use super::list::Recipe;
use crate::astro::{BEGIN, Bank, Load};
use crate::circumstances::{Circumstances, PriceList, Scale};
use crate::figure::{Anchor, Expectation, Figure, Series};
use crate::hotstuff::Cluster;
use crate::timeline::later;

pub(super) const BY_SIZE: Recipe = Recipe {
    id: "astro/3",
    paper: "Astro Figure 3",
    question: "how many payments settle a second, by the number of members?",
    run: by_size,
};
pub(super) const LATENCY: Recipe = Recipe {
    id: "astro/4",
    paper: "Astro Figure 4",
    question: "how long does a payment take under how many?",
    run: latency,
};

/// The systems that are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum System {
    Astro(Profile),
    Order,
}

const SYSTEMS: [System; 4] =
    [System::Order, System::Astro(Profile::I), System::Astro(Profile::II), System::Astro(Profile::Funded)];

impl System {
    const fn name(self) -> &'static str {
        match self {
            Self::Astro(Profile::I) => "Astro I",
            Self::Astro(Profile::II) => "Astro II",
            Self::Astro(Profile::Funded) => "Astro II-F",
            Self::Order => "HotStuff",
        }
    }
}

/// What a load came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Point {
    pps: u64,
    p50_us: u64,
    p95_us: u64,
}

/// A load is left alone until its first payments are over, then looked at for as long as this.
const WINDOW: Span = Span::secs(1);
const WARM: Span = Span::millis(500);
/// Latency above which more load shows nothing: the paper stops before it saturates.
const SATURATED_US: u64 = 1_000_000;
/// Payments under way that are tried first.
const FIRST: u32 = 64;
/// The most: each of them is played at every member.
const LAST: u32 = 1 << 14;

fn measure(system: System, members: u32, under_way: u32, with: &Circumstances) -> Result<Point, String> {
    let (from, to) = (later(BEGIN, WARM), later(later(BEGIN, WARM), WINDOW));
    let bin = Span::millis(100);
    let timeline = match system {
        System::Astro(profile) => {
            // One customer per institution and more where each would have more than a log can hold.
            let customers = members.max(under_way / 64).min(under_way).max(1);
            let load = Load { customers, each: under_way.div_ceil(customers) };
            let mut running = Bank { members, profile, load, bin }.open(with)?;
            running.run(to).map_err(|e| e.to_string())?;
            running.crowd.timeline
        }
        System::Order => {
            let clients = members.clamp(1, 16).min(under_way);
            let cluster = Cluster { members, clients, each: under_way.div_ceil(clients), bin };
            let mut running = cluster.open(with)?;
            running.run(to).map_err(|e| e.to_string())?;
            running.clients.timeline
        }
    };
    let at = |permille| timeline.latency_us((from, to), permille);
    Ok(Point { pps: timeline.rate(from, to), p50_us: at(500), p95_us: at(950) })
}

/// Loads that double twice at a time, until throughput no longer grows or payments take a second.
fn ladder(
    system: System,
    members: u32,
    with: &Circumstances,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<Point>, String> {
    let mut points: Vec<Point> = Vec::new();
    let mut under_way = FIRST;
    while under_way <= LAST {
        let point = measure(system, members, under_way, with)?;
        let Point { pps, p50_us, p95_us } = point;
        tell(&format!(
            "{} N={members}, {under_way} under way: {pps} a second, {p50_us} us, p95 {p95_us} us",
            system.name()
        ));
        let grows = points.last().is_none_or(|last| pps * 20 > last.pps * 21);
        points.push(point);
        if !grows || p95_us > SATURATED_US {
            break;
        }
        under_way *= 4;
    }
    Ok(points)
}

fn peak(points: &[Point]) -> u64 {
    points.iter().filter(|point| point.p95_us <= SATURATED_US).map(|point| point.pps).max().unwrap_or(0)
}

const fn sizes(scale: Scale) -> &'static [u32] {
    match scale {
        Scale::Quick => &[4, 7],
        Scale::Usual => &[4, 10, 22],
        Scale::Full => &[4, 10, 22, 52, 100],
    }
}

const fn at(series: &'static str, x: u64, value: u64) -> Anchor {
    Anchor { series, x, value, source: "Astro VI-C1" }
}

const ANCHORS: [Anchor; 6] = [
    at("BFT-SMaRt", 4, 10_000),
    at("Astro I", 4, 13_500),
    at("Astro II", 4, 55_000),
    at("BFT-SMaRt", 100, 334),
    at("Astro I", 100, 2_000),
    at("Astro II", 100, 5_000),
];

const DIFFERS: [&str; 6] = [
    "simulated network and prices instead of t2.medium machines in four European regions",
    "the consensus beside is this project's HotStuff (chain2+order), not BFT-SMaRt",
    "votes and echoes carry digests, not payloads: in the paper each carries its payload, which weighs most where members are many",
    "the work of a payment beside signatures is charged by the byte that it comes in (2 us per 100 bytes)",
    "II-F is not in the paper; batches of I and II have 256 entries, those of II-F up to 4,096",
    "clients of no system sign: institutions vouch, and sessions of HotStuff are believed by their link",
];

/// Figure 3.
fn by_size(with: &Circumstances, tell: &mut dyn FnMut(&str)) -> Result<Figure, String> {
    let mut figure = Figure {
        x: "members",
        y: "payments a second",
        anchors: ANCHORS.to_vec(),
        differs: DIFFERS.to_vec(),
        ..BY_SIZE.blank(with)
    };
    for system in SYSTEMS {
        let mut points = Vec::new();
        for members in sizes(with.scale) {
            points.push((u64::from(*members), peak(&ladder(system, *members, with, tell)?)));
        }
        figure.series.push(Series { name: system.name().to_owned(), points });
    }
    let sizes = sizes(with.scale);
    figure.expectations = sizes.iter().map(|members| order_of_curves(&figure, u64::from(*members))).collect();
    if with.prices == PriceList::Of2020 {
        let near: Vec<Expectation> = ANCHORS.iter().filter_map(|anchor| near(&figure, anchor)).collect();
        figure.expectations.extend(near);
    }
    Ok(figure)
}

fn value(figure: &Figure, series: &str, x: u64) -> u64 {
    let line = figure.line(series);
    line.and_then(|line| line.points.iter().find(|(at, _)| *at == x)).map_or(0, |(_, y)| *y)
}

/// II above I above the consensus.
fn order_of_curves(figure: &Figure, members: u64) -> Expectation {
    let [order, one, two] = ["HotStuff", "Astro I", "Astro II"].map(|name| value(figure, name, members));
    Expectation::new(
        format!("at N={members} Astro II settles more than Astro I, and that more than the consensus orders"),
        format!("{two}, {one}, {order}"),
        two > one && one > order,
    )
}

/// With the prices of 2020 Astro is within 2.5 of the paper.
fn near(figure: &Figure, anchor: &Anchor) -> Option<Expectation> {
    let own = figure.line(anchor.series)?.points.iter().find(|(at, _)| *at == anchor.x)?.1;
    Some(Expectation::new(
        format!("{} at N={} is within a factor 2.5 of the paper", anchor.series, anchor.x),
        format!("{own}, paper {}", anchor.value),
        own * 5 >= anchor.value * 2 && own * 2 <= anchor.value * 5,
    ))
}

/// Figure 4.
fn latency(with: &Circumstances, tell: &mut dyn FnMut(&str)) -> Result<Figure, String> {
    let members = match with.scale {
        Scale::Quick => 7,
        Scale::Usual => 22,
        Scale::Full => 100,
    };
    let mut figure = Figure {
        x: "payments a second",
        y: "95th percentile of latency, us",
        differs: DIFFERS.to_vec(),
        beside: vec![("members".to_owned(), u64::from(members))],
        ..LATENCY.blank(with)
    };
    for system in SYSTEMS {
        let points = ladder(system, members, with, tell)?;
        let least = points.first().copied().unwrap_or_default();
        if system != System::Order {
            figure.expectations.push(Expectation::new(
                format!(
                    "{} under the least load takes less than a second at the 95th percentile",
                    system.name()
                ),
                format!("{} us", least.p95_us),
                least.p95_us > 0 && least.p95_us < 1_000_000,
            ));
        }
        let points = points.iter().map(|point| (point.pps, point.p95_us)).collect();
        figure.series.push(Series { name: system.name().to_owned(), points });
    }
    Ok(figure)
}
