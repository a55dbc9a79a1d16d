//! The options of `synod bench ubft`.

use crate::bench::{
    UBFT_BASELINE_WANTED, UBFT_CLOSED_MAX, UBFT_SIZE_MAX, UbftApp, UbftBaseline, UbftBench, UbftPart,
    UbftPlacement, UbftSystem,
};
use crate::session::usage;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use synod_config::{SynError, code};

/// Where processes stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Placement {
    /// Replicas at one poller, the client at another, in this process.
    Cooperative,
    /// A process for each replica and memory node; the client is this one.
    Isolated,
    /// A process and a core for each: refused, not built yet.
    Dedicated,
}

/// Which way slots are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Path {
    /// Without signatures.
    Fast,
    /// With them, and registers, in every slot.
    Slow,
}

/// Whether promises go with what is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Merge {
    /// Followers promise to certify a proposal with what they lock of it: a delay less.
    On,
    /// They say so apart.
    Off,
}

/// What is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum App {
    /// Reverses its input.
    Flip,
    /// Writes a key.
    Kv,
    /// Answers alike whatever it is asked.
    Noop,
    /// Places orders of one trader, which meet each other; one in flight, for results depend on the order.
    Book,
    /// Flip and kv, one after the other.
    All,
}

/// Runs that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// Those that the gates need; a gate that is missed ends with an error.
    Gate,
    /// Those of the figures: refused, not built yet.
    Figures,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum System {
    /// Three replicas.
    Synod,
    /// One server.
    Unreplicated,
    /// Three replicas, and behind them those of the crate minbft, which trust a counter in software; with --baseline.
    MinbftRaw,
    /// The same, where each use of the counter takes --enclave-us longer.
    MinbftEnclave,
    /// Three replicas and one server, for the ratio.
    All,
}

/// Options of `ubft`.
#[derive(Debug, Args)]
pub(super) struct UbftOptions {
    /// Runs that belong together, in place of the options of one run; --samples and --warmup-ops hold for each.
    #[arg(long, value_enum, conflicts_with_all = ["placement", "path", "system", "app", "size", "closed", "rate", "batch", "tail"])]
    suite: Option<Suite>,
    /// Where replicas, client and registers stand.
    #[arg(long, value_enum, default_value = "cooperative")]
    placement: Placement,
    /// Which way slots are decided.
    #[arg(long, value_enum, default_value = "fast")]
    path: Path,
    /// Whether followers promise with what they lock; holds for each run of a suite.
    #[arg(long, value_enum, default_value = "off")]
    merge: Merge,
    /// Who answers.
    #[arg(long, value_enum, default_value = "all")]
    system: System,
    /// The program that runs minbft, with --suite gate or --system minbft-*; see baselines/minbft/README.md.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Microseconds that a use of minbft's counter takes beyond the counter itself, as in an enclave.
    #[arg(long, default_value_t = 8, conflicts_with = "suite", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    enclave_us: u32,
    /// What is executed.
    #[arg(long, value_enum, default_value = "all")]
    app: App,
    /// Bytes of a request of flip or noop, or of a value of kv.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(2..=i64::from(UBFT_SIZE_MAX)))]
    size: u32,
    /// Requests in flight: the next is sent when one has its result.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(UBFT_CLOSED_MAX)))]
    closed: u32,
    /// Requests of a second, due at times fixed in advance, from which their times count.
    #[arg(long, value_name = "R", conflicts_with = "closed", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: Option<u32>,
    /// Requests of a slot at most.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    batch: u32,
    /// Requests whose times are taken.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    samples: u32,
    /// Requests before them.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    warmup_ops: u32,
    /// Messages of a replica that the others remember; a power of two.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(16..=4_096))]
    tail: u32,
    /// Slots that are worked on; a power of two.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(32..=4_096))]
    window: u32,
    /// Writes the result to this file as well.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// This process is a part of a run of another.
    #[arg(long, hide = true, requires = "folder")]
    part: Option<String>,
    /// Where the parts of that run have their doors.
    #[arg(long, hide = true, requires = "part")]
    folder: Option<PathBuf>,
}

impl UbftOptions {
    /// What is to be measured.
    ///
    /// # Errors
    /// SYN-3003 for what is not built, SYN-1001 for what is no tail or window, or means nothing together.
    pub(super) fn plan(self) -> Result<UbftBench, SynError> {
        let placement = match self.placement {
            Placement::Cooperative => UbftPlacement::Cooperative,
            Placement::Isolated => UbftPlacement::Isolated,
            Placement::Dedicated => {
                let why = "isolated gives each a core of its own where there are four";
                return Err(unsupported("a core for each process", why));
            }
        };
        if self.suite == Some(Suite::Figures) {
            return Err(unsupported(
                "the suite of figures",
                "one run with the options of each figure gives its rows",
            ));
        }
        if !self.tail.is_power_of_two() || !self.window.is_power_of_two() {
            return Err(usage("--tail and --window are powers of two"));
        }
        if self.app == App::Book && (self.closed > 1 || self.rate.is_some()) {
            return Err(usage("--app book goes with --closed 1: results depend on the order of requests"));
        }
        let baseline = self.beside()?;
        let is_beside = baseline.is_some() && self.suite.is_none();
        let part = self.part.zip(self.folder).map(|(name, folder)| UbftPart { name, folder });
        Ok(UbftBench {
            is_suite: self.suite.is_some(),
            placement,
            part,
            apps: if is_beside { vec![UbftApp::Flip] } else { apps(self.app) },
            systems: systems(self.system),
            baseline,
            size: self.size,
            closed: self.closed,
            rate: self.rate,
            batch: self.batch,
            samples: self.samples,
            warmup: self.warmup_ops,
            tail: self.tail,
            window: self.window,
            fast_path: self.path == Path::Fast,
            is_merged: self.merge == Merge::On,
            has_crypto_thread: true,
            out: self.out,
        })
    }

    /// The rows of minbft that are asked for.
    fn beside(&self) -> Result<Option<UbftBaseline>, SynError> {
        let uses_us = match (self.suite, self.system) {
            (Some(_), _) => vec![0, 8],
            (None, System::MinbftRaw) => vec![0],
            (None, System::MinbftEnclave) => vec![self.enclave_us],
            (None, _) if self.baseline.is_some() => {
                return Err(usage(
                    "--baseline goes with --suite gate or --system minbft-raw or minbft-enclave",
                ));
            }
            (None, _) => return Ok(None),
        };
        let Some(program) = self.baseline.clone() else {
            if self.suite.is_some() {
                return Ok(None);
            }
            return Err(unsupported("a baseline of minbft", UBFT_BASELINE_WANTED));
        };
        let is_its = self.placement == Placement::Cooperative && self.path == Path::Fast && self.batch == 1;
        let is_single = self.closed == 1 && self.rate.is_none();
        if self.suite.is_none() && !(is_its && is_single && matches!(self.app, App::Flip | App::All)) {
            let why = "--system minbft-* goes with --app flip, one request in flight, --placement cooperative and --path fast";
            return Err(usage(why));
        }
        Ok(Some(UbftBaseline { program, uses_us }))
    }
}

fn unsupported(what: &str, why: &str) -> SynError {
    SynError::of(code::UNSUPPORTED, &[("verb", what)]).because(why)
}

fn apps(app: App) -> Vec<UbftApp> {
    match app {
        App::Flip => vec![UbftApp::Flip],
        App::Kv => vec![UbftApp::Kv],
        App::Noop => vec![UbftApp::Noop],
        App::Book => vec![UbftApp::Book],
        App::All => vec![UbftApp::Flip, UbftApp::Kv],
    }
}

fn systems(system: System) -> Vec<UbftSystem> {
    match system {
        // Rows of minbft stand behind those of the replicas they are held against.
        System::Synod | System::MinbftRaw | System::MinbftEnclave => vec![UbftSystem::Synod],
        System::Unreplicated => vec![UbftSystem::Unreplicated],
        System::All => vec![UbftSystem::Unreplicated, UbftSystem::Synod],
    }
}
