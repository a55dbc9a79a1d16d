//! All replicas of a plan, each on its thread, and the audit of what they did.

use super::bank::Bank;
use super::seat::{Left, Phase, Seat, Shown};
use crate::usage::cpu_of_threads;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::{Duration, Instant};
use synod_ledger::Total;

/// How long nothing may settle.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub struct Paid {
    /// Payments that settled at their representative while the clock ran.
    pub payments: u64,
    /// Of their batches f + 1 replicas said that they settled.
    pub settled: u64,
    /// A quorum did.
    pub stable: u64,
    /// The clock.
    pub wall: Duration,
    /// Processor time meanwhile, of each replica with its customers.
    pub cpu: Vec<Duration>,
    /// Bytes sent meanwhile.
    pub bytes: u64,
    /// Orders that were taken in the whole run.
    pub accepted: u64,
    /// Of these, those that had not settled at every replica at the end.
    pub missing: u64,
    /// Orders that found no place and were given up.
    pub busy: u64,
    /// Orders refused for another reason, peers blamed, frames that cannot be read, evidence of lies: none in a sound run.
    pub faults: u64,
    /// Whether all books are equal, and as much was paid as was received.
    pub conserved: bool,
}

impl Paid {
    /// Whether every payment settled once, everywhere, and no unit was made or lost.
    #[must_use]
    pub const fn sound(&self) -> bool {
        self.accepted > 0 && self.missing == 0 && self.faults == 0 && self.conserved
    }
}

/// What is shown at one time.
struct Sight {
    at: Instant,
    cpu: Vec<Duration>,
    counts: [u64; 4],
}

/// Lets the customers of a bank pay each other, and measures it; what went wrong in words if a replica cannot be opened or nothing
/// settles any more.
///
/// # Errors
/// The reason.
pub fn run(bank: &Bank) -> Result<Paid, String> {
    let nodes = bank.plan.nodes;
    let shown: Vec<Shown> = (0..nodes).map(|_| Shown::default()).collect();
    let names: Vec<String> = (0..nodes).map(|id| format!("pay-{id}")).collect();
    let phase = AtomicU8::new(Phase::Fund as u8);
    let (links, inboxes): (Vec<_>, Vec<_>) = (0..nodes).map(|_| channel()).unzip();
    std::thread::scope(|scope| {
        let mut seats = Vec::new();
        for (((id, inbox), shown), name) in (0..nodes).zip(inboxes).zip(&shown).zip(&names) {
            let seat = Seat::new(bank, id, (links.clone(), inbox), shown).map_err(|why| why.0)?;
            let run = || seat.run(&phase);
            let spawned = Builder::new().name(name.clone()).spawn_scoped(scope, run);
            seats.push(spawned.map_err(|why| why.to_string())?);
        }
        let measured = measure(bank, &shown, &names, &phase);
        phase.store(Phase::Stop as u8, Ordering::Release);
        let left: Result<Vec<Left>, _> = seats.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        let left = left.map_err(|_| "a replica stopped".to_owned())?;
        Ok(audited(measured?, &left))
    })
}

fn sum(shown: &[Shown], of: fn(&Shown) -> &AtomicU64) -> u64 {
    shown.iter().map(|one| of(one).load(Ordering::Acquire)).sum()
}

fn sight(shown: &[Shown], names: &[String]) -> Sight {
    let counts: [fn(&Shown) -> &AtomicU64; 4] =
        [|one| &one.own, |one| &one.settled, |one| &one.stable, |one| &one.bytes];
    Sight { at: Instant::now(), cpu: cpu_of_threads(names), counts: counts.map(|of| sum(shown, of)) }
}

/// Funds, warms up, measures and waits for the end.
fn measure(bank: &Bank, shown: &[Shown], names: &[String], phase: &AtomicU8) -> Result<Paid, String> {
    let funding: u64 = (0..bank.plan.nodes).map(|id| bank.funding(id).len() as u64).sum();
    everywhere(shown, funding)?;
    phase.store(Phase::Pay as u8, Ordering::Release);
    std::thread::sleep(bank.plan.warmup);
    let before = sight(shown, names);
    std::thread::sleep(bank.plan.span);
    let after = sight(shown, names);
    phase.store(Phase::Drain as u8, Ordering::Release);
    while shown.iter().any(|one| one.phase.load(Ordering::Acquire) != Phase::Drain as u8) {
        std::thread::sleep(LOOK);
    }
    let accepted = sum(shown, |one| &one.accepted);
    everywhere(shown, accepted)?;
    let [payments, settled, stable, bytes] =
        std::array::from_fn(|at| after.counts[at].saturating_sub(before.counts[at]));
    let cpu = after.cpu.iter().zip(&before.cpu).map(|(after, before)| after.saturating_sub(*before));
    let least = shown.iter().map(|one| one.all.load(Ordering::Acquire)).min().unwrap_or(0);
    Ok(Paid {
        payments,
        settled,
        stable,
        bytes,
        wall: after.at.duration_since(before.at),
        cpu: cpu.collect(),
        accepted,
        missing: accepted.abs_diff(least),
        ..Paid::default()
    })
}

/// Waits until so many entries have settled at every replica.
fn everywhere(shown: &[Shown], count: u64) -> Result<(), String> {
    let (mut last, mut moved) = (0, Instant::now());
    loop {
        let settled = shown.iter().map(|one| one.all.load(Ordering::Acquire));
        let (least, all) = (settled.clone().min().unwrap_or(0), settled.sum());
        if least >= count {
            return Ok(());
        }
        if all > last {
            (last, moved) = (all, Instant::now());
        }
        if moved.elapsed() > PATIENCE {
            return Err(format!(
                "nothing settled for {PATIENCE:?}: {least} of {count} entries at one replica"
            ));
        }
        std::thread::sleep(LOOK);
    }
}

/// Compares the books at the end.
fn audited(paid: Paid, left: &[Left]) -> Paid {
    let equal = left.windows(2).all(|two| two[0].accounts == two[1].accounts);
    let total = |of: fn(&synod_ledger::Account) -> Total| {
        let accounts = left.first().map(|one| one.accounts.as_slice()).unwrap_or_default();
        accounts.iter().try_fold(Total::ZERO, |sum, (_, account)| sum.checked_add(of(account)))
    };
    let (credits, debits) = (total(|one| one.credits_posted()), total(|one| one.debits_posted()));
    Paid {
        conserved: equal && credits.is_some() && credits == debits,
        busy: left.iter().map(|one| one.busy).sum(),
        faults: left.iter().map(|one| one.faults).sum(),
        ..paid
    }
}

#[cfg(test)]
mod tests {
    use super::{Bank, run};
    use crate::pay::{PayPlan, reference};
    use std::time::Duration;

    #[test]
    fn every_payment_settles_once_at_every_replica_and_no_unit_is_made_or_lost() {
        let (warmup, span) = (Duration::from_millis(20), Duration::from_millis(200));
        let plan = PayPlan { nodes: 4, accounts: 400, batch: 64, inflight: 256, warmup, span };
        let bank = Bank::new(plan).expect("four members");
        let paid = run(&bank).expect("settles");
        assert!(paid.sound(), "{paid:?}");
        assert!(paid.payments > 0 && paid.stable > 0 && paid.bytes > 0, "{paid:?}");
        assert!(reference(&bank, 1_000).is_some_and(|(paid, wall)| paid == 1_000 && !wall.is_zero()));
    }
}
