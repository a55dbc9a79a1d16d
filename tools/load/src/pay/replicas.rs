//! All replicas of a plan, each on its thread, and the audit of what they did.

use super::bank::Bank;
use super::bank::Ownership;
use super::owners::{AHEAD, Owners};
use super::seat::{Left, Phase, Seat, Shown};
use crate::usage::cpu_of_threads;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{channel, sync_channel};
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
    /// Payments that were certified meanwhile: no other can have their place.
    pub certified: u64,
    /// Payments of which f + 1 replicas had said that they settled.
    pub settled: u64,
    /// Payments of which a quorum had.
    pub stable: u64,
    /// The clock.
    pub wall: Duration,
    /// Processor time meanwhile, of each replica with its customers.
    pub cpu: Vec<Duration>,
    /// Processor time meanwhile of customers who sign: the load's, and no replica's.
    pub owners: Duration,
    /// Bytes sent meanwhile.
    pub bytes: u64,
    /// Signatures that replicas made meanwhile.
    pub signed: u64,
    /// Signatures that they checked meanwhile.
    pub checked: u64,
    /// Orders that were taken while the clock ran.
    pub accepted: u64,
    /// Orders that found no place meanwhile and were given up.
    pub busy: u64,
    /// Orders that were taken in the whole run, those that hand out money among them.
    pub taken: u64,
    /// Entries that settled at the replica with the fewest, at the end.
    pub least: u64,
    /// Entries that settled at the replica with the most.
    pub most: u64,
    /// Orders refused for another reason, peers blamed, frames that cannot be read, evidence of lies: none in a sound run.
    pub faults: u64,
    /// Whether all books are equal.
    pub equal: bool,
    /// Whether as much was paid as was received.
    pub conserved: bool,
}

impl Paid {
    /// Orders that were taken and had not settled at every replica at the end.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.taken.saturating_sub(self.least)
    }

    /// Entries that settled somewhere beyond the orders that were taken.
    #[must_use]
    pub const fn duplicated(&self) -> u64 {
        self.most.saturating_sub(self.taken)
    }

    /// Whether every payment settled once, everywhere, and no unit was made or lost.
    #[must_use]
    pub const fn sound(&self) -> bool {
        self.taken > 0
            && self.lost() == 0
            && self.duplicated() == 0
            && self.faults == 0
            && self.equal
            && self.conserved
    }
}

/// What is shown at one time.
struct Sight {
    at: Instant,
    cpu: Vec<Duration>,
    counts: [u64; 9],
}

/// Lets the customers of a bank pay each other, and measures it; what went wrong in words if a replica cannot be opened or nothing
/// settles any more.
///
/// # Errors
/// The reason.
pub fn run(bank: &Bank) -> Result<Paid, String> {
    let nodes = bank.plan.nodes;
    let shown: Vec<Shown> = (0..nodes).map(|_| Shown::default()).collect();
    let names: Vec<String> =
        (0..nodes).map(|id| format!("pay-{id}")).chain((0..nodes).map(|id| format!("own-{id}"))).collect();
    let phase = AtomicU8::new(Phase::Fund as u8);
    let (links, inboxes): (Vec<_>, Vec<_>) = (0..nodes).map(|_| channel()).unzip();
    let (signers, signed): (Vec<_>, Vec<_>) = (0..nodes).map(|_| sync_channel(AHEAD)).unzip();
    let is_signed = bank.plan.ownership == Ownership::SelfSigned;
    let seat = |(((id, inbox), shown), lines)| {
        Seat::new(bank, id, (links.clone(), inbox), (shown, is_signed.then_some(lines)))
    };
    // Whoever cannot be opened is known before anybody runs.
    let seats = (0..nodes).zip(inboxes).zip(&shown).zip(signed);
    let seats: Result<Vec<Seat<'_>>, _> = seats.map(seat).collect();
    let seats = seats.map_err(|why| why.0)?;
    std::thread::scope(|scope| {
        let phase = &phase;
        let mut running = Vec::new();
        let spawned = seats.into_iter().zip(&names).try_for_each(|(seat, name)| {
            let spawned = Builder::new().name(name.clone()).spawn_scoped(scope, move || seat.run(phase));
            spawned.map(|thread| running.push(thread)).map_err(|why| why.to_string())
        });
        // They end with the replicas that take what they sign.
        let sign = |((id, lines), name): ((u8, _), &String)| {
            let owners = is_signed.then(|| Owners::new(bank, id));
            let run = move || owners.into_iter().for_each(|owners| owners.run(&lines));
            Builder::new()
                .name(name.clone())
                .spawn_scoped(scope, run)
                .map(drop)
                .map_err(|why| why.to_string())
        };
        let own = names.iter().skip(usize::from(nodes));
        let spawned = spawned.and_then(|()| (0..nodes).zip(signers).zip(own).try_for_each(sign));
        let measured = spawned.and_then(|()| measure(bank, &shown, &names, phase));
        // Threads that run end only by this word, and the scope ends with the last of them.
        phase.store(Phase::Stop as u8, Ordering::Release);
        let left: Result<Vec<Left>, _> =
            running.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        let left = left.map_err(|_| "a replica stopped".to_owned())?;
        Ok(audited(measured?, &shown, &left))
    })
}

fn sum(shown: &[Shown], of: fn(&Shown) -> &AtomicU64) -> u64 {
    shown.iter().map(|one| of(one).load(Ordering::Acquire)).sum()
}

fn sight(shown: &[Shown], names: &[String]) -> Sight {
    let counts: [fn(&Shown) -> &AtomicU64; 9] = [
        |one| &one.own,
        |one| &one.certified,
        |one| &one.settled,
        |one| &one.stable,
        |one| &one.bytes,
        |one| &one.accepted,
        |one| &one.busy,
        |one| &one.signed,
        |one| &one.checked,
    ];
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
    let begin = Instant::now();
    while shown.iter().any(|one| one.phase.load(Ordering::Acquire) != Phase::Drain as u8) {
        if begin.elapsed() > PATIENCE {
            return Err(format!("a replica did not hear for {PATIENCE:?} that the clock had stopped"));
        }
        std::thread::sleep(LOOK);
    }
    let taken = sum(shown, |one| &one.accepted);
    everywhere(shown, taken)?;
    let [payments, certified, settled, stable, bytes, accepted, busy, signed, checked] =
        std::array::from_fn(|at| after.counts[at].saturating_sub(before.counts[at]));
    let cpu = after.cpu.iter().zip(&before.cpu).map(|(after, before)| after.saturating_sub(*before));
    let mut cpu: Vec<Duration> = cpu.collect();
    let owners = cpu.split_off(usize::from(bank.plan.nodes)).iter().sum();
    Ok(Paid {
        payments,
        certified,
        settled,
        stable,
        bytes,
        wall: after.at.duration_since(before.at),
        cpu,
        owners,
        signed,
        checked,
        accepted,
        busy,
        taken,
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

/// Compares the books with each other and with what was told, once nobody runs.
fn audited(paid: Paid, shown: &[Shown], left: &[Left]) -> Paid {
    let told = shown.iter().map(|one| one.all.load(Ordering::Acquire));
    // A log's last number is how many entries of it the book holds: one that settles twice is told twice and stands there once.
    let held = left.iter().map(|one| one.accounts.iter().map(|(_, account)| account.sequence()).sum());
    let settled: Vec<u64> = told.chain(held).collect();
    let equal = left.windows(2).all(|two| two[0].accounts == two[1].accounts);
    let total = |of: fn(&synod_ledger::Account) -> Total| {
        let accounts = left.first().map(|one| one.accounts.as_slice()).unwrap_or_default();
        accounts.iter().try_fold(Total::ZERO, |sum, (_, account)| sum.checked_add(of(account)))
    };
    let (credits, debits) = (total(|one| one.credits_posted()), total(|one| one.debits_posted()));
    Paid {
        least: settled.iter().copied().min().unwrap_or(0),
        most: settled.iter().copied().max().unwrap_or(0),
        equal,
        conserved: credits.is_some() && credits == debits,
        faults: left.iter().map(|one| one.faults).sum(),
        ..paid
    }
}

#[cfg(test)]
mod tests {
    use super::{Bank, Paid, run};
    use crate::pay::{Ownership, PayPlan, Verify, reference};
    use std::time::Duration;

    #[test]
    fn an_entry_too_few_or_too_many_at_any_replica_fails_the_audit() {
        let entry =
            |least, most| Paid { taken: 5, least, most, equal: true, conserved: true, ..Paid::default() };
        assert!(entry(5, 5).sound());
        assert_eq!((entry(4, 5).lost(), entry(4, 5).duplicated()), (1, 0));
        assert_eq!((entry(5, 7).lost(), entry(5, 7).duplicated()), (0, 2));
        assert!(!entry(4, 5).sound() && !entry(5, 7).sound() && !entry(4, 6).sound());
        assert!(!Paid { equal: false, ..entry(5, 5) }.sound() && !Paid::default().sound());
    }

    #[test]
    fn orders_that_find_no_place_are_counted_while_the_clock_runs() {
        let span = Duration::from_millis(200);
        let plan = PayPlan {
            nodes: 4,
            accounts: 8,
            ownership: Ownership::Custodial,
            verify: Verify::All,
            batch: 64,
            inflight: 256,
            warmup: Duration::ZERO,
            span,
        };
        let mut bank = Bank::new(plan).expect("four members");
        // Two customers of each institution, each with one payment under way at most.
        bank.window = 1;
        let paid = run(&bank).expect("settles");
        assert!(paid.sound() && paid.busy > 0, "{paid:?}");
    }

    #[test]
    fn replicas_that_cannot_be_opened_are_an_error_and_nothing_runs() {
        let span = Duration::from_millis(1);
        let plan = PayPlan {
            nodes: 4,
            accounts: 8,
            ownership: Ownership::Custodial,
            verify: Verify::All,
            batch: 64,
            inflight: 8,
            warmup: Duration::ZERO,
            span,
        };
        let mut bank = Bank::new(plan).expect("four members");
        bank.window = 0;
        assert!(run(&bank).is_err(), "a window of nothing is refused");
    }

    #[test]
    fn customers_get_their_money_although_their_issuer_may_pay_few_at_a_time() {
        let span = Duration::from_millis(50);
        let plan = PayPlan {
            nodes: 4,
            accounts: 2_048,
            ownership: Ownership::Custodial,
            verify: Verify::All,
            batch: 64,
            inflight: 256,
            warmup: Duration::ZERO,
            span,
        };
        let mut bank = Bank::new(plan).expect("four members");
        // Eight orders of 64 customers each, of which two may be under way.
        bank.window = 2;
        assert_eq!(bank.funding(0).len(), 8);
        let paid = run(&bank).expect("every customer gets money");
        assert!(paid.sound() && paid.payments > 0, "{paid:?}");
    }

    #[test]
    fn every_payment_settles_once_at_every_replica_and_no_unit_is_made_or_lost() {
        let (warmup, span) = (Duration::from_millis(20), Duration::from_millis(200));
        let plan = PayPlan {
            nodes: 4,
            accounts: 400,
            ownership: Ownership::Custodial,
            verify: Verify::All,
            batch: 64,
            inflight: 256,
            warmup,
            span,
        };
        let bank = Bank::new(plan).expect("four members");
        let paid = run(&bank).expect("settles");
        assert!(paid.sound(), "{paid:?}");
        assert!(paid.payments > 0 && paid.bytes > 0, "{paid:?}");
        assert!(paid.certified > 0 && paid.settled > 0 && paid.stable > 0, "{paid:?}");
        assert!(
            paid.accepted > 0 && paid.accepted < paid.taken,
            "money is handed out before the clock runs: {paid:?}"
        );
        assert_eq!((paid.least, paid.most), (paid.taken, paid.taken), "{paid:?}");
        assert!(reference(&bank, 1_000).is_some_and(|(paid, wall)| paid == 1_000 && !wall.is_zero()));
    }

    #[test]
    fn what_owners_sign_settles_once_at_every_replica() {
        let (warmup, span, ownership) =
            (Duration::from_millis(20), Duration::from_millis(400), Ownership::SelfSigned);
        let plan = PayPlan {
            nodes: 4,
            accounts: 40,
            ownership,
            verify: Verify::All,
            batch: 64,
            inflight: 256,
            warmup,
            span,
        };
        let bank = Bank::new(plan).expect("four members");
        let paid = run(&bank).expect("settles");
        // Money is handed out by four orders; how much settles while the clock runs is the machine's affair.
        assert!(paid.sound() && paid.taken > 4, "{paid:?}");
        assert_eq!((paid.least, paid.most), (paid.taken, paid.taken), "{paid:?}");
        assert_eq!(paid.cpu.len(), 4);
        assert!(reference(&bank, 1_000).is_some_and(|(paid, _)| paid == 1_000));
    }

    #[test]
    fn what_an_owner_signed_and_found_no_place_is_given_again_before_what_is_behind_it() {
        let (warmup, span, ownership) = (Duration::ZERO, Duration::from_millis(200), Ownership::SelfSigned);
        let plan = PayPlan {
            nodes: 4,
            accounts: 8,
            ownership,
            verify: Verify::All,
            batch: 64,
            inflight: 256,
            warmup,
            span,
        };
        let mut bank = Bank::new(plan).expect("four members");
        bank.window = 1;
        let paid = run(&bank).expect("settles");
        assert!(paid.sound() && paid.busy > 0, "{paid:?}");
    }

    #[test]
    fn with_witnesses_what_owners_sign_settles_once_at_every_replica_too() {
        let (warmup, span, ownership) =
            (Duration::from_millis(20), Duration::from_millis(200), Ownership::SelfSigned);
        let verify = Verify::Witness { margin: 0 };
        let plan =
            PayPlan { nodes: 4, accounts: 40, ownership, verify, batch: 64, inflight: 256, warmup, span };
        let paid = run(&Bank::new(plan).expect("four members")).expect("settles");
        assert!(paid.sound() && paid.taken > 4, "{paid:?}");
    }
}
