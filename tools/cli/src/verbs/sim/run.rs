//! `synod sim run`: one run of a seed or of a scenario file.

use super::{options, seed, text_of, told, unknown};
use crate::exit::Done;
use crate::session::Session;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use synod_config::SynError;
use synod_trial::draw;
use synod_trial::replay::scenario_of;
use synod_trial::run::{Crypto, Manner, Scenario, commit, run_scenario, run_twice};
use synod_trial::token::{RunOptions, Token};

/// One run.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod sim run --system hotstuff/chain2+order --seed 7")]
pub(super) struct Arguments {
    /// The system: hotstuff/ and a rule pack.
    #[arg(long, default_value = "hotstuff/chain2+order")]
    system: String,
    /// The seed, decimal or 0x-hexadecimal.
    #[arg(long, value_parser = seed, required_unless_present = "scenario")]
    seed: Option<u64>,
    /// A scenario file instead of a seed.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "system", "options", "over_budget"])]
    scenario: Option<String>,
    /// Options as in a token, such as n=7,crypto=real.
    #[arg(long, default_value = "")]
    options: String,
    /// Which signatures; drawn without it.
    #[arg(long, value_enum)]
    crypto: Option<Signatures>,
    /// Whether the run ends with the safety phase.
    #[arg(long, value_enum, default_value_t = Phase::Both)]
    phase: Phase,
    /// One member more than allowed is faulty; agreement and liveness are not judged then.
    #[arg(long)]
    over_budget: bool,
    /// Runs twice and compares every event and effect.
    #[arg(long)]
    twice: bool,
    /// Writes every event as a JSON line to this file.
    #[arg(long, value_name = "FILE", conflicts_with = "twice")]
    trace: Option<PathBuf>,
    /// The planted bug that is on; needs a build of `cargo xtask plant`.
    #[arg(long, value_name = "ID")]
    plant: Option<String>,
}

/// Which signatures a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Signatures {
    /// Keyed tags of the real sizes.
    Toy,
    /// Ed25519.
    Real,
}

/// How far a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Phase {
    /// To the end of the safety phase.
    Safety,
    /// Through healing and the liveness phase.
    Both,
}

impl Arguments {
    /// The scenario with its name.
    fn chosen(&self) -> Result<(Scenario, String), SynError> {
        let crypto = self.crypto.map(|crypto| match crypto {
            Signatures::Toy => Crypto::Toy,
            Signatures::Real => Crypto::Real,
        });
        let safety_only = self.phase == Phase::Safety;
        if let Some(file) = &self.scenario {
            let (mut scenario, name) = scenario_of(&text_of(file)?).map_err(|e| unknown(&e))?;
            scenario.crypto = crypto.unwrap_or(scenario.crypto);
            if safety_only {
                scenario.options.insert("safety_only".to_owned(), 1);
            }
            return Ok((scenario, name));
        }
        let given = options(&self.options)?;
        let options = RunOptions {
            crypto: crypto.or(given.crypto),
            safety_only: safety_only || given.safety_only,
            over_budget: self.over_budget || given.over_budget,
            ..given
        };
        let (system, seed) = (self.system.clone(), self.seed.unwrap_or_default());
        let scenario = draw::scenario(&system, seed, &options).map_err(|e| unknown(&e))?;
        Ok((scenario, Token { system, seed, options, commit: commit() }.to_string()))
    }

    pub(super) fn run(self, session: &Session) -> Done {
        super::shrink::planted(self.plant.as_deref())?;
        let (scenario, token) = self.chosen()?;
        let manner = Manner { trace: self.trace.is_some(), ..Manner::default() };
        let report =
            if self.twice { run_twice(&scenario, &token) } else { run_scenario(&scenario, &token, manner) };
        let report = report.map_err(|e| unknown(&e))?;
        if let Some(file) = self.trace {
            let text = report.lines.join("\n") + "\n";
            std::fs::write(&file, text).map_err(|e| crate::cluster::unwritable(&file, &e))?;
        }
        told(session, &report)
    }
}
