//! What a run is asked to do.

use crate::target::{Kind, TARGETS, Target, find};

/// How long each target runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// A short campaign: a number of inputs by the target's cost.
    Short,
    /// So many inputs per target.
    Inputs(u64),
    /// So many seconds over all targets.
    Seconds(u64),
}

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long.
    pub budget: Budget,
    /// Only this target.
    pub target: Option<String>,
    /// Only decoders.
    pub decoders: bool,
    /// The stream of inputs.
    pub seed: u64,
    /// A report as JSON instead of text.
    pub json: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { budget: Budget::Short, target: None, decoders: false, seed: 1, json: false }
    }
}

impl Options {
    /// Reads command-line words.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn read(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match *word {
                "--inputs" => options.budget = Budget::Inputs(number(word, value()?)?),
                "--seconds" => options.budget = Budget::Seconds(number(word, value()?)?),
                "--seed" => {
                    options.seed = value()?.parse().map_err(|_| "--seed needs a number".to_owned())?
                }
                "--target" => options.target = Some((*value()?).to_owned()),
                "--decoders" => options.decoders = true,
                "--json" => options.json = true,
                other => return Err(format!("`{other}` is no option")),
            }
        }
        if let Some(name) = options.target.as_ref().filter(|name| find(name).is_none()) {
            return Err(format!("no target is called `{name}`; there are: {}", names().join(" ")));
        }
        Ok(options)
    }

    /// The targets that run.
    #[must_use]
    pub fn targets(&self) -> Vec<&'static Target> {
        let all = TARGETS.iter().copied().flatten();
        let wanted = |target: &&Target| match &self.target {
            Some(name) => target.name == name,
            None => !self.decoders || target.is_decoder(),
        };
        all.filter(wanted).collect()
    }

    /// How many inputs a target gets, and how many milliseconds if time decides.
    #[must_use]
    pub fn share(&self, target: &Target) -> (u64, u64) {
        match (self.budget, target.kind) {
            (Budget::Inputs(inputs), _) => (inputs, 0),
            (Budget::Seconds(seconds), _) => {
                (u64::MAX, (seconds * 1_000 / self.targets().len().max(1) as u64).max(1))
            }
            (Budget::Short, Kind::Decoder) => (16_000, 0),
            (Budget::Short, Kind::Slow) => (1_500, 0),
            (Budget::Short, Kind::Role) => (150, 0),
        }
    }
}

fn number(option: &str, word: &str) -> Result<u64, String> {
    let number = word.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{option} needs a positive number, not `{word}`"))
}

fn names() -> Vec<&'static str> {
    TARGETS.iter().copied().flatten().map(|target| target.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let read = Options::read(&["--inputs", "9", "--target", "kv-reply", "--seed", "3", "--json"]);
        let wanted = Options {
            budget: Budget::Inputs(9),
            target: Some("kv-reply".to_owned()),
            decoders: false,
            seed: 3,
            json: true,
        };
        assert_eq!(read.as_ref(), Ok(&wanted));
        assert_eq!(wanted.targets().len(), 1);
        for wrong in
            [&["--inputs"][..], &["--inputs", "0"], &["--target", "none"], &["--fast"], &["--seconds", "x"]]
        {
            assert!(Options::read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn decoders_are_all_targets_but_the_roles() {
        let all = Options::default().targets().len();
        let decoders = Options { decoders: true, ..Options::default() }.targets();
        assert!(decoders.len() < all && decoders.iter().all(|target| !target.name.starts_with("role-")));
    }
}
