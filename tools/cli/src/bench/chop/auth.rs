//! `--part auth`: how many batches a witness authenticates per second on one core.
//!
//! Keys and batches are made beforehand; then the jobs of a store check one batch after another, on this thread. The
//! stages are measured apart, by the same parts with a clock between them, and so is every other way to do a stage.

use super::ChopPlan;
use super::audit::Audit;
use super::report::report;
use crate::exit::{Done, bug};
use crate::session::{Session, usage as wrong_usage};
use std::time::{Duration, Instant};
use synod_chopchop::batch::Sealed;
use synod_chopchop::config::Cluster;
use synod_config::{Exit, SynError};
use synod_crypto::Seed;
use synod_load::chop::{Adding, BatchPlan, Batches, KeyFamily, Members, Stages, Unfit, Witness, cluster};
use synod_load::usage;

/// The family of every run: figures are of the same keys.
pub(super) const FAMILY: [u8; 32] = [17; 32];
/// Batches of one multi-pairing.
const TOGETHER: [usize; 3] = [2, 4, 16];

/// Batches in a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    pub(super) batches: u64,
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
}

impl Rate {
    pub(super) fn per_s(&self) -> f64 {
        per(self.batches, self.wall)
    }

    /// What a core would do that did nothing else meanwhile.
    pub(super) fn per_cpu_s(&self) -> f64 {
        per(self.batches, self.cpu)
    }
}

fn per(batches: u64, time: Duration) -> f64 {
    // Counts of a run stay far below 2^53.
    let batches: f64 = format!("{batches}").parse().unwrap_or(f64::NAN);
    if time.is_zero() { 0.0 } else { batches / time.as_secs_f64() }
}

/// Another way to do the same.
pub(super) struct Path {
    pub(super) name: String,
    pub(super) rate: Rate,
    /// Where the way was taken apart.
    pub(super) stages: Option<Stages>,
}

/// All that a run gave.
pub(super) struct Findings {
    /// One for each repetition.
    pub(super) rates: Vec<Rate>,
    pub(super) stages: Stages,
    pub(super) paths: Vec<Path>,
    pub(super) audit: Audit,
    /// Bytes of all batches of the pool, headers with them.
    pub(super) bytes: u64,
    pub(super) messages: u64,
    pub(super) keys_took: Duration,
    pub(super) batches_took: Duration,
    /// What a process without huge pages gives.
    pub(super) plain: Option<serde_json::Value>,
}

/// Runs `plan` and prints its result; without figures and with exit code 8 if the audit fails.
///
/// # Errors
/// A plan that means no batch; SYN-6009 if the audit fails.
pub(crate) fn run(session: &Session, plan: &ChopPlan) -> Done {
    if let Some(part) = plan.server {
        return super::server::run(session, plan, part);
    }
    session.watched("measuring without huge pages");
    let plain = super::children::without_huge_pages("auth", plan)?;
    session.watched("making keys");
    let (cluster, begin) = (cluster(), Instant::now());
    let members = KeyFamily::new(&Seed::new(FAMILY)).members(plan.clients, plan.id_space);
    let members = members.ok_or_else(|| bug("bench", &"a directory that cuts a chunk"))?;
    let mut bench = Auth { session, plan, cluster: &cluster, members: &members, audit: Audit::default() };
    let findings = Findings { plain, ..bench.measure(begin.elapsed())? };
    let report = report(plan, &findings);
    if let Some(file) = &plan.out {
        std::fs::write(file, report.to_json()).map_err(|e| crate::cluster::unwritable(file, &e))?;
    }
    session.output.print(&report)?;
    Ok(Exit::Success)
}

/// A witness under load.
struct Auth<'a> {
    session: &'a Session,
    plan: &'a ChopPlan,
    cluster: &'a Cluster,
    members: &'a Members,
    audit: Audit,
}

impl Auth<'_> {
    fn measure(&mut self, keys_took: Duration) -> Result<Findings, SynError> {
        let plan = self.plan;
        self.session.watched("making batches");
        let begin = Instant::now();
        let pool = self.pool(plan.batches(), plan.pool)?;
        let batches_took = begin.elapsed();
        self.session.watched("auditing");
        let witness = Witness::new(self.cluster, self.members);
        self.audit = Audit::of(&witness, self.cluster, &pool, plan.planted);
        // A forged batch that passes makes every figure worthless: none is measured.
        self.audit.passed()?;
        self.session.watched("warming up");
        self.alone(&witness, &pool, plan.warmup);
        let mut rates = Vec::new();
        for repetition in 1..=plan.repeat {
            self.session.watched(&format!("measuring, {repetition} of {}", plan.repeat));
            rates.push(self.alone(&witness, &pool, plan.span));
        }
        self.session.watched("measuring the stages");
        let stages = self.apart(&witness, &pool, Adding::Servers).1;
        let paths = if plan.ablations { self.paths(&witness, &pool)? } else { Vec::new() };
        self.audit.passed()?;
        let bytes = pool.iter().map(|sealed| 192 + u64::from(sealed.header.body_len)).sum();
        let messages = pool.iter().map(|sealed| u64::from(sealed.header.count)).sum();
        let audit = self.audit.clone();
        let plain = None;
        Ok(Findings { rates, stages, paths, audit, bytes, messages, keys_took, batches_took, plain })
    }

    fn pool(&self, plan: BatchPlan, size: usize) -> Result<Vec<Sealed>, SynError> {
        let unfit = |why: Unfit| wrong_usage(&why.to_string());
        let mut batches = Batches::new(self.members, self.cluster, plan).map_err(unfit)?;
        (0..size).map(|_| batches.draw().map_err(unfit)).collect()
    }

    /// The jobs of a store, one batch at a time.
    fn alone(&mut self, witness: &Witness<'_>, pool: &[Sealed], span: Duration) -> Rate {
        let audit = &mut self.audit;
        repeated(span, pool.chunks(1), |batches| {
            batches.iter().for_each(|batch| audit.count(witness.check(batch).is_ok()));
        })
    }

    /// The parts of these jobs, with a clock between them.
    fn apart(&mut self, witness: &Witness<'_>, pool: &[Sealed], adding: Adding) -> (Rate, Stages) {
        let (audit, mut stages) = (&mut self.audit, Stages::default());
        let rate = repeated(self.plan.aside(), pool.chunks(1), |batches| {
            let verdicts = batches.iter().map(|batch| witness.timed(batch, adding, &mut stages));
            verdicts.for_each(|verdict| audit.count(verdict.is_ok()));
        });
        (rate, stages)
    }

    /// Other ways to do the same, each against the same batches but the last, which has no multi-signature.
    fn paths(&mut self, witness: &Witness<'_>, pool: &[Sealed]) -> Result<Vec<Path>, SynError> {
        self.session.watched("measuring other ways");
        let mut paths = Vec::new();
        for (name, adding) in [
            ("keys added as servers do", Adding::Servers),
            ("keys added by the curve library in batches", Adding::Batches),
            ("keys added one by one (reference)", Adding::OneByOne),
            ("keys added to the sum of the batch before", Adding::Difference),
        ] {
            let (rate, stages) = self.apart(witness, pool, adding);
            paths.push(Path { name: name.to_owned(), rate, stages: Some(stages) });
        }
        for together in TOGETHER.into_iter().filter(|together| *together <= pool.len()) {
            let audit = &mut self.audit;
            let rate = repeated(self.plan.aside(), pool.chunks_exact(together), |batches| {
                witness.check_together(batches).iter().for_each(|verdict| audit.count(verdict.is_ok()));
            });
            paths.push(Path { name: format!("{together} batches in one multi-pairing"), rate, stages: None });
        }
        let undistilled = self.pool(self.plan.undistilled(), 1)?;
        let rate = self.alone(witness, &undistilled, self.plan.aside());
        paths.push(Path { name: "no multi-signature: Ed25519 batches".to_owned(), rate, stages: None });
        Ok(paths)
    }
}

/// Goes round `chunks` until `span` has passed, at least once.
fn repeated<'p>(
    span: Duration,
    chunks: impl Iterator<Item = &'p [Sealed]> + Clone,
    mut check: impl FnMut(&[Sealed]),
) -> Rate {
    let cpu = || usage(std::process::id()).map(|used| used.cpu).unwrap_or_default();
    let (mut batches, before, begin) = (0_u64, cpu(), Instant::now());
    for chunk in chunks.cycle() {
        check(chunk);
        batches += u64::try_from(chunk.len()).unwrap_or(0);
        if begin.elapsed() >= span {
            break;
        }
    }
    Rate { batches, wall: begin.elapsed(), cpu: cpu().saturating_sub(before) }
}
