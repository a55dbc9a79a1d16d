//! What one lane was told, and whether it can be true.

use crate::output::Report;
use synod_config::SynError;
use synod_host::Outcome;
use synod_kv::Reply;

/// Most contradictions kept in words.
const SAID_MAX: usize = 8;

/// One counter: only its lane counts it up, one call after the other.
///
/// With `acked` increments acknowledged and `unknown` in doubt, the counter is at least `acked` and at most
/// `acked + unknown`; an increment in doubt may still be executed later, but once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    pub(crate) acked: u64,
    pub(crate) unknown: u64,
    pub(crate) rejected: u64,
    pub(crate) reads: u64,
    /// The highest value seen.
    pub(super) last: u64,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    /// The first contradictions, in words.
    pub(crate) said: Vec<String>,
}

/// The counter in a reply; 0 for a key that is not there.
pub(crate) fn number(reply: &bytes::Bytes) -> Option<u64> {
    match Reply::decode(reply)? {
        Reply::Integer(value) => u64::try_from(value).ok(),
        Reply::Bulk(text) => std::str::from_utf8(&text).ok()?.parse().ok(),
        Reply::Null => Some(0),
        _ => None,
    }
}

/// The number of steps in a reply that counts them in units.
pub(super) fn steps(reply: &bytes::Bytes, unit: u64) -> Option<u64> {
    number(reply).filter(|number| number.is_multiple_of(unit)).map(|number| number / unit)
}

impl Lane {
    /// Judges what came of one increment.
    pub(crate) fn incremented(&mut self, outcome: &Outcome) {
        self.stepped(outcome, 1);
    }

    /// Judges what came of one step that makes the number in the reply larger by `unit`.
    pub(super) fn stepped(&mut self, outcome: &Outcome, unit: u64) {
        match outcome {
            Outcome::Rejected { .. } => self.rejected += 1,
            Outcome::Unknown(_) => self.unknown += 1,
            Outcome::Accepted { value, .. } => {
                match steps(value, unit) {
                    None => self.wrong(&format!("an increment gave {value:?}")),
                    Some(value) if value <= self.last => {
                        self.lost += 1;
                        self.say(format!("an increment gave {value} after {} was seen", self.last));
                    }
                    Some(value) if value > self.acked + self.unknown + 1 => {
                        self.duplicated += 1;
                        self.last = value;
                        self.say(format!("an increment gave {value}, {}", self.told()));
                    }
                    Some(value) => self.last = value,
                }
                self.acked += 1;
            }
        }
    }

    /// Judges what a linearizable read gave, with no increment on its way but those in doubt.
    pub(crate) fn read(&mut self, outcome: &Outcome) {
        let Outcome::Accepted { value, .. } = outcome else { return };
        self.reads += 1;
        match number(value) {
            None => self.wrong(&format!("a read gave {value:?}")),
            Some(value) if value < self.last.max(self.acked) => {
                self.lost += 1;
                self.say(format!("a read gave {value} after {} was seen, {}", self.last, self.told()));
            }
            Some(value) if value > self.acked + self.unknown => {
                self.duplicated += 1;
                self.say(format!("a read gave {value}, {}", self.told()));
            }
            Some(value) => self.last = value,
        }
    }

    /// Compares the counter at the end with what the lane was told.
    pub(crate) fn close(&mut self, counter: u64) {
        let lost = self.acked.max(self.last).saturating_sub(counter);
        let duplicated = counter.saturating_sub(self.acked + self.unknown);
        if lost > 0 || duplicated > 0 {
            self.say(format!("the counter ends at {counter}, {}", self.told()));
        }
        self.lost += lost;
        self.duplicated += duplicated;
    }

    /// Adds what another lane was told.
    pub(crate) fn add(&mut self, other: &Self) {
        self.acked += other.acked;
        self.unknown += other.unknown;
        self.rejected += other.rejected;
        self.reads += other.reads;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        other.said.iter().for_each(|said| self.say(said.clone()));
    }

    /// A value that no correct cluster gives: counted as lost.
    fn wrong(&mut self, what: &str) {
        self.lost += 1;
        self.say(what.to_owned());
    }

    /// Puts its counts into a report.
    pub(super) fn onto(&self, report: Report) -> Report {
        let counts = [
            ("acked", self.acked),
            ("unknown", self.unknown),
            ("rejected", self.rejected),
            ("reads", self.reads),
            ("lost", self.lost),
            ("duplicated", self.duplicated),
        ];
        counts.into_iter().fold(report, |report, (name, count)| report.field(name, count))
    }

    fn told(&self) -> String {
        format!("with {} acknowledged and {} in doubt", self.acked, self.unknown)
    }

    fn say(&mut self, what: String) {
        if self.said.len() < SAID_MAX {
            self.said.push(what);
        }
    }

    /// The contradictions as the causes of an error.
    pub(crate) fn because(&self, error: SynError) -> SynError {
        self.said.iter().fold(error, |error, said| error.because(said))
    }
}

#[cfg(test)]
mod tests {
    use super::Lane;
    use synod_host::Outcome;
    use synod_kv::Reply;

    fn gave(value: i64) -> Outcome {
        let mut out = Vec::new();
        Reply::Integer(value).write(&mut out);
        Outcome::Accepted { value: out.into(), position: 1 }
    }

    fn after(outcomes: &[Outcome], counter: u64) -> (u64, u64) {
        let mut lane = Lane::default();
        outcomes.iter().for_each(|outcome| lane.incremented(outcome));
        lane.close(counter);
        (lane.lost, lane.duplicated)
    }

    #[test]
    fn each_acknowledged_increment_counts_once() {
        let told = [gave(1), gave(2), gave(3)];
        assert_eq!(after(&told, 3), (0, 0));
        assert_eq!(after(&told, 2), (1, 0));
        assert_eq!(after(&told, 4), (0, 1));
        assert_eq!(after(&[gave(1), gave(3)], 3), (0, 2), "once when told, once at the end");
        assert_eq!(after(&[gave(1), gave(1)], 2), (1, 0));
    }

    #[test]
    fn steps_are_whole_units() {
        let mut lane = Lane::default();
        lane.stepped(&gave(64), 64);
        lane.stepped(&gave(128), 64);
        assert_eq!((lane.acked, lane.lost, lane.duplicated), (2, 0, 0));
        lane.stepped(&gave(150), 64);
        assert_eq!(lane.lost, 1, "a piece is there in part");
    }

    #[test]
    fn what_is_in_doubt_counts_at_most_once() {
        let told = [gave(1), Outcome::Unknown(None), gave(3), gave(4)];
        assert_eq!(after(&told, 4), (0, 0));
        let late = [gave(1), Outcome::Unknown(None), gave(2), gave(4)];
        assert_eq!(after(&late, 4), (0, 0));
        assert_eq!(after(&late, 5), (0, 1));
        let rejected = [Outcome::Rejected { code: 3_402, retry_ms: 0 }, gave(1)];
        assert_eq!(after(&rejected, 1), (0, 0));
    }

    #[test]
    fn a_read_is_neither_stale_nor_ahead() {
        let mut lane = Lane::default();
        lane.incremented(&gave(1));
        lane.incremented(&gave(2));
        lane.read(&gave(2));
        assert_eq!((lane.reads, lane.lost, lane.duplicated), (1, 0, 0));
        lane.read(&gave(1));
        lane.read(&gave(3));
        assert_eq!((lane.reads, lane.lost, lane.duplicated, lane.said.len()), (3, 1, 1, 2));
    }
}
