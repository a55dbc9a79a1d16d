//! The options of `synod bench ubft`.

use crate::bench::{UbftApp, UbftBench, UbftPart, UbftPlacement, UbftSystem};
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

/// What is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum App {
    /// Reverses its input.
    Flip,
    /// Writes a key.
    Kv,
    /// Both, one after the other.
    All,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum System {
    /// Three replicas.
    Synod,
    /// One server.
    Unreplicated,
    /// Both, for the ratio.
    All,
}

/// Options of `ubft`.
#[derive(Debug, Args)]
pub(super) struct UbftOptions {
    /// Where replicas, client and registers stand.
    #[arg(long, value_enum, default_value = "cooperative")]
    placement: Placement,
    /// Which way slots are decided.
    #[arg(long, value_enum, default_value = "fast")]
    path: Path,
    /// Who answers.
    #[arg(long, value_enum, default_value = "all")]
    system: System,
    /// What is executed.
    #[arg(long, value_enum, default_value = "all")]
    app: App,
    /// Bytes of a request of flip, or of a value of kv.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(8..=1_024))]
    size: u32,
    /// Requests whose times are taken; one is in flight.
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
    /// SYN-3003 for a placement that is not built, SYN-1001 for what is no tail or window.
    pub(super) fn plan(self) -> Result<UbftBench, SynError> {
        let placement = match self.placement {
            Placement::Cooperative => UbftPlacement::Cooperative,
            Placement::Isolated => UbftPlacement::Isolated,
            Placement::Dedicated => {
                let error = SynError::of(code::UNSUPPORTED, &[("verb", "a core for each process")]);
                return Err(error.because("isolated gives each a core of its own where there are four"));
            }
        };
        if !self.tail.is_power_of_two() || !self.window.is_power_of_two() {
            return Err(usage("--tail and --window are powers of two"));
        }
        let part = self.part.zip(self.folder).map(|(name, folder)| UbftPart { name, folder });
        Ok(UbftBench {
            placement,
            part,
            apps: match self.app {
                App::Flip => vec![UbftApp::Flip],
                App::Kv => vec![UbftApp::Kv],
                App::All => vec![UbftApp::Flip, UbftApp::Kv],
            },
            systems: match self.system {
                System::Synod => vec![UbftSystem::Synod],
                System::Unreplicated => vec![UbftSystem::Unreplicated],
                System::All => vec![UbftSystem::Unreplicated, UbftSystem::Synod],
            },
            size: self.size,
            samples: self.samples,
            warmup: self.warmup_ops,
            tail: self.tail,
            window: self.window,
            fast_path: self.path == Path::Fast,
            out: self.out,
        })
    }
}
