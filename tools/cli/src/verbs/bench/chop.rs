//! The options of `synod bench chop`.

use super::duration;
use crate::bench::{ChopPlan, Part};
use crate::session::usage;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use synod_config::SynError;
use synod_load::chop::IdDraw;

/// Most ids: whole chunks below the end of the id space.
const IDS_MAX: u32 = 4_294_966_784;
/// Clients of a chunk of the directory.
const CHUNK: u32 = 512;

/// Options of `chop` alone.
#[derive(Debug, Args)]
pub(super) struct ChopOptions {
    /// What is measured. Built so far: auth.
    #[arg(long, value_enum, default_value = "auth", hide_possible_values = true)]
    part: Part,
    /// Which ids a batch has: uniform, cohort[:PERCENT exchanged from batch to batch] or block.
    #[arg(long, default_value = "uniform", value_name = "DRAW")]
    ids: IdDraw,
    /// Share of messages under the multi-signature, 0 to 1; the others carry signatures of their own.
    #[arg(long, default_value = "1", value_name = "SHARE", value_parser = share)]
    distilled: u16,
    /// Messages per batch.
    #[arg(long, default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    batch: u32,
    /// Bytes of a message.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    size: u16,
    /// Clients with keys of their own.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    clients: u32,
    /// Ids in the directory, the number of clients unless said otherwise. More of them repeat the clients' keys, and
    /// both numbers are rounded up to multiples of 512.
    #[arg(long, value_name = "IDS", value_parser = clap::value_parser!(u32).range(1..=i64::from(IDS_MAX)))]
    id_space: Option<u32>,
    /// Batches made before the measured time; they are checked in turn.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pool: u16,
    /// Time measured, in each repetition.
    #[arg(long = "for", default_value = "20s", value_parser = duration)]
    span: Duration,
    /// Time before measuring.
    #[arg(long, default_value = "5s", value_parser = duration)]
    warmup: Duration,
    /// Repetitions; the result is the median, and the spread stands beside it.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Leaves out other ways to do the same.
    #[arg(long)]
    no_ablations: bool,
    /// Takes a genuine batch for a forged one in the audit.
    #[arg(long, hide = true)]
    i_am_a_test: bool,
    /// Writes the result to this file as well.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A share from 0 to 1 with up to three digits behind the point, in thousandths.
fn share(text: &str) -> Result<u16, String> {
    let wrong = || "not a share such as 1 or 0.95, with three digits behind the point at most".to_owned();
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    if part.is_empty() || part.len() > 3 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    if !matches!(whole, "0" | "1") {
        return Err(wrong());
    }
    format!("{whole}{part:0<3}").parse().ok().filter(|share| *share <= 1_000).ok_or_else(wrong)
}

impl ChopOptions {
    pub(super) fn plan(self) -> Result<ChopPlan, SynError> {
        if self.part != Part::Auth {
            return Err(usage(
                "of the parts only --part auth is built: the others need brokers and servers as processes",
            ));
        }
        if self.span.is_zero() {
            return Err(usage("--for 0 measures nothing"));
        }
        let (mut clients, mut id_space) = (self.clients, self.id_space.unwrap_or(self.clients));
        if id_space > clients {
            (clients, id_space) = (clients.next_multiple_of(CHUNK), id_space.next_multiple_of(CHUNK));
        }
        if self.batch > id_space {
            return Err(usage("--batch is above the number of ids, and no client is in a batch twice"));
        }
        Ok(ChopPlan {
            ids: self.ids,
            distilled: self.distilled,
            batch: self.batch,
            size: self.size,
            clients,
            id_space,
            pool: usize::from(self.pool),
            span: self.span,
            warmup: self.warmup,
            repeat: self.repeat,
            ablations: !self.no_ablations,
            planted: self.i_am_a_test,
            out: self.out,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ChopOptions, IdDraw, share};
    use crate::bench::ChopPlan;
    use clap::{Args as _, FromArgMatches as _};

    fn plan(line: &str) -> Result<ChopPlan, String> {
        let words = std::iter::once("chop").chain(line.split_whitespace());
        let matches = ChopOptions::augment_args(clap::Command::new("chop")).try_get_matches_from(words);
        let matches = matches.map_err(|error| error.to_string())?;
        let options = ChopOptions::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        options.plan().map_err(|error| error.message().to_owned())
    }

    #[test]
    fn defaults_are_those_of_the_figure() {
        let plan = plan("").expect("defaults");
        assert_eq!((plan.ids, plan.distilled, plan.batch, plan.size), (IdDraw::Uniform, 1_000, 65_536, 8));
        assert_eq!((plan.clients, plan.id_space, plan.repeat), (1_000_000, 1_000_000, 3));
        assert_eq!((plan.span.as_secs(), plan.warmup.as_secs(), plan.ablations), (20, 5, true));
    }

    #[test]
    fn ids_beyond_the_clients_come_in_whole_chunks() {
        let plan = plan("--clients 1000 --id-space 5000 --batch 100 --ids cohort:5 --distilled 0.95")
            .expect("sound");
        assert_eq!((plan.clients, plan.id_space), (1_024, 5_120));
        assert_eq!((plan.ids, plan.distilled, plan.batches().stragglers()), (IdDraw::Cohort(5), 950, 5));
    }

    #[test]
    fn what_is_not_built_or_means_nothing_is_refused_with_the_reason() {
        for part in ["server", "broker", "real", "e2e", "linerate", "partial", "apps", "faults", "all"] {
            let why = plan(&format!("--part {part}")).expect_err(part);
            assert!(why.contains("only --part auth is built"), "{part}: {why}");
        }
        for (line, reason) in [
            ("--for 0s", "measures nothing"),
            ("--clients 100 --batch 101", "above the number of ids"),
            ("--ids odd", "one of uniform"),
            ("--distilled 1.5", "not a share"),
            ("--part figure3", "invalid value"),
            ("--size 0", "0 is not in"),
        ] {
            let why = plan(line).map(|_| ()).expect_err(line);
            assert!(why.contains(reason), "{line}: {why}");
        }
    }

    #[test]
    fn shares_are_read_in_thousandths() {
        let read = |text| share(text).ok();
        assert_eq!(
            [read("1"), read("0"), read("1.0"), read("0.95"), read("0.001")],
            [1_000, 0, 1_000, 950, 1].map(Some)
        );
        for wrong in ["", "2", "1.001", "-0", "0.", ".5", "0.0001", "1e0", "+1", "0.x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
