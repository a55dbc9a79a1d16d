//! A run in plain English: which property broke, who lied and how, what contradicts what, how to see it again.

use std::collections::BTreeMap;

use synod_sim::{Family, Incident, Row, Story, page};

use crate::plants;
use crate::traced::{Traced, name};
use crate::twins;

/// What each checker stands for, as a sentence.
pub const PROPERTIES: [(&str, &str); 29] = [
    ("H-S1", "Two correct nodes never put different entries at the same place of the log."),
    ("H-S2", "What a correct node has committed never shrinks and never changes."),
    ("H-S3", "A command is executed because its client signed it, and once."),
    ("H-S4", "In one view and phase at most one block gets a certificate."),
    (
        "H-S5",
        "A correct node votes once per view and phase, proposes once per view, and promises nothing for a view it has complained about.",
    ),
    (
        "H-S6",
        "The lock of a correct node never falls, and each of its votes obeys the voting rule of its pack.",
    ),
    ("H-S7", "A block is committed only when the certificates that the commit rule asks for exist."),
    ("H-S8", "Views only rise, and a view is entered only with proof that the one before it is over."),
    (
        "H-S9",
        "A certificate a correct node accepts carries enough signatures of different members that really signed.",
    ),
    ("H-S10", "Nodes at the same height have the same state and execute blocks oldest first, once."),
    (
        "H-L1",
        "Once the network is well and enough nodes are correct, the next commit comes within its bound.",
    ),
    ("H-L2", "A command of a correct client is executed within its bound."),
    ("H-L3", "With correct leaders, commits are as fast as the network and not as slow as the timeout."),
    ("H-L4", "A correct node that rejoins executes and votes again within its bound."),
    ("H-R1", "What a node keeps for others stays within its bound."),
    ("J4", "What a client believes about its command is what happened."),
    ("X1", "No honest node panics."),
    ("X2", "A machine holds no more bytes than its formula allows."),
    ("X3", "A promise is in the journal before it is on the wire."),
    ("X4", "An honest identity never signs two statements that contradict each other."),
    ("X5", "Two runs of one scenario are equal, event by event."),
    ("X6", "No honest node is blamed."),
    ("X7", "A message comes from the identity its connection proved."),
    ("X8", "A statement made for one purpose is accepted for no other."),
    ("X9", "Equal positions of the log have equal states."),
    ("J-S1", "A restarted journal returns what was appended, at least up to the last successful sync."),
    ("J-S2", "A damaged record inside what was durable is never taken for the end of the log."),
    ("J-S3", "After a failed write or sync a node sends nothing."),
    ("recover", "An intact journal is never refused."),
];

/// What the property a checker watches says.
#[must_use]
pub fn property(checker: &str) -> &'static str {
    PROPERTIES
        .iter()
        .find(|(id, _)| *id == checker)
        .map_or("A bound of the simulator itself.", |(_, text)| text)
}

/// What a faulty node does under a strategy or fault that counts against the budget.
fn lie(family: Family) -> &'static str {
    match family {
        Family::ByzSilent => "withholds messages",
        Family::ByzDelay => "holds messages back until they hurt",
        Family::ByzReplay => "repeats old messages",
        Family::ByzEquivocate => "says different things to different members and votes for everything",
        Family::ByzTwins => "runs twice with one key",
        Family::ByzMutate => "changes fields of its messages and signs them again",
        Family::ByzAcks => {
            "complains with older certificates than it holds, or builds below what others show, and lies in replies"
        }
        Family::ByzAmnesia => "forgot its promises and does not know it",
        Family::ByzForge => "forges certificates",
        Family::ByzFlood => "floods its peers",
        Family::ByzShave => "lets its messages reach exactly a quorum, or one less",
        Family::ByzCollude => "proposes two blocks, forks, votes for everything and complains falsely",
        Family::ByzBatches => {
            "proposes on older certificates than it holds, and votes for everything or keeps blocks from their commit"
        }
        Family::ByzSync => "serves false blocks to those who catch up",
        Family::DiskLie => "has a disk that reports syncs it did not do",
        Family::DiskRollback => "was given back an older image of its disk",
        Family::DiskWipe => "lost its disk",
        Family::DiskMisdirect => "has a disk that put a sector where another belongs",
        Family::NodeClone => "runs twice on copies of one disk",
        _ => "is faulty",
    }
}

/// Who is faulty in a scenario, and how.
fn liars(of: &Traced) -> String {
    let mut by_node: BTreeMap<u32, Vec<&Incident>> = BTreeMap::new();
    for incident in of.scenario.incidents.iter().filter(|incident| incident.family.costs_budget()) {
        for node in &incident.nodes {
            by_node.entry(*node).or_default().push(incident);
        }
    }
    for (_, twin) in twins::pairs(&of.scenario) {
        by_node.entry(twin).or_default();
    }
    let one = |(node, incidents): (&u32, &Vec<&Incident>)| {
        let mut how: Vec<String> = incidents
            .iter()
            .map(|incident| format!("{} ({})", lie(incident.family), incident.family.name()))
            .collect();
        if twins::pairs(&of.scenario).any(|(_, twin)| twin == *node) {
            how.push("runs twice with one key (byz.B5)".to_owned());
        }
        format!("n{node} {}.", how.join(", and "))
    };
    let lies: Vec<String> = by_node.iter().map(one).collect();
    if lies.is_empty() {
        "Nobody: every node follows its program on an intact disk.".to_owned()
    } else {
        lies.join(" ")
    }
}

/// The row that holds an event, in one sentence.
fn observation(of: &Traced, rows: &[Row<'_>], event: u64) -> Option<String> {
    let step = of.steps.iter().find(|step| step.event == event)?;
    let row = rows.iter().find(|row| row.holds(event))?;
    let highest = step.effects.iter().map(|effect| effect.said.mark).max().unwrap_or_default();
    let mut seen: Vec<&str> = step
        .effects
        .iter()
        .filter(|effect| effect.said.mark > synod_sim::Mark::Plain && effect.said.mark == highest)
        .map(|effect| effect.said.text.as_str())
        .collect();
    seen.dedup();
    let heard = if seen.is_empty() { step.what.text.clone() } else { seen.join("; ") };
    let (ms, us) = (step.time / 1_000_000, step.time / 1_000 % 1_000);
    Some(format!("{} at {ms}.{us:03} ms (event {event}): {heard}.", name(row.head().node)))
}

impl Traced {
    /// What the page says around its diagram.
    #[must_use]
    pub fn story(&self) -> Story {
        let past = self.past();
        let rows = past.rows();
        let (system, token) = (&self.scenario.system, &self.report.token);
        let mut facts: Vec<(String, String)> = Vec::new();
        let mut fact = |heading: &str, text: String| facts.push((heading.to_owned(), text));
        let members = self.scenario.nodes;
        fact(
            "System",
            format!(
                "{system} with {members} members n0 to n{} and {} clients c0, ...",
                members.saturating_sub(1),
                self.scenario.guests
            ),
        );
        let verdict = match &self.violation {
            None => {
                fact("Outcome", "Nothing was broken. The diagram shows the whole run.".to_owned());
                String::new()
            }
            Some(violation) => {
                fact("What must hold", format!("{}: {}", violation.checker, property(&violation.checker)));
                fact("What was seen", format!("{}.", violation.what));
                for (number, event) in
                    ["First observation", "Second observation"].iter().zip(pair(&violation.evidence))
                {
                    if let Some(text) = observation(self, rows, event) {
                        fact(number, text);
                    }
                }
                format!("{} is broken: {}", violation.checker, violation.what)
            }
        };
        fact("Who is faulty", liars(self));
        let shown: usize = rows.iter().map(|row| row.parts.len()).sum();
        fact(
            "What is shown",
            format!(
                "{} steps ({shown} of the run's {} events): what the observations rest on. A step is one thing that reached a node from outside, with all that followed inside the node.",
                rows.len(),
                self.report.events
            ),
        );
        let again = if token.ends_with(":file") {
            "with the scenario file this page was made of"
        } else {
            token.as_str()
        };
        fact("To see it again", format!("synod sim replay --view page, {again}."));
        if plants::is_plant_build() {
            fact(
                "Program",
                "A build with planted bugs; see tests/plants.toml for the one that was on.".to_owned(),
            );
        }
        Story { title: self.title(), facts, verdict }
    }

    fn title(&self) -> String {
        match &self.violation {
            None => format!("A run of {}", self.scenario.system),
            Some(violation) => format!("How {} was broken in {}", violation.checker, self.scenario.system),
        }
    }

    /// The space-time diagram of the past as one HTML file.
    #[must_use]
    pub fn page(&self) -> String {
        let past = self.past();
        page(&self.story(), past.rows(), &self.beside(&past), &self.marked(), &name)
    }
}

/// The first and the last of a violation's events.
fn pair(evidence: &[u64]) -> Vec<u64> {
    match evidence {
        [] => Vec::new(),
        [one] => vec![*one],
        [first, .., last] => vec![*first, *last],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_checker_has_a_sentence_of_its_own() {
        let wanted = (1..=10).map(|n| format!("H-S{n}")).chain((1..=4).map(|n| format!("H-L{n}")));
        let wanted = wanted.chain((1..=9).map(|n| format!("X{n}"))).chain((1..=3).map(|n| format!("J-S{n}")));
        for checker in wanted.chain(["H-R1".to_owned(), "J4".to_owned()]) {
            assert!(PROPERTIES.iter().any(|(id, text)| *id == checker && text.ends_with('.')), "{checker}");
        }
        let texts: std::collections::BTreeSet<&str> = PROPERTIES.iter().map(|(_, text)| *text).collect();
        assert_eq!(texts.len(), PROPERTIES.len());
    }
}
