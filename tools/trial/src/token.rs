//! The one line that names a run: `system:seed:options@commit`.

use core::fmt;
use core::str::FromStr;

use synod_sim::Crypto;

/// What a run may be told besides system and seed. As text: comma-separated, in this order, nothing for defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Number of members; drawn when not given. Text: `n=7`.
    pub nodes: Option<u32>,
    /// Signatures; drawn when not given. Text: `crypto=toy` or `crypto=real`.
    pub crypto: Option<Crypto>,
    /// What journals are kept on; drawn when not given. Text: `disk=records` or `disk=blocks`.
    pub disk: Option<Disk>,
    /// Whether the run ends with the safety phase. Text: `safety`.
    pub safety_only: bool,
    /// Whether one member more than allowed is faulty; agreement and liveness are not judged then. Text: `over`.
    pub over_budget: bool,
    /// Whether only forks are judged, so that checkers that fire earlier do not end the run. Text: `forks`.
    pub forks_only: bool,
    /// Whether the seed is the index of a script of twins; the other options do not count then. Text: `twins`.
    pub twins: bool,
}

/// What the journals of a run are kept on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// A list of records; a crash keeps a prefix.
    Records,
    /// The real journal on a disk of blocks.
    Blocks,
}

/// A run by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The system.
    pub system: String,
    /// The seed.
    pub seed: u64,
    /// The options.
    pub options: RunOptions,
    /// The commit it was found at; a run is a function of all four.
    pub commit: String,
}

/// A text that is no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadToken(pub String);

impl fmt::Display for BadToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not system:seed:options@commit", self.0)
    }
}

impl core::error::Error for BadToken {}

impl fmt::Display for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.nodes.map(|nodes| format!("n={nodes}"));
        let crypto = self.crypto.map(|crypto| match crypto {
            Crypto::Toy => "crypto=toy".to_owned(),
            Crypto::Real => "crypto=real".to_owned(),
        });
        let disk = self.disk.map(|disk| match disk {
            Disk::Records => "disk=records".to_owned(),
            Disk::Blocks => "disk=blocks".to_owned(),
        });
        let safety = self.safety_only.then(|| "safety".to_owned());
        let over = self.over_budget.then(|| "over".to_owned());
        let forks = self.forks_only.then(|| "forks".to_owned());
        let twins = self.twins.then(|| "twins".to_owned());
        let parts: Vec<String> =
            [nodes, crypto, disk, safety, over, forks, twins].into_iter().flatten().collect();
        f.write_str(&parts.join(","))
    }
}

impl FromStr for RunOptions {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        let mut options = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("n", nodes)) => options.nodes = nodes.parse().ok().filter(|n| (1..=31).contains(n)),
                Some(("crypto", "toy")) => options.crypto = Some(Crypto::Toy),
                Some(("crypto", "real")) => options.crypto = Some(Crypto::Real),
                Some(("disk", "records")) => options.disk = Some(Disk::Records),
                Some(("disk", "blocks")) => options.disk = Some(Disk::Blocks),
                None if part == "safety" => options.safety_only = true,
                None if part == "over" => options.over_budget = true,
                None if part == "forks" => options.forks_only = true,
                None if part == "twins" => options.twins = true,
                _ => return Err(BadToken(text.to_owned())),
            }
            if part.starts_with("n=") && options.nodes.is_none() {
                return Err(BadToken(text.to_owned()));
            }
        }
        Ok(options)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:x}:{}@{}", self.system, self.seed, self.options, self.commit)
    }
}

impl FromStr for Token {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        let bad = || BadToken(text.to_owned());
        let (run, commit) = text.split_once('@').unwrap_or((text, ""));
        let mut parts = run.splitn(3, ':');
        let (system, seed) = (parts.next().ok_or_else(bad)?, parts.next().ok_or_else(bad)?);
        Ok(Self {
            system: system.to_owned(),
            seed: u64::from_str_radix(seed, 16).map_err(|_| bad())?,
            options: parts.next().unwrap_or("").parse()?,
            commit: commit.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let options = RunOptions {
            nodes: Some(7),
            crypto: Some(Crypto::Real),
            disk: Some(Disk::Blocks),
            safety_only: true,
            over_budget: true,
            forks_only: true,
            twins: true,
        };
        for options in [RunOptions::default(), options] {
            let token = Token {
                system: "hotstuff/chain2+order".to_owned(),
                seed: 0xbeef,
                options,
                commit: "abc".to_owned(),
            };
            assert_eq!(token.to_string().parse(), Ok(token));
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["", "hotstuff", "hotstuff:xyz:", "hotstuff:1:m=2@c", "hotstuff:1:n=99@c"] {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }
}
