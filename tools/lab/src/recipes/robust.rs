//! One replica crashes, or everything that it sends is 100 ms late (Figures 5, 6 and 7).
//!
//! Ten clients, each of an institution of its own, keep one payment under way. The same load goes through HotStuff beside (T22), where the
//! leader is hit, or a member that does not lead.

use synod_astro::Profile;
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_sim::{Loss, World};

use super::list::Recipe;
use crate::astro::{BEGIN, Bank, Load};
use crate::circumstances::{Circumstances, Scale};
use crate::figure::{Anchor, Expectation, Figure, Series};
use crate::hotstuff::Cluster;
use crate::slow::Slow;
use crate::timeline::{Timeline, later};

pub(super) const CRASH: Recipe = Recipe {
    id: "astro/5",
    paper: "Astro Figure 5",
    question: "what is lost when one replica crashes?",
    run: crash,
};
pub(super) const DELAY: Recipe = Recipe {
    id: "astro/6",
    paper: "Astro Figure 6",
    question: "what is lost when all that one replica sends is 100 ms late?",
    run: delay,
};
pub(super) const LARGE: Recipe = Recipe {
    id: "astro/7",
    paper: "Astro Figure 7",
    question: "the same among many: a crash and a delay",
    run: large,
};

/// Clients, as in the paper.
const CLIENTS: u32 = 10;
/// Length of a bin.
const BIN: Span = Span::millis(250);
/// The delay of the paper.
const LATE: Span = Span::millis(100);

/// What happens to a replica.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Harm {
    Crash,
    Late,
}

/// Who is hit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    Astro(Profile, Harm),
    Leader(Harm),
    Other(Harm),
}

impl Line {
    const fn name(self) -> &'static str {
        match self {
            Self::Astro(Profile::I, Harm::Crash) => "Astro I, a replica crashes",
            Self::Astro(Profile::I, Harm::Late) => "Astro I, a replica is late",
            Self::Astro(_, Harm::Crash) => "Astro II-F, a replica crashes",
            Self::Astro(_, Harm::Late) => "Astro II-F, a replica is late",
            Self::Leader(Harm::Crash) => "HotStuff, the leader crashes",
            Self::Leader(Harm::Late) => "HotStuff, the leader is late",
            Self::Other(Harm::Crash) => "HotStuff, another member crashes",
            Self::Other(Harm::Late) => "HotStuff, another member is late",
        }
    }
}

/// When a run is looked at.
#[derive(Clone, Copy)]
struct Times {
    /// Behind the first payments.
    from: Span,
    fault: Span,
    end: Span,
}

impl Times {
    fn of(scale: Scale) -> Self {
        let (before, after) = match scale {
            Scale::Quick => (Span::millis(1_500), Span::secs(2)),
            Scale::Usual | Scale::Full => (Span::secs(4), Span::secs(6)),
        };
        let from = later(BEGIN, Span::millis(800));
        Self { from, fault: later(from, before), end: later(later(from, before), after) }
    }
}

fn hit(world: &mut World, whom: NodeId, harm: Harm) {
    match harm {
        Harm::Crash => world.crash(whom, Loss::Nothing, None),
        Harm::Late => world.corrupt_node(whom, Box::new(Slow { by: LATE })),
    }
}

fn play(line: Line, members: u32, times: Times, with: &Circumstances) -> Result<Timeline, String> {
    let (fault, end) = (times.fault, times.end);
    let order = Cluster { members, clients: CLIENTS, each: 1, bin: BIN };
    // The last of those whom a client turns to first; it leads nothing for hundreds of views.
    let served = order.nearest(CLIENTS - 1);
    let (whom, harm) = match line {
        Line::Astro(profile, harm) => {
            let load = Load { customers: CLIENTS, each: 1 };
            let mut running = Bank { members, profile, load, bin: BIN }.open(with)?;
            running.run(fault).map_err(|e| e.to_string())?;
            hit(&mut running.world, served, harm);
            running.run(end).map_err(|e| e.to_string())?;
            return Ok(running.crowd.timeline);
        }
        Line::Leader(harm) => (order.leader(), harm),
        Line::Other(harm) => (served, harm),
    };
    let mut running = order.open(with)?;
    running.run(fault).map_err(|e| e.to_string())?;
    hit(&mut running.world, whom, harm);
    running.run(end).map_err(|e| e.to_string())?;
    Ok(running.clients.timeline)
}

/// What all may lose beside, in percent: a quorum of those who are left is farther apart, and that shows where members are few.
const fn slack(members: u32) -> u64 {
    if members < 25 { 10 } else { 5 }
}

/// No more is lost than the share of the client whose institution is hit, and so many percent for quorums that are farther apart now.
fn within_its_share(line: Line, timeline: &Timeline, times: Times, slack: u64) -> Expectation {
    let (before, after) =
        (timeline.rate(times.from, times.fault), timeline.rate(later(times.fault, BIN), times.end));
    let least = before * u64::from(CLIENTS - 1) / u64::from(CLIENTS) * (100 - slack) / 100;
    Expectation::new(
        format!("{}: of ten clients the share of one is lost at most, and {slack} %", line.name()),
        format!("{before} a second before, {after} after, {least} at least"),
        before > 0 && after >= least,
    )
}

/// Payments never stand still.
fn goes_on(line: Line, timeline: &Timeline, times: Times) -> Expectation {
    let gap = timeline.gap_ms(times.fault, times.end);
    let before = timeline.gap_ms(times.from, times.fault);
    Expectation::new(
        format!("{}: nothing stands still for longer than half a second", line.name()),
        format!("{gap} ms behind the fault, {before} ms before"),
        gap < 500,
    )
}

/// Whether an order stands still while it has no leader, and goes on.
fn stands_still(line: Line, timeline: &Timeline, times: Times) -> Expectation {
    let gap = timeline.gap_ms(times.fault, times.end);
    let before = timeline.gap_ms(times.from, times.fault);
    let after = timeline.rate(Span(times.end.0 - Span::secs(1).0), times.end);
    Expectation::new(
        format!("{}: nothing is ordered for a while, then it goes on", line.name()),
        format!("{gap} ms without a payment, {before} ms before the fault, {after} a second at the end"),
        gap > before && after > 0,
    )
}

fn judged(line: Line, timeline: &Timeline, times: Times, slack: u64) -> Vec<Expectation> {
    match line {
        Line::Astro(..) => {
            vec![within_its_share(line, timeline, times, slack), goes_on(line, timeline, times)]
        }
        Line::Leader(Harm::Crash) => vec![stands_still(line, timeline, times)],
        Line::Leader(Harm::Late) | Line::Other(_) => Vec::new(),
    }
}

const ANCHORS: [Anchor; 2] = [
    Anchor { series: "Astro I before the fault, N=49", x: 0, value: 270, source: "Astro VI-D" },
    Anchor { series: "Astro I after a crash, N=49", x: 0, value: 250, source: "Astro VI-D" },
];

const DIFFERS: [&str; 6] = [
    "simulated network and prices instead of t2.medium machines in four European regions",
    "seconds of virtual time instead of 40: the fault comes after some of them",
    "the consensus beside is this project's HotStuff (chain2+order) with terms of 1,024 views, so that one leader leads as in BFT-SMaRt",
    "II-F is not in the paper; its votes go to one member, those of Astro I to all",
    "a replica that is late delays each frame that it sends by 100 ms, as netem does; it reads at once",
    "clients of Astro count what settles at their institution, those of HotStuff f + 1 equal answers",
];

fn figure(
    recipe: Recipe,
    members: u32,
    lines: &[Line],
    (with, tell): (&Circumstances, &mut dyn FnMut(&str)),
) -> Result<Figure, String> {
    let times = Times::of(with.scale);
    let mut figure = Figure {
        x: "ms",
        y: "payments a second",
        anchors: if members == 49 { ANCHORS.to_vec() } else { Vec::new() },
        differs: DIFFERS.to_vec(),
        beside: vec![
            ("members".to_owned(), u64::from(members)),
            ("fault_ms".to_owned(), times.fault.0 / 1_000_000),
        ],
        ..recipe.blank(with)
    };
    for line in lines {
        let timeline = play(*line, members, times, with)?;
        let (before, after) = (timeline.rate(times.from, times.fault), timeline.rate(times.fault, times.end));
        let gap = timeline.gap_ms(times.fault, times.end);
        tell(&format!("{}: {before} a second before, {after} after, {gap} ms without any", line.name()));
        figure.expectations.extend(judged(*line, &timeline, times, slack(members)));
        figure.beside.push((format!("{}: before, a second", line.name()), before));
        figure.beside.push((format!("{}: after, a second", line.name()), after));
        figure.beside.push((format!("{}: longest gap, ms", line.name()), gap));
        figure.series.push(Series { name: line.name().to_owned(), points: timeline.points(times.end) });
    }
    Ok(figure)
}

const fn members(scale: Scale, most: u32) -> u32 {
    match (scale, most) {
        (Scale::Quick, _) => 10,
        (Scale::Usual, 49) => 25,
        (Scale::Usual, _) => 31,
        (Scale::Full, most) => most,
    }
}

fn with_harm(
    recipe: Recipe,
    harm: Harm,
    with: &Circumstances,
    tell: &mut dyn FnMut(&str),
) -> Result<Figure, String> {
    let lines = [
        Line::Leader(harm),
        Line::Other(harm),
        Line::Astro(Profile::I, harm),
        Line::Astro(Profile::Funded, harm),
    ];
    figure(recipe, members(with.scale, 49), &lines, (with, tell))
}

fn crash(with: &Circumstances, tell: &mut dyn FnMut(&str)) -> Result<Figure, String> {
    with_harm(CRASH, Harm::Crash, with, tell)
}

fn delay(with: &Circumstances, tell: &mut dyn FnMut(&str)) -> Result<Figure, String> {
    with_harm(DELAY, Harm::Late, with, tell)
}

fn large(with: &Circumstances, tell: &mut dyn FnMut(&str)) -> Result<Figure, String> {
    let lines = [
        Line::Leader(Harm::Crash),
        Line::Leader(Harm::Late),
        Line::Astro(Profile::I, Harm::Crash),
        Line::Astro(Profile::I, Harm::Late),
    ];
    figure(LARGE, members(with.scale, 100), &lines, (with, tell))
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, BIN, Line, Profile, Span, Timeline, Times, goes_on, later, within_its_share};
    use crate::recipes::robust::Harm;
    use synod_machine::Time;

    const LINE: Line = Line::Astro(Profile::I, Harm::Crash);

    /// So many payments a second before a fault and behind it.
    fn timeline(before: u64, after: u64) -> (Timeline, Times) {
        let second = Span::secs(1);
        let times = Times { from: BEGIN, fault: later(BEGIN, second), end: later(BEGIN, Span::secs(2)) };
        let mut timeline = Timeline::new(BIN);
        for (from, count) in [(times.from, before), (times.fault, after)] {
            for at in 0..count {
                timeline.count(Time(from.0 + at * second.0 / count), Span::millis(1));
            }
        }
        (timeline, times)
    }

    #[test]
    fn a_loss_above_the_share_of_one_client_is_a_failure() {
        for (after, holds) in [(1_000, true), (900, true), (860, true), (840, false), (0, false)] {
            let (timeline, times) = timeline(1_000, after);
            assert_eq!(within_its_share(LINE, &timeline, times, 5).held, holds, "{after}");
        }
        let (timeline, times) = timeline(0, 0);
        assert!(!within_its_share(LINE, &timeline, times, 5).held, "nothing settled: nothing is shown");
        assert!(!goes_on(LINE, &timeline, times).held);
    }
}
