//! Links between members that are hurt, one after the other.

use super::schedule::Stage;
use super::timeline::Phase;
use crate::health::Vitals;
use crate::session::usage;
use std::time::{Duration, Instant};
use synod_chaos::links::{Links, Manner, Shape};
use synod_config::{SynError, code};

/// How long both ends of a connection with a changed byte may take to end it.
const CUT: Duration = Duration::from_secs(20);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// How long a split lasts at most; a node takes 5 s of silence for an end.
const SPLIT: Duration = Duration::from_secs(7);
/// How long other faults last at most.
const HURT: Duration = Duration::from_secs(3);
/// How late a link is at most.
const LATE_MS: usize = 250;
/// Rounds of a split that goes where the leader goes.
const ROUNDS: u32 = 3;

/// What happens to links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hurt {
    /// Some links pass nothing.
    Split,
    /// Connections end on one side only.
    HalfOpen,
    /// Connections are reset.
    Reset,
    /// Links are late.
    Delay,
    /// A link passes one byte a second.
    Drip,
    /// A byte is changed.
    Corrupt,
}

impl Hurt {
    /// All, in the order in which they take turns.
    pub(crate) const ALL: [Self; 6] =
        [Self::Split, Self::HalfOpen, Self::Reset, Self::Delay, Self::Drip, Self::Corrupt];

    /// The word of reports.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::HalfOpen => "half_open",
            Self::Reset => "reset",
            Self::Delay => "delay",
            Self::Drip => "drip",
            Self::Corrupt => "corrupt",
        }
    }
}

impl Stage<'_> {
    fn links(&self) -> Result<&Links, SynError> {
        self.processes.links().ok_or_else(|| usage("members dial one another without proxies"))
    }

    /// Hurts links, heals them, and waits until every member has what the others had.
    ///
    /// # Errors
    /// That a member does not come back, or a connection with a changed byte goes on.
    pub(super) fn hurt(&mut self, hurt: Hurt) -> Result<(), SynError> {
        self.timeline.enter(Phase::Link);
        let how = match hurt {
            Hurt::Split => self.split()?,
            Hurt::HalfOpen | Hurt::Reset => self.end_connections(hurt)?,
            Hurt::Delay | Hurt::Drip => self.slow_links(hurt)?,
            Hurt::Corrupt => self.corrupt()?,
        };
        self.links()?.heal();
        let healed = Instant::now();
        let members = self.processes.alive();
        let ahead = members.iter().filter_map(|member| self.look(*member)?.height).max();
        for member in members {
            self.until(member, "catch up", |vitals: &Vitals| vitals.ready && vitals.height >= ahead)?;
        }
        self.events.to_mend.push(healed.elapsed());
        self.timeline.enter(Phase::Steady);
        *self.events.links.entry(hurt.as_str()).or_insert(0) += 1;
        let took = healed.elapsed().as_millis();
        self.session.tell(&format!("links, {}: {how}; all were level after {took} ms", hurt.as_str()));
        Ok(())
    }

    /// Between a tenth of `most` and all of it.
    fn while_drawn(&mut self, most: Duration) -> Duration {
        most / 10 + most * u32::try_from(self.draw.below(900)).unwrap_or(0) / 1_000
    }

    /// Two different members.
    fn pair(&mut self) -> (usize, usize) {
        let members = self.processes.alive();
        let first = self.draw.below(members.len());
        (first, (first + 1 + self.draw.below(members.len() - 1)) % members.len())
    }

    fn split(&mut self) -> Result<String, SynError> {
        let members = self.processes.alive().len();
        let drawn = self.draw.below(Shape::ALL.len() + 1);
        let span = self.while_drawn(SPLIT);
        let Some(shape) = Shape::ALL.get(drawn) else { return self.follow_the_leader(span) };
        let cut = shape.cut(members, &mut self.draw);
        let links = self.links()?;
        cut.iter().for_each(|(from, to)| links.set(*from, *to, Manner::Hold));
        std::thread::sleep(span);
        *self.events.splits.entry(shape.as_str()).or_insert(0) += 1;
        Ok(format!("{}, {} of {} links for {span:?}", shape.as_str(), cut.len(), members * (members - 1)))
    }

    /// Parts whoever leads from all others, one leader after the other.
    fn follow_the_leader(&mut self, span: Duration) -> Result<String, SynError> {
        let mut led = Vec::new();
        for _ in 0..ROUNDS {
            self.links()?.heal();
            let leader = self.leader()?;
            let links = self.links()?;
            for other in self.processes.alive().into_iter().filter(|other| *other != leader) {
                links.set(leader, other, Manner::Hold);
                links.set(other, leader, Manner::Hold);
            }
            led.push(self.processes.name(leader).to_owned());
            std::thread::sleep(span / ROUNDS);
        }
        *self.events.splits.entry("leader").or_insert(0) += 1;
        Ok(format!("the leaders {} for {span:?} in all", led.join(", ")))
    }

    fn end_connections(&mut self, hurt: Hurt) -> Result<String, SynError> {
        let (first, second) = self.pair();
        let all = self.draw.coin();
        let span = self.while_drawn(HURT);
        let others = if all { self.processes.alive() } else { vec![second] };
        let links = self.links()?;
        let ended: usize = others
            .iter()
            .filter(|other| **other != first)
            .map(|other| match hurt {
                Hurt::HalfOpen => links.half_open(first, *other),
                _ => links.reset(first, *other),
            })
            .sum();
        std::thread::sleep(span);
        let whom = if all { "all" } else { self.processes.name(second) };
        Ok(format!("{ended} connections of {} with {whom}", self.processes.name(first)))
    }

    fn slow_links(&mut self, hurt: Hurt) -> Result<String, SynError> {
        let (from, to) = self.pair();
        let all = self.draw.coin() && hurt == Hurt::Delay;
        let late = Duration::from_millis(10 + self.draw.below(LATE_MS) as u64);
        let (manner, most) = match hurt {
            Hurt::Delay => (Manner::Late(late), HURT),
            _ => (Manner::Drip, SPLIT),
        };
        let span = self.while_drawn(most);
        let links = self.links()?;
        let others = if all { self.processes.alive() } else { vec![to] };
        others.iter().for_each(|to| links.set(from, *to, manner));
        std::thread::sleep(span);
        let whom = if all { "all" } else { self.processes.name(to) };
        Ok(format!("{manner:?} from {} to {whom} for {span:?}", self.processes.name(from)))
    }

    /// Changes a byte of every connection of one directed link; TLS must end each of them.
    fn corrupt(&mut self) -> Result<String, SynError> {
        let (from, to) = self.pair();
        let links = self.links()?;
        let before = links.counts().corrupted;
        links.corrupt(from, to);
        let until = Instant::now() + CUT;
        // Heartbeats alone would do.
        while (links.counts().corrupted == before || links.uncut() > 0) && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        let (changed, uncut) = (links.counts().corrupted - before, links.uncut());
        let link = format!("{} to {}", self.processes.name(from), self.processes.name(to));
        if changed == 0 || uncut > 0 {
            let values = [("address", &*format!("link {link}")), ("stage", "end")];
            let problem = format!("{changed} connections with a changed byte, {uncut} of which went on");
            return Err(SynError::of(code::NO_ANSWER, &values).because(problem));
        }
        Ok(format!("{changed} connections from {link}"))
    }
}
