//! All replicas of a plan, each on its thread, and the audit of what they did.

use super::audit::{Books, Kept, are_conserved, are_equal};
use super::bank::{Bank, Place};
use super::channel::Carries;
use super::journals::{THREAD, Written};
use super::owners::{Owners, SHEETS};
use super::seat::{Left, Phase, Seat, Shown};
use crate::usage::cpu_of_threads;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};
use synod_astro::{BackedBatches, Batches, Profile};
use synod_broadcast::{Bracha, SignedBroadcast};

/// How long nothing may settle.
const PATIENCE: Duration = Duration::from_secs(20);
/// What is counted while the clock runs.
const COUNTS: usize = 13;
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
    /// What journals wrote meanwhile, where there are any.
    pub written: Option<Written>,
    /// Bytes sent meanwhile.
    pub bytes: u64,
    /// Signatures that replicas made meanwhile.
    pub signed: u64,
    /// Signatures that they checked meanwhile.
    pub checked: u64,
    /// Signatures of many owners together that they checked meanwhile.
    pub sums: u64,
    /// Orders that were taken while the clock ran.
    pub accepted: u64,
    /// Orders that found no place meanwhile and were given up.
    pub busy: u64,
    /// Transactions that were begun meanwhile: payments, or what the workload makes of them.
    pub transactions: u64,
    /// Those of them that pay somebody in another shard.
    pub crossing: u64,
    /// Units that left a shard for another in the whole run; as many came there, where that is sound.
    pub crossed: u128,
    /// Orders that were refused meanwhile because there was too little money: none but in Smallbank, and in profile II
    /// where it is on its way.
    pub poor: u64,
    /// Orders of each shard that were taken in the whole run, and entries that settled in it.
    pub kept: Vec<Kept>,
    /// Orders refused for another reason, peers blamed, frames that cannot be read, evidence of lies: none in a sound run.
    pub faults: u64,
    /// Whether all books are equal.
    pub equal: bool,
    /// Whether as much was paid as was received.
    pub conserved: bool,
}

impl Paid {
    /// Orders that were taken in the whole run.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.kept.iter().map(|kept| kept.taken).sum()
    }

    /// Orders that were taken and had not settled at every replica of their shard at the end.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.kept.iter().map(|kept| kept.taken.saturating_sub(kept.least)).sum()
    }

    /// Entries that settled somewhere beyond the orders that were taken.
    #[must_use]
    pub fn duplicated(&self) -> u64 {
        self.kept.iter().map(|kept| kept.most.saturating_sub(kept.taken)).sum()
    }

    /// Whether every payment settled once, everywhere, and no unit was made or lost.
    #[must_use]
    pub fn sound(&self) -> bool {
        self.taken() > 0
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
    counts: [u64; COUNTS],
    written: Option<Written>,
}

/// Lets the customers of a bank pay each other, and measures it; what went wrong in words if a replica cannot be opened or nothing
/// settles any more.
///
/// # Errors
/// The reason.
pub fn run(bank: &Bank) -> Result<Paid, String> {
    match bank.plan.profile {
        Profile::I => run_over::<Bracha>(bank),
        Profile::II => run_over::<SignedBroadcast<BackedBatches>>(bank),
        Profile::Funded => run_over::<SignedBroadcast<Batches>>(bank),
    }
}

fn run_over<B: Carries>(bank: &Bank) -> Result<Paid, String> {
    let places: Vec<Place> = bank.places().collect();
    let shown: Vec<Shown> = places.iter().map(|_| Shown::default()).collect();
    let named = |kind: &str| (0..places.len()).map(|at| format!("{kind}-{at}")).collect::<Vec<_>>();
    bank.journals().into_iter().for_each(super::Journals::clear);
    let names: Vec<String> = named("pay").into_iter().chain(named("own")).collect();
    let phase = AtomicU8::new(Phase::Fund as u8);
    let (links, inboxes): (Vec<_>, Vec<_>) = places.iter().map(|_| channel()).unzip();
    let (signers, signed): (Vec<_>, Vec<_>) = places.iter().map(|_| sync_channel(SHEETS)).unzip();
    let is_signed = bank.plan.ownership.signs();
    let seat = |(((at, inbox), shown), lines): (((&Place, _), _), _)| {
        Seat::new(bank, *at, (links.clone(), inbox), (shown, is_signed.then_some(lines)))
    };
    // Whoever cannot be opened is known before anybody runs.
    let seats = places.iter().zip(inboxes).zip(&shown).zip(signed);
    let seats: Result<Vec<Seat<'_, B>>, _> = seats.map(seat).collect();
    let seats = seats.map_err(|why| why.0)?;
    std::thread::scope(|scope| {
        let (phase, shown) = (&phase, &shown);
        let mut running = Vec::new();
        let spawned = seats.into_iter().zip(&names).try_for_each(|(seat, name)| {
            let spawned = Builder::new().name(name.clone()).spawn_scoped(scope, move || seat.run(phase));
            spawned.map(|thread| running.push(thread)).map_err(|why| why.to_string())
        });
        // They end with the replicas that take what they sign.
        let own = names.iter().skip(places.len());
        let mut signers = places.iter().zip(signers).zip(shown).zip(own);
        let spawned = spawned.and_then(|()| {
            signers.try_for_each(|(((at, sheets), shown), name)| {
                let owners = is_signed.then(|| Owners::new(bank, *at));
                shown.ready.store(!is_signed, Ordering::Release);
                let run = move || owners.into_iter().for_each(|owners| owners.run(&sheets, &shown.ready));
                let spawned = Builder::new().name(name.clone()).spawn_scoped(scope, run);
                spawned.map(drop).map_err(|why| why.to_string())
            })
        });
        let measured = spawned.and_then(|()| measure(bank, shown, &names, phase));
        // Threads that run end only by this word, and the scope ends with the last of them.
        phase.store(Phase::Stop as u8, Ordering::Release);
        let left: Result<Vec<Left>, _> =
            running.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        let left = left.map_err(|_| "a replica stopped".to_owned())?;
        if let Some(why) = bank.journals().and_then(super::Journals::failed) {
            return Err(why);
        }
        let nodes = usize::from(bank.plan.nodes);
        Ok(audited(measured?, (shown, &left), nodes))
    })
}

fn sum(shown: &[Shown], of: fn(&Shown) -> &AtomicU64) -> u64 {
    shown.iter().map(|one| of(one).load(Ordering::Acquire)).sum()
}

fn sight(bank: &Bank, shown: &[Shown], names: &[String]) -> Sight {
    let counts: [fn(&Shown) -> &AtomicU64; COUNTS] = [
        |one| &one.own,
        |one| &one.certified,
        |one| &one.settled,
        |one| &one.stable,
        |one| &one.bytes,
        |one| &one.accepted,
        |one| &one.busy,
        |one| &one.signed,
        |one| &one.checked,
        |one| &one.transactions,
        |one| &one.crossing,
        |one| &one.poor,
        |one| &one.sums,
    ];
    let written = bank.journals().map(|journals| {
        let cpu = cpu_of_threads(&[THREAD]).into_iter().sum();
        journals.written(cpu)
    });
    let counts = counts.map(|of| sum(shown, of));
    Sight { at: Instant::now(), cpu: cpu_of_threads(names), counts, written }
}

/// Funds, warms up, measures and waits for the end.
fn measure(bank: &Bank, shown: &[Shown], names: &[String], phase: &AtomicU8) -> Result<Paid, String> {
    let nodes = usize::from(bank.plan.nodes);
    let shards: Vec<&[Shown]> = shown.chunks(nodes.max(1)).collect();
    let funding = |of: Place| bank.funding(of).len() as u64;
    for (shard, shown) in (0_u16..).zip(&shards) {
        let all = bank.places().filter(|of| of.shard == shard).map(funding).sum();
        until(shown, all)?;
    }
    // Signing ends by itself, and how long it takes is the machine's.
    while !shown.iter().all(|one| one.ready.load(Ordering::Acquire)) {
        std::thread::sleep(LOOK);
    }
    phase.store(Phase::Pay as u8, Ordering::Release);
    std::thread::sleep(bank.plan.warmup);
    let before = sight(bank, shown, names);
    std::thread::sleep(bank.plan.span);
    let after = sight(bank, shown, names);
    phase.store(Phase::Drain as u8, Ordering::Release);
    drained(shown)?;
    let mut kept = Vec::new();
    for shown in &shards {
        let taken = sum(shown, |one| &one.accepted);
        until(shown, taken)?;
        kept.push(Kept { taken, ..Kept::default() });
    }
    if shards.len() > 1 {
        home(&shards)?;
    }
    let [
        payments,
        certified,
        settled,
        stable,
        bytes,
        accepted,
        busy,
        signed,
        checked,
        transactions,
        crossing,
        poor,
        sums,
    ] = std::array::from_fn(|at| after.counts[at].saturating_sub(before.counts[at]));
    let cpu = after.cpu.iter().zip(&before.cpu).map(|(after, before)| after.saturating_sub(*before));
    let mut cpu: Vec<Duration> = cpu.collect();
    let owners = cpu.split_off(shown.len()).iter().sum();
    let wall = after.at.duration_since(before.at);
    let written = after.written.zip(before.written).map(|(after, before)| after.since(&before));
    Ok(Paid {
        payments,
        certified,
        settled,
        stable,
        bytes,
        wall,
        written,
        cpu,
        owners,
        signed,
        checked,
        sums,
        accepted,
        busy,
        transactions,
        crossing,
        poor,
        kept,
        ..Paid::default()
    })
}

/// Waits until all replicas know that the clock has stopped.
fn drained(shown: &[Shown]) -> Result<(), String> {
    let begin = Instant::now();
    while shown.iter().any(|one| one.phase.load(Ordering::Acquire) != Phase::Drain as u8) {
        if begin.elapsed() > PATIENCE {
            return Err(format!("a replica did not hear for {PATIENCE:?} that the clock had stopped"));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Of the replica that has least of it.
fn least(shown: &[Shown], of: fn(&Shown) -> &AtomicU64) -> u64 {
    shown.iter().map(|one| of(one).load(Ordering::Acquire)).min().unwrap_or(0)
}

/// Waits until all that left a shard has come where it went, at every replica there, and is confirmed.
fn home(shards: &[&[Shown]]) -> Result<(), String> {
    // All settled in its shard, so no more leaves.
    let left = shards.iter().map(|shown| shown.iter().map(|one| one.left.load(Ordering::Acquire)).max());
    let left: u64 = left.map(Option::unwrap_or_default).sum();
    let (begin, mut moved, mut last) = (Instant::now(), Instant::now(), None);
    loop {
        let came: u64 = shards.iter().map(|shown| least(shown, |one| &one.came)).sum();
        let away: u64 = shards.iter().map(|shown| sum(shown, |one| &one.away)).sum();
        if came >= left && away == 0 {
            return Ok(());
        }
        if last != Some((came, away)) {
            (last, moved) = (Some((came, away)), Instant::now());
        }
        if moved.elapsed() > PATIENCE {
            let after = begin.elapsed();
            return Err(format!(
                "{came} of {left} units came from other shards after {after:?}, {away} entries are unconfirmed"
            ));
        }
        std::thread::sleep(LOOK);
    }
}

/// Waits until so many entries have settled at every replica of a shard.
fn until(shown: &[Shown], count: u64) -> Result<(), String> {
    let (mut last, mut moved) = (0, Instant::now());
    loop {
        let (least, all) = (least(shown, |one| &one.all), sum(shown, |one| &one.all));
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
pub(super) fn audited(mut paid: Paid, (shown, left): (&[Shown], &[Left]), nodes: usize) -> Paid {
    let nodes = nodes.max(1);
    let shards: Vec<Vec<&Books>> =
        left.chunks(nodes).map(|shard| shard.iter().map(|one| &one.books).collect()).collect();
    for ((kept, books), shown) in paid.kept.iter_mut().zip(&shards).zip(shown.chunks(nodes)) {
        let told = shown.iter().map(|one| one.all.load(Ordering::Acquire));
        let settled: Vec<u64> = told.chain(books.iter().map(|books| books.entries())).collect();
        kept.least = settled.iter().copied().min().unwrap_or(0);
        kept.most = settled.iter().copied().max().unwrap_or(0);
    }
    let (equal, conserved) = (are_equal(&shards), are_conserved(&shards));
    let crossed = shards.iter().filter_map(|books| books.first()).map(|books| books.crossed()[0]).sum();
    Paid { crossed, equal, conserved, faults: left.iter().map(|one| one.faults).sum(), ..paid }
}
