//! The parts under a load broker, and those that run others.

use super::super::Durability;
use super::given::{PARTS, read};
use super::{ChopOptions, POOL, Times};
use crate::bench::{App, ChildPlan, LoadPart, LoadPlan, Part};
use crate::session::usage;
use crate::verbs::init::Ordering;
use clap::Args;
use synod_config::SynError;
use synod_load::chop::IdDraw;

/// Leaves out other ways.
const SHORT: &str = "--no-ablations";
/// Batches on their way, unless said otherwise.
const WINDOW: u16 = 8;
/// Ids of the paper's directory.
const PAPER: u32 = 257_000_000;
/// Clients that servers know at most: a directory of 2^28 bytes.
const CLIENTS_MAX: u32 = 3_355_443;

/// Options of the parts under a load broker.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of --part e2e, linerate, partial, apps and faults")]
pub(super) struct LoadOptions {
    /// Messages per second, due at times fixed in advance; without it the loop is closed.
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// What orders: hotstuff under four servers, or with --part e2e ubft under three, with three memory nodes.
    #[arg(long, value_enum, default_value = "hotstuff", value_name = "ORDERING")]
    ordering: Ordering,
    /// What the servers execute.
    #[arg(long, value_enum, default_value = "payments")]
    app: App,
    /// Whether promises of servers are synced to disk, written, or only remembered, as in the paper.
    #[arg(long, value_enum, default_value = "volatile")]
    durability: Durability,
    /// With --part faults: MiB of delivered bodies that a server keeps for one that sleeps.
    #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = clap::value_parser!(u32).range(128..=1_048_576))]
    retain: u32,
}

impl ChopOptions {
    pub(super) fn load(self) -> Result<LoadPlan, SynError> {
        let part = match self.part {
            Part::Linerate => LoadPart::Linerate,
            Part::Partial => LoadPart::Partial,
            Part::Apps => LoadPart::Apps,
            Part::Faults => LoadPart::Faults,
            _ => LoadPart::E2e,
        };
        let Times { span, warmup, repeat } = self.times()?;
        let clients = self.clients.unwrap_or(1_000_000);
        let id_space = match part {
            LoadPart::Linerate => self.id_space.unwrap_or(PAPER),
            _ => self.id_space.unwrap_or(clients),
        };
        let plan = LoadPlan {
            part,
            ordering: self.load.ordering,
            ids: self.ids,
            distilled: self.distilled,
            batch: self.batch,
            size: self.size,
            clients,
            id_space,
            pool: usize::from(self.pool.unwrap_or(POOL)),
            window: u32::from(self.window.unwrap_or(WINDOW)),
            rate: self.load.rate,
            app: self.load.app,
            sync: self.load.durability.sync(),
            retain: u64::from(self.load.retain) << 20,
            span,
            warmup,
            repeat,
            ablations: !self.no_ablations,
            huge: !self.no_huge_pages,
            planted: self.i_am_a_test,
            out: self.out,
        };
        check(&plan)?;
        Ok(plan)
    }

    /// The parts that are run, each in a process of its own, with the options that were given and go with it.
    ///
    /// # Errors
    /// What one of them refuses, before any of them runs.
    pub(super) fn children(self) -> Result<ChildPlan, SynError> {
        let Times { span, warmup, repeat } = self.times()?;
        let times = [
            format!("--for={}ms", span.as_millis()),
            format!("--warmup={}ms", warmup.as_millis()),
            format!("--repeat={repeat}"),
        ];
        let (part, parts) = match self.part {
            Part::Broker => ("broker", &[Part::Real][..]),
            _ => ("all", &PARTS[..]),
        };
        let mut children = Vec::new();
        for child in parts {
            let mut words = times.to_vec();
            words.extend(self.given.words(*child));
            // The other durability stands beside the first one there.
            let is_short = part == "all" && *child != Part::E2e;
            if is_short && !words.contains(&SHORT.to_owned()) {
                words.push(SHORT.to_owned());
            }
            let name = child.name();
            let sound = read(name, &words).and_then(|options| options.chosen().map(drop));
            sound.map_err(|error| error.because(format!("part {name} of --part {part}")))?;
            children.push((name, words));
        }
        Ok(ChildPlan { part, children, out: self.out })
    }
}

/// Refuses what means nothing together.
fn check(plan: &LoadPlan) -> Result<(), SynError> {
    let part = plan.part;
    if plan.clients > CLIENTS_MAX {
        return Err(usage("servers read a directory of at most 3355443 clients"));
    }
    if plan.batch > plan.clients || plan.batch > plan.id_space {
        return Err(usage("--batch is above the number of ids, and no client is in a batch twice"));
    }
    if plan.id_space != plan.clients && part != LoadPart::Linerate {
        return Err(usage(
            "--id-space goes with --part linerate: elsewhere servers know every client's keys",
        ));
    }
    let replayed = plan.pool > 0 && plan.distilled == 1_000;
    if matches!(plan.ids, IdDraw::Cohort(_)) && (!replayed || part == LoadPart::Partial) {
        return Err(usage("cohorts are replayed from a pool of batches that are fully distilled"));
    }
    if part == LoadPart::Partial && plan.distilled != 1_000 {
        return Err(usage("--part partial measures every share itself: no --distilled"));
    }
    if part == LoadPart::Apps && plan.size != 8 {
        return Err(usage("--part apps sends operations, which have 8 bytes"));
    }
    if plan.rate.is_some() && !matches!(part, LoadPart::E2e | LoadPart::Faults) {
        return Err(usage("--rate goes with --part e2e and faults: the others are closed loops"));
    }
    Ok(())
}
