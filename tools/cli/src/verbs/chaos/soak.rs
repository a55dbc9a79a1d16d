//! `synod chaos soak`, and what it shares with `synod chaos run`.

use crate::chaos::{Hurt, Plan, power};
use clap::{Args, ValueEnum};
use std::time::Duration;

/// Mean time between two events.
const MEAN: Duration = Duration::from_millis(2_500);

#[derive(Debug, Args)]
pub(super) struct Soak {
    /// How long; fractions count.
    #[arg(long, value_name = "HOURS", default_value = "8", value_parser = hours)]
    hours: Duration,
    /// Members; 3f + 1 of them tolerate f faulty ones.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(4..=32))]
    nodes: u16,
    /// Mean time between two events, in seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    kill_mean_s: Option<Duration>,
    /// Which protocol; there is one.
    #[arg(long, default_value = "hotstuff", value_parser = ["hotstuff", "all"])]
    system: String,
    /// What everything is drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Soak {
    pub(super) fn plan(&self) -> Plan {
        Plan {
            nodes: self.nodes,
            kill_mean: self.kill_mean_s.unwrap_or(MEAN),
            span: self.hours,
            seed: self.seed,
            soak: true,
            ..mixed()
        }
    }
}

/// A plan of faults of all kinds in a drawn order; disks fail too where this machine can mount some.
fn mixed() -> Plan {
    Plan {
        nodes: 4,
        kills: 0,
        kill_mean: MEAN,
        stop: None,
        restart_all: false,
        disk_full: 0,
        eio: 0,
        links: 0,
        hurts: Hurt::ALL.to_vec(),
        mix: true,
        mixed_disks: power::check().is_ok(),
        soak: false,
        slow: None,
        lie: None,
        span: Duration::ZERO,
        seed: 1,
    }
}

/// A way to hurt a link, as the command line names it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Way {
    /// Some links pass nothing, in eight shapes.
    Split,
    /// Connections end on one side only.
    HalfOpen,
    /// Connections are reset.
    Reset,
    /// Links are late.
    Delay,
    /// A link passes one byte a second.
    Drip,
    /// A byte is changed; TLS must end the connection.
    Corrupt,
}

impl Way {
    pub(super) fn hurt(self) -> Hurt {
        match self {
            Self::Split => Hurt::Split,
            Self::HalfOpen => Hurt::HalfOpen,
            Self::Reset => Hurt::Reset,
            Self::Delay => Hurt::Delay,
            Self::Drip => Hurt::Drip,
            Self::Corrupt => Hurt::Corrupt,
        }
    }
}

/// Seconds with a fraction.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let span = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    span.filter(|span| *span <= Duration::from_secs(3_600))
        .ok_or_else(|| "not seconds such as 2.5".to_owned())
}

/// Hours with a fraction.
fn hours(text: &str) -> Result<Duration, String> {
    seconds(text).map(|span| span * 3_600).map_err(|_| "not hours such as 8 or 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{hours, seconds};
    use std::time::Duration;

    #[test]
    fn seconds_have_fractions_and_a_bound() {
        assert_eq!(seconds("2.5"), Ok(Duration::from_millis(2_500)));
        assert_eq!(hours("0.002"), Ok(Duration::from_millis(7_200)));
        for wrong in ["", "x", "-1", "NaN", "1e9"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
