//! The earlier observation that a broken property contradicts, by the number of its event.
//!
//! Kept beside the oracles, in runs whose whole trace is kept: for every promise, certificate and delivery of honest
//! members the event that showed it first. Bound: [`NOTES_MAX`] notes; later ones are not taken.

use synod_crypto::Hash;

use crate::oracle::{ExecutedSeen, MarkSeen, Seen, Sighting};

/// Most notes of a run.
const NOTES_MAX: usize = 400_000;

/// Something that a later observation can contradict.
enum Note {
    Seen(Sighting),
    Executed(ExecutedSeen),
    Root(u64, Hash),
}

/// What broke a property.
pub(crate) enum Broke {
    /// A sighting.
    Seen(Sighting),
    /// A command was executed.
    Executed(ExecutedSeen),
    /// A state was reported.
    Root(u64, Hash),
}

/// The notes of a run.
#[derive(Default)]
pub(crate) struct Evidence {
    notes: Vec<(u64, Note)>,
}

impl Evidence {
    fn note(&mut self, event: u64, note: Note) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push((event, note));
        }
    }

    /// Notes what an honest member showed.
    pub(crate) fn learn(&mut self, event: u64, sighting: &Sighting) {
        let contradictable = matches!(
            sighting.seen,
            Seen::Voted(..)
                | Seen::Proposed(_)
                | Seen::Complained { .. }
                | Seen::Certificate(_)
                | Seen::Safety(_)
                | Seen::Delivered { .. }
                | Seen::Entered(_)
        );
        if sighting.honest && contradictable {
            self.note(event, Note::Seen(*sighting));
        }
    }

    /// Notes an executed command.
    pub(crate) fn executed(&mut self, event: u64, seen: &ExecutedSeen) {
        self.note(event, Note::Executed(seen.clone()));
    }

    /// Notes a reported state.
    pub(crate) fn root(&mut self, event: u64, position: u64, root: Hash) {
        self.note(event, Note::Root(position, root));
    }

    /// The event of the earlier observation, if the property is about two of them.
    pub(crate) fn earlier(&self, checker: &str, broke: &Broke) -> Option<u64> {
        let mut notes = self.notes.iter();
        match broke {
            Broke::Seen(now) if checker == "H-S6" || checker == "H-S8" => {
                // The newest promise before this one: it is the last of its kind that says something else.
                let mut newest = notes.rev();
                newest
                    .find(|(_, note)| matches!(note, Note::Seen(then) if is_before(then, now)))
                    .map(|(event, _)| *event)
            }
            Broke::Seen(now) => {
                let first =
                    notes.find(|(_, note)| matches!(note, Note::Seen(then) if contradicts(then, now)));
                first.map(|(event, _)| *event)
            }
            Broke::Executed(now) => {
                let same = |then: &ExecutedSeen| (then.session, then.sequence) == (now.session, now.sequence);
                notes
                    .find(|(_, note)| matches!(note, Note::Executed(then) if same(then)))
                    .map(|(event, _)| *event)
            }
            Broke::Root(position, root) => {
                let other =
                    |note: &Note| matches!(note, Note::Root(at, then) if at == position && then != root);
                notes.find(|(_, note)| other(note)).map(|(event, _)| *event)
            }
        }
    }
}

/// Whether the member showed something of the same kind and of other content.
fn is_before(then: &Sighting, now: &Sighting) -> bool {
    let same = then.node == now.node && then.at <= now.at;
    same && match (&then.seen, &now.seen) {
        (Seen::Safety(a), Seen::Safety(b)) => (a.voted, a.lock.view) != (b.voted, b.lock.view),
        (Seen::Safety(_), Seen::Complained { .. }) => true,
        (Seen::Entered(a), Seen::Entered(b)) => a != b,
        _ => false,
    }
}

/// Whether two observations cannot both be of correct members.
fn contradicts(then: &Sighting, now: &Sighting) -> bool {
    let same = then.node == now.node;
    let slots = |a: &MarkSeen, b: &MarkSeen| a.view == b.view && a.digest != b.digest;
    match (&then.seen, &now.seen) {
        (Seen::Delivered { position, content }, Seen::Delivered { position: at, content: now }) => {
            position == at && content != now
        }
        (Seen::Voted(a, p), Seen::Voted(b, q)) => same && p == q && (slots(a, b) || a.view > b.view),
        (Seen::Proposed(a), Seen::Proposed(b)) => same && slots(a, b),
        (Seen::Complained { view, .. }, Seen::Voted(b, _)) => same && *view >= b.view,
        (Seen::Certificate(a), Seen::Certificate(b)) => a.phase == b.phase && slots(&a.of, &b.of),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Phase;

    fn by(node: u32, seen: Seen) -> Sighting {
        Sighting { at: 0, node, honest: true, incarnation: 1, seen }
    }

    fn mark(view: u64, name: u8) -> MarkSeen {
        MarkSeen { view, digest: Hash([name; 32]) }
    }

    #[test]
    fn a_fork_is_contradicted_by_the_first_other_delivery_of_its_position() {
        let mut evidence = Evidence::default();
        let delivered =
            |node, position, name| by(node, Seen::Delivered { position, content: Hash([name; 32]) });
        evidence.learn(3, &delivered(0, 1, 7));
        evidence.learn(4, &Sighting { honest: false, ..delivered(1, 2, 9) });
        evidence.learn(5, &delivered(1, 2, 7));
        evidence.learn(6, &delivered(2, 2, 7));
        assert_eq!(evidence.earlier("H-S1", &Broke::Seen(delivered(3, 2, 8))), Some(5));
        assert_eq!(evidence.earlier("H-S1", &Broke::Seen(delivered(3, 2, 7))), None);
    }

    #[test]
    fn a_second_vote_is_contradicted_by_the_first_or_by_a_complaint() {
        let mut evidence = Evidence::default();
        evidence.learn(3, &by(0, Seen::Voted(mark(4, 1), Phase::Generic)));
        evidence.learn(5, &by(1, Seen::Complained { view: 6, high: 0 }));
        let vote = |node, view| Broke::Seen(by(node, Seen::Voted(mark(view, 2), Phase::Generic)));
        assert_eq!(evidence.earlier("H-S5", &vote(0, 4)), Some(3));
        assert_eq!(evidence.earlier("H-S5", &vote(1, 6)), Some(5));
        assert_eq!(evidence.earlier("H-S5", &vote(2, 4)), None);
    }
}
