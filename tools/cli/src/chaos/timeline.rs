//! The longest times without an acknowledged write, by what was going on.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Nothing.
    Steady,
    /// A leader was killed and has not voted again.
    Kill,
    /// A follower is stopped.
    Stop,
    /// A follower was stopped and catches up.
    Resume,
    /// All were killed at once and have not all voted again.
    RestartAll,
    /// One member is faulty.
    Lie,
    /// The disk of a member fails and the member has not voted again.
    Disk,
    /// A link between members is hurt, and they have not caught up.
    Link,
}

impl Phase {
    /// All, in the order of reports.
    pub(crate) const ALL: [Self; 8] = [
        Self::Steady,
        Self::Kill,
        Self::Stop,
        Self::Resume,
        Self::RestartAll,
        Self::Lie,
        Self::Disk,
        Self::Link,
    ];

    /// The key in reports.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Resume => "resume",
            Self::RestartAll => "restart_all",
            Self::Lie => "lie",
            Self::Disk => "disk",
            Self::Link => "link",
        }
    }
}

struct State {
    phase: Phase,
    last: Instant,
    /// What was going on when the last write was acknowledged.
    at_last: Phase,
    /// The first event since then.
    since: Option<Phase>,
    /// The longest gap of the present turn of a phase.
    turn: Duration,
    /// The longest gap of each past turn.
    turns: BTreeMap<Phase, Vec<Duration>>,
}

/// Times of acknowledged writes. A gap belongs to what went on when it began, or else to the first event in it.
pub(crate) struct Timeline {
    state: Mutex<State>,
}

impl Timeline {
    pub(crate) fn new(now: Instant) -> Self {
        let (phase, turn, turns) = (Phase::Steady, Duration::ZERO, BTreeMap::new());
        let (last, at_last, since) = (now, phase, None);
        Self { state: Mutex::new(State { phase, last, at_last, since, turn, turns }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write was acknowledged.
    pub(crate) fn acknowledged(&self, now: Instant) {
        self.state().gap_until(now);
    }

    /// Something else goes on from now on.
    pub(crate) fn enter(&self, phase: Phase) {
        let mut state = self.state();
        let (before, longest) = (state.phase, std::mem::take(&mut state.turn));
        state.turns.entry(before).or_default().push(longest);
        state.phase = phase;
        if phase != Phase::Steady && state.since.is_none() {
            state.since = Some(phase);
        }
    }

    /// The longest gap of each turn of each phase, the last of which ends now.
    pub(crate) fn finish(&self, now: Instant) -> BTreeMap<Phase, Vec<Duration>> {
        self.state().gap_until(now);
        self.enter(Phase::Steady);
        self.state().turns.clone()
    }
}

impl State {
    fn gap_until(&mut self, now: Instant) {
        let gap = now.saturating_duration_since(self.last);
        let cause = if self.at_last == Phase::Steady { self.since } else { Some(self.at_last) };
        let cause = cause.unwrap_or(Phase::Steady);
        if cause == self.phase {
            self.turn = self.turn.max(gap);
        } else if let Some(last) = self.turns.get_mut(&cause).and_then(|turns| turns.last_mut()) {
            *last = gap.max(*last);
        }
        self.last = now;
        self.at_last = self.phase;
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::{Phase, Timeline};
    use std::time::{Duration, Instant};

    #[test]
    fn a_gap_belongs_to_the_event_it_follows() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let line = Timeline::new(start);
        line.acknowledged(at(3));
        line.enter(Phase::Kill);
        line.acknowledged(at(4));
        // Nothing until the member is back, and the first write comes after that.
        line.enter(Phase::Steady);
        line.acknowledged(at(504));
        line.acknowledged(at(510));
        line.enter(Phase::Stop);
        line.acknowledged(at(610));
        line.enter(Phase::Steady);
        line.acknowledged(at(611));
        // All of it happens between two writes.
        line.enter(Phase::RestartAll);
        line.enter(Phase::Steady);
        line.acknowledged(at(1_611));
        let turns = line.finish(at(1_612));
        let ms = |phase| turns[&phase].iter().map(Duration::as_millis).collect::<Vec<_>>();
        assert_eq!(ms(Phase::Steady), [3, 6, 0, 1]);
        assert_eq!(ms(Phase::Kill), [500]);
        assert_eq!(ms(Phase::Stop), [100]);
        assert_eq!(ms(Phase::RestartAll), [1_000]);
    }
}
