//! The name of one crash: `crash:SYSTEM:MEMBER:BOUNDARY:OUTCOME:DISK@COMMIT`.

use core::fmt;
use core::str::FromStr;

/// One crash and what the disk kept of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The system.
    pub system: String,
    /// Who crashes.
    pub member: u32,
    /// Behind which step of its tape.
    pub boundary: u32,
    /// Which of the storage outcomes there.
    pub outcome: u32,
    /// Whether its journal is the real one on a disk of blocks.
    pub blocks: bool,
    /// The commit it was found at.
    pub commit: String,
}

/// A text that names no crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPoint(pub String);

impl fmt::Display for BadPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not crash:system:member:boundary:outcome:records|blocks@commit", self.0)
    }
}

impl core::error::Error for BadPoint {}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { system, member, boundary, outcome, commit, .. } = self;
        let disk = if self.blocks { "blocks" } else { "records" };
        write!(f, "crash:{system}:{member}:{boundary}:{outcome}:{disk}@{commit}")
    }
}

impl FromStr for Point {
    type Err = BadPoint;

    fn from_str(text: &str) -> Result<Self, BadPoint> {
        let bad = || BadPoint(text.to_owned());
        let (name, commit) = text.trim().split_once('@').ok_or_else(bad)?;
        let parts: Vec<&str> = name.split(':').collect();
        let ["crash", system, member, boundary, outcome, disk] = parts[..] else { return Err(bad()) };
        let number = |text: &str| text.parse::<u32>().map_err(|_| bad());
        let blocks = match disk {
            "blocks" => true,
            "records" => false,
            _ => return Err(bad()),
        };
        Ok(Self {
            system: system.to_owned(),
            member: number(member)?,
            boundary: number(boundary)?,
            outcome: number(outcome)?,
            blocks,
            commit: commit.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Point;

    #[test]
    fn a_point_comes_back_from_its_name() {
        for text in ["crash:hotstuff/chain2+order:3:117:2:blocks@abc", "crash:journal:0:5:0:records@worktree"]
        {
            let point: Point = text.parse().expect("a name");
            assert_eq!(point.to_string(), text);
        }
        for text in ["", "crash:journal:0:5:0:tape@x", "crash:journal:0:5:records@x", "hotstuff/basic:7:@x"] {
            assert!(text.parse::<Point>().is_err(), "{text}");
        }
    }
}
