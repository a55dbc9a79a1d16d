//! The options of `synod bench chop`.

use super::duration;
use crate::bench::{ChopPlan, Enrol, Part, RealPlan, ServerPart};
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
    /// What is measured. Built so far: auth, a witness alone; server, one server's work beside a load broker, in one process;
    /// real, clients that sign, brokers and servers.
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
    /// Clients with keys of their own: 1000000 by default, 131072 with --part real.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    clients: Option<u32>,
    /// Ids in the directory, the number of clients unless said otherwise. More of them repeat the clients' keys, and
    /// both numbers are rounded up to multiples of 512.
    #[arg(long, value_name = "IDS", value_parser = clap::value_parser!(u32).range(1..=i64::from(IDS_MAX)))]
    id_space: Option<u32>,
    /// Batches made before the measured time; they are checked in turn.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pool: u16,
    /// With --part server: of how many batches the server witnesses how many.
    #[arg(long, default_value = "26/64", value_name = "W/N", value_parser = witnessed)]
    share: (u32, u32),
    /// With --part server: batches on their way, at most as many as a store works on at a time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=16))]
    window: u16,
    #[command(flatten)]
    real: RealOptions,
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

/// `W/N`, W batches of N.
fn witnessed(text: &str) -> Result<(u32, u32), String> {
    let wrong = || "not a share such as 26/64".to_owned();
    let (some, all) = text.split_once('/').ok_or_else(wrong)?;
    let share = (some.parse().map_err(|_| wrong())?, all.parse().map_err(|_| wrong())?);
    if share.0 <= share.1 && (1..=1_000).contains(&share.1) { Ok(share) } else { Err(wrong()) }
}

/// Options of the part with real clients.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of --part real")]
struct RealOptions {
    /// Clients in a hundred that never multi-sign: their messages need signatures of their own.
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    silent: f64,
    /// Clients in a hundred that sign what does not hold.
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    invalid: f64,
    /// Sockets of the load client; each client has a link of its own through one of them.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=64))]
    sockets: u32,
    /// Real clients beside the load client, which verify and give the latency.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(0..=256))]
    honest: u32,
    /// Brokers; 2 with --kill-broker.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4))]
    brokers: Option<u16>,
    /// Messages that clients begin per second, all together, at most.
    #[arg(long, default_value_t = 131_072, value_parser = clap::value_parser!(u32).range(200..))]
    pace: u32,
    /// How clients come into the directory.
    #[arg(long, value_enum, default_value = "genesis")]
    enrol: Enrol,
    /// So many messages of each client, however long they take, instead of --for.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    messages: Option<u32>,
    /// Kills a broker in the middle of the first batch; needs --messages.
    #[arg(long, requires = "messages")]
    kill_broker: bool,
    /// Writes the receipt of every message to this file, one per line, for `client verify`, and the genesis beside it.
    #[arg(long, value_name = "FILE.jsonl")]
    receipts: Option<PathBuf>,
}

/// Thousandths of a share in percent.
fn thousandths(percent: f64, option: &str) -> Result<u32, SynError> {
    let shown = format!("{:.0}", percent * 10.0);
    let share = shown.parse().ok().filter(|share| *share <= 1_000);
    share.ok_or_else(|| usage(&format!("{option} is a share of clients, 0 to 100 percent")))
}

/// What is to be run.
#[derive(Debug)]
pub(super) enum Chosen {
    Auth(ChopPlan),
    Real(RealPlan),
}

impl ChopOptions {
    pub(super) fn chosen(self) -> Result<Chosen, SynError> {
        match self.part {
            Part::Real => self.real().map(Chosen::Real),
            _ => self.plan().map(Chosen::Auth),
        }
    }

    fn real(self) -> Result<RealPlan, SynError> {
        let RealOptions {
            silent, invalid, sockets, honest, brokers, pace, enrol, messages, kill_broker, ..
        } = self.real;
        if self.span.is_zero() && messages.is_none() {
            return Err(usage("--for 0 measures nothing"));
        }
        if self.size != 8 {
            return Err(usage("--part real sends payments, which have 8 bytes"));
        }
        let (silent, invalid) = (thousandths(silent, "--silent")?, thousandths(invalid, "--invalid")?);
        if silent + invalid > 1_000 {
            return Err(usage("--silent and --invalid are above 100 percent together"));
        }
        let brokers = brokers.unwrap_or(if kill_broker { 2 } else { 1 });
        if kill_broker && brokers < 2 {
            return Err(usage("--kill-broker leaves no broker: give --brokers 2"));
        }
        Ok(RealPlan {
            clients: self.clients.unwrap_or(131_072),
            honest,
            silent,
            invalid,
            sockets,
            rate: pace,
            brokers,
            enrol,
            messages,
            kill: kill_broker,
            span: self.span,
            warmup: self.warmup,
            repeat: self.repeat,
            receipts: self.real.receipts,
            out: self.out,
        })
    }

    fn plan(self) -> Result<ChopPlan, SynError> {
        let server = match self.part {
            Part::Auth => None,
            Part::Server => Some(ServerPart { share: self.share, window: usize::from(self.window) }),
            _ => {
                return Err(usage(
                    "of the parts only auth, server and real are built: the others need a load broker as a process",
                ));
            }
        };
        if server.is_some() && self.distilled != 1_000 {
            return Err(usage("--part server replays batches that are fully distilled"));
        }
        if server.is_some() && self.id_space.is_some_and(|ids| ids != self.clients.unwrap_or(1_000_000)) {
            return Err(usage(
                "--part server has a directory, whose ids are distinct clients: no --id-space",
            ));
        }
        if self.span.is_zero() {
            return Err(usage("--for 0 measures nothing"));
        }
        let clients = self.clients.unwrap_or(1_000_000);
        let (mut clients, mut id_space) = (clients, self.id_space.unwrap_or(clients));
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
            server,
            ablations: !self.no_ablations,
            planted: self.i_am_a_test,
            out: self.out,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ChopOptions, IdDraw, ServerPart, share};
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
        for part in ["broker", "e2e", "linerate", "partial", "apps", "faults", "all"] {
            let why = plan(&format!("--part {part}")).expect_err(part);
            assert!(why.contains("only auth, server and real are built"), "{part}: {why}");
        }
        for (line, reason) in [
            ("--for 0s", "measures nothing"),
            ("--clients 100 --batch 101", "above the number of ids"),
            ("--ids odd", "one of uniform"),
            ("--distilled 1.5", "not a share"),
            ("--part figure3", "invalid value"),
            ("--part server --distilled 0.9", "fully distilled"),
            ("--part server --id-space 2000000", "no --id-space"),
            ("--part server --share 65/64", "not a share such as 26/64"),
            ("--size 0", "0 is not in"),
        ] {
            let why = plan(line).map(|_| ()).expect_err(line);
            assert!(why.contains(reason), "{line}: {why}");
        }
    }

    #[test]
    fn the_part_with_real_clients_reads_its_own_options() {
        let real = |line: &str| {
            let words = ["chop", "--part", "real"].into_iter().chain(line.split_whitespace());
            let matches = ChopOptions::augment_args(clap::Command::new("chop")).try_get_matches_from(words);
            let matches = matches.map_err(|error| error.to_string())?;
            let options = ChopOptions::from_arg_matches(&matches).map_err(|error| error.to_string())?;
            options.real().map_err(|error| error.message().to_owned())
        };
        let plain = real("").expect("defaults");
        assert_eq!((plain.clients, plain.brokers, plain.honest, plain.sockets), (131_072, 1, 16, 16));
        assert_eq!((plain.silent, plain.invalid, plain.messages), (0, 0, None));
        let hurt = real("--silent 5 --invalid 0.5 --messages 3 --kill-broker").expect("sound");
        assert_eq!((hurt.silent, hurt.invalid, hurt.brokers, hurt.kill), (50, 5, 2, true));
        for (line, reason) in [
            ("--silent 101", "0 to 100 percent"),
            ("--silent 60 --invalid 41", "above 100 percent"),
            ("--kill-broker", "--messages"),
            ("--kill-broker --messages 1 --brokers 1", "leaves no broker"),
            ("--size 9", "8 bytes"),
            ("--for 0s", "measures nothing"),
        ] {
            let why = real(line).map(|_| ()).expect_err(line);
            assert!(why.contains(reason), "{line}: {why}");
        }
    }

    #[test]
    fn a_server_witnesses_the_share_of_the_paper() {
        let server = |line: &str| plan(line).expect("sound").server;
        assert_eq!(server("--part server"), Some(ServerPart { share: (26, 64), window: 16 }));
        assert_eq!(server("--part server --share 0/1 --window 8").map(|part| part.share), Some((0, 1)));
        assert_eq!(server("--part auth"), None);
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
