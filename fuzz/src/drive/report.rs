//! What a run found.

use std::fmt::Write as _;

/// What kind of property broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// A panic, an abort or a hang.
    Crash,
    /// Allocation above the bound.
    Overalloc,
    /// An encoding that does not come back.
    Roundtrip,
}

impl Sort {
    /// Its name in reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Overalloc => "overalloc",
            Self::Roundtrip => "roundtrip",
        }
    }

    /// The sort of this name.
    pub(super) fn of(word: &str) -> Option<Self> {
        [Self::Crash, Self::Overalloc, Self::Roundtrip].into_iter().find(|sort| sort.word() == word)
    }
}

/// One broken property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The target.
    pub target: &'static str,
    /// What broke.
    pub sort: Sort,
    /// The index of the input; with target and seed it replays.
    pub index: u64,
    /// What was said.
    pub text: String,
    /// The input.
    pub input: Vec<u8>,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The stream of inputs.
    pub seed: u64,
    /// How many targets ran.
    pub targets: u64,
    /// How many inputs they took.
    pub inputs: u64,
    /// How many of those were accepted.
    pub accepted: u64,
    /// Milliseconds of wall time.
    pub millis: u64,
    /// What broke.
    pub findings: Vec<Finding>,
}

impl Report {
    fn count(&self, sort: Sort) -> usize {
        self.findings.iter().filter(|finding| finding.sort == sort).count()
    }

    /// Lines of `key value`, then the findings with their inputs in hexadecimal.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (key, value) in self.numbers() {
            let _infallible = writeln!(text, "{key} {value}");
        }
        for finding in &self.findings {
            let Finding { target, sort, index, text: said, input } = finding;
            let _infallible = writeln!(
                text,
                "finding {target} {} seed {} index {index}: {said}\ninput {}",
                sort.word(),
                self.seed,
                hex(input)
            );
        }
        text
    }

    /// One JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let numbers: Vec<String> =
            self.numbers().into_iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
        let findings: Vec<String> = self
            .findings
            .iter()
            .map(|finding| {
                format!(
                    "{{\"target\": \"{}\", \"sort\": \"{}\", \"index\": {}, \"text\": {}, \"input\": \"{}\"}}",
                    finding.target,
                    finding.sort.word(),
                    finding.index,
                    quoted(&finding.text),
                    hex(&finding.input)
                )
            })
            .collect();
        format!(
            "{{\"schema\": \"synod-fuzz/1\", {}, \"findings\": [{}]}}\n",
            numbers.join(", "),
            findings.join(", ")
        )
    }

    fn numbers(&self) -> Vec<(&'static str, u64)> {
        let count = |sort| self.count(sort) as u64;
        vec![
            ("targets", self.targets),
            ("inputs", self.inputs),
            ("accepted", self.accepted),
            ("crashes", count(Sort::Crash)),
            ("overalloc", count(Sort::Overalloc)),
            ("roundtrip", count(Sort::Roundtrip)),
            ("wall_ms", self.millis),
        ]
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control < ' ' => {
                let _infallible = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let finding = Finding {
            target: "kv-reply",
            sort: Sort::Roundtrip,
            index: 3,
            text: "roundtrip: \"a\"\t".to_owned(),
            input: vec![0, 0xff],
        };
        Report { seed: 1, targets: 2, inputs: 10, accepted: 4, millis: 7, findings: vec![finding] }
    }

    #[test]
    fn a_report_counts_by_sort_and_shows_inputs_in_hex() {
        let text = report().to_text();
        assert!(
            text.starts_with("targets 2\ninputs 10\naccepted 4\ncrashes 0\noveralloc 0\nroundtrip 1\n"),
            "{text}"
        );
        assert!(text.ends_with("index 3: roundtrip: \"a\"\t\ninput 00ff\n"), "{text}");
    }

    #[test]
    fn json_is_escaped() {
        let json = report().to_json();
        assert!(json.contains("\"crashes\": 0, \"overalloc\": 0, \"roundtrip\": 1"), "{json}");
        assert!(json.contains("\"text\": \"roundtrip: \\\"a\\\"\\u0009\", \"input\": \"00ff\""), "{json}");
    }
}
