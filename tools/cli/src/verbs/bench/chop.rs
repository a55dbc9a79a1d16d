//! The options of `synod bench chop`.

mod given;
mod load;

use super::duration;
use crate::bench::{ChildPlan, ChopPlan, Enrol, LoadPlan, Part, RealPlan, ServerPart, WINDOWS_MIN};
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
/// Batches made beforehand.
const POOL: u16 = 16;

/// Options of `chop` alone.
#[derive(Debug, Args)]
pub(super) struct ChopOptions {
    // Before all others, which are taken out as they are read.
    #[command(flatten)]
    given: given::Given,
    /// What is measured. auth: a witness alone; server: one server's work beside a load broker, in one process; broker: what
    /// the broker of real costs; real: clients that sign, a broker, servers; e2e, linerate, partial, apps, faults: servers as
    /// processes under a broker of generated batches, their speed, bytes, batches that are distilled in part, applications,
    /// and faults; all: each of them, short.
    #[arg(long, value_enum, default_value = "auth", hide_possible_values = true)]
    part: Part,
    /// Which ids a batch has: uniform, cohort[:PERCENT exchanged from batch to batch] or block.
    #[arg(long, default_value = "uniform", value_name = "DRAW")]
    ids: IdDraw,
    /// Share of messages under the multi-signature, 0 to 1; the others carry signatures of their own, as all do with --part
    /// server --distilled 0.
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
    /// Batches made before the measured time, 16 unless said otherwise; they are checked or sent in turn. Under a load broker 0
    /// makes each anew. Those of --part server that are not fully distilled are sent once each; enough for the time are made,
    /// and the clock stops when none are left.
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=1_024))]
    pool: Option<u16>,
    /// With --part server: of how many batches the server witnesses how many.
    #[arg(long, default_value = "26/64", value_name = "W/N", value_parser = witnessed)]
    share: (u32, u32),
    /// Batches on their way, at most as many as a store works on at a time: 16 with --part server, 8 under a load broker.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=16))]
    window: Option<u16>,
    /// Time measured, in each repetition: 20s, 2s with --part all.
    #[arg(long = "for", value_name = "SPAN", value_parser = duration)]
    span: Option<Duration>,
    /// Time before measuring: 5s, 1s with --part all.
    #[arg(long, value_parser = duration)]
    warmup: Option<Duration>,
    /// Repetitions; the result is the median, and the spread stands beside it. 3, and 1 with --part all.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: Option<u32>,
    /// Leaves out other ways to do the same.
    #[arg(long)]
    no_ablations: bool,
    /// Does not start this process anew with huge pages; servers do without them as well.
    #[arg(long)]
    no_huge_pages: bool,
    /// Tells the audit of what never was: of a message, or of a forgery that is none.
    #[arg(long, hide = true)]
    i_am_a_test: bool,
    /// Writes the result to this file as well.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    load: load::LoadOptions,
    #[command(flatten)]
    real: RealOptions,
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
    Load(LoadPlan),
    Children(ChildPlan),
}

/// How long and how often.
struct Times {
    span: Duration,
    warmup: Duration,
    repeat: u32,
}

impl ChopOptions {
    pub(super) fn chosen(self) -> Result<Chosen, SynError> {
        self.given.check(self.part)?;
        match self.part {
            Part::Real => self.real().map(Chosen::Real),
            Part::Auth | Part::Server => self.plan().map(Chosen::Auth),
            Part::Broker | Part::All => self.children().map(Chosen::Children),
            Part::E2e | Part::Linerate | Part::Partial | Part::Apps | Part::Faults => {
                self.load().map(Chosen::Load)
            }
        }
    }

    fn times(&self) -> Result<Times, SynError> {
        let short = self.part == Part::All;
        let or = |given: Option<Duration>, long, brief| {
            given.unwrap_or(Duration::from_secs(if short { brief } else { long }))
        };
        let span = or(self.span, 20, 2);
        if span.is_zero() && self.real.messages.is_none() {
            return Err(usage("--for 0 measures nothing"));
        }
        let repeat = self.repeat.unwrap_or(if short { 1 } else { 3 });
        Ok(Times { span, warmup: or(self.warmup, 5, 1), repeat })
    }

    fn real(self) -> Result<RealPlan, SynError> {
        let Times { span, warmup, repeat } = self.times()?;
        let RealOptions {
            silent, invalid, sockets, honest, brokers, pace, enrol, messages, kill_broker, ..
        } = self.real;
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
            span,
            warmup,
            repeat,
            ablations: !self.no_ablations,
            receipts: self.real.receipts,
            planted: self.i_am_a_test,
            out: self.out,
        })
    }

    fn plan(self) -> Result<ChopPlan, SynError> {
        let Times { span, warmup, repeat } = self.times()?;
        let window = usize::from(self.window.unwrap_or(16));
        let server = (self.part == Part::Server).then_some(ServerPart { share: self.share, window });
        if server.is_some() && self.id_space.is_some_and(|ids| ids != self.clients.unwrap_or(1_000_000)) {
            return Err(usage(
                "--part server has a directory, whose ids are distinct clients: no --id-space",
            ));
        }
        if self.pool == Some(0) {
            return Err(usage("--pool 0 goes with a load broker: here batches are made beforehand"));
        }
        let clients = self.clients.unwrap_or(1_000_000);
        let (mut clients, mut id_space) = (clients, self.id_space.unwrap_or(clients));
        if id_space > clients {
            (clients, id_space) = (clients.next_multiple_of(CHUNK), id_space.next_multiple_of(CHUNK));
        }
        if self.batch > id_space {
            return Err(usage("--batch is above the number of ids, and no client is in a batch twice"));
        }
        let mut plan = ChopPlan {
            ids: self.ids,
            distilled: self.distilled,
            batch: self.batch,
            size: self.size,
            clients,
            id_space,
            pool: usize::from(self.pool.unwrap_or(POOL)),
            span,
            warmup,
            repeat,
            server,
            ablations: !self.no_ablations,
            huge: !self.no_huge_pages,
            given: self.given.words(self.part),
            planted: self.i_am_a_test,
            out: self.out,
        };
        if server.is_some() && plan.batches().stragglers() > 0 {
            plan.pool = self.pool.map_or_else(|| plan.series(window), usize::from);
            if plan.pool < WINDOWS_MIN * window {
                return Err(usage(
                    "stragglers are sent once: --pool is four times --window at least, or left out",
                ));
            }
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests;
