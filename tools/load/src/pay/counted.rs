//! Payments one after the other on one thread, under a clock that stands while somebody works: two runs do the same, so that what they cost can be
//! counted in instructions.

use super::audit::Kept;
use super::bank::{Bank, Place};
use super::channel::Carries;
use super::owners::Owners;
use super::replicas::{Paid, audited};
use super::seat::{Left, Phase, Seat, Shown};
use crate::usage::cpu_of_threads;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::time::Duration;

use synod_astro::{BackedBatches, Batches, Line, Profile};
use synod_broadcast::{Bracha, SignedBroadcast};
use synod_machine::Span;

/// How far the clock goes between two looks at what came.
const STEP: Span = Span::millis(1);
/// Looks at most until all that was ordered has settled.
const LOOKS: u64 = 100_000;

/// Lets customers pay each other until so many orders were taken, and all of them have settled. Those who sign do so before. What is told
/// of signatures, bytes and processor time is of these orders alone, and not of what gave customers their money.
///
/// # Errors
/// The reason why a replica cannot be opened, or that something has not settled for long.
pub fn counted(bank: &Bank, payments: u64) -> Result<Paid, String> {
    match bank.plan.profile {
        Profile::I => counted_over::<Bracha>(bank, payments),
        Profile::II => counted_over::<SignedBroadcast<BackedBatches>>(bank, payments),
        Profile::Funded => counted_over::<SignedBroadcast<Batches>>(bank, payments),
    }
}

/// What was counted at one time.
#[derive(Clone, Copy)]
struct Counts {
    taken: u64,
    bytes: u64,
    signed: u64,
    checked: u64,
    sums: u64,
    cpu: Duration,
}

impl Counts {
    fn of(shown: &[Shown]) -> Self {
        let sum =
            |of: fn(&Shown) -> &AtomicU64| shown.iter().map(|one| of(one).load(Ordering::Acquire)).sum();
        Self {
            taken: sum(|one| &one.accepted),
            bytes: sum(|one| &one.bytes),
            signed: sum(|one| &one.signed),
            checked: sum(|one| &one.checked),
            sums: sum(|one| &one.sums),
            cpu: cpu_of_threads(&[own_thread()]).into_iter().sum(),
        }
    }

    /// What came between.
    fn since(self, before: &Self) -> Paid {
        Paid {
            payments: self.taken.saturating_sub(before.taken),
            accepted: self.taken,
            bytes: self.bytes.saturating_sub(before.bytes),
            signed: self.signed.saturating_sub(before.signed),
            checked: self.checked.saturating_sub(before.checked),
            sums: self.sums.saturating_sub(before.sums),
            cpu: vec![self.cpu.saturating_sub(before.cpu)],
            ..Paid::default()
        }
    }
}

/// How the system calls this thread.
fn own_thread() -> String {
    std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default().trim_end().to_owned()
}

/// What the customers of an institution sign, all of it.
fn signed(bank: &Bank, at: Place, count: u64) -> Receiver<Vec<Line>> {
    let (sheets, signed) = sync_channel(1);
    let mut owners = Owners::new(bank, at);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let lines = std::iter::from_fn(|| owners.next()).take(count).collect();
    // There is room for one, and its reader is here.
    drop(sheets.send(lines));
    signed
}

/// Time goes on a step, and every replica looks at what came.
#[inline(never)]
fn step<B: Carries>(seats: &mut [Seat<'_, B>], phase: Phase, at: &mut Span) {
    *at = Span(at.0 + STEP.0);
    seats.iter_mut().for_each(|seat| seat.look(phase, *at));
}

fn counted_over<B: Carries>(bank: &Bank, payments: u64) -> Result<Paid, String> {
    let places: Vec<Place> = bank.places().collect();
    let shown: Vec<Shown> = places.iter().map(|_| Shown::default()).collect();
    let (links, inboxes): (Vec<_>, Vec<_>) = places.iter().map(|_| channel()).unzip();
    let (each, is_signed) = (payments.div_ceil(places.len().max(1) as u64), bank.plan.ownership.signs());
    let payments = if is_signed { each * places.len() as u64 } else { payments };
    let mut seats = Vec::new();
    for ((at, inbox), shown) in places.iter().zip(inboxes).zip(&shown) {
        let lines = is_signed.then(|| signed(bank, *at, each));
        let seat = Seat::<B>::new(bank, *at, (links.clone(), inbox), (shown, lines));
        seats.push(seat.map_err(|why| why.0)?);
    }
    let funding: u64 = places.iter().map(|of| bank.funding(*of).len() as u64).sum();
    let least = || shown.iter().map(|one| one.all.load(Ordering::Acquire)).min().unwrap_or(0);
    let taken = || shown.iter().map(|one| one.accepted.load(Ordering::Acquire)).sum::<u64>();
    let (mut phase, mut at, mut before) = (Phase::Fund, Span::ZERO, Counts::of(&shown));
    for look in 0.. {
        if look == LOOKS {
            return Err(format!("{} entries were taken and {} settled everywhere", taken(), least()));
        }
        step(&mut seats, phase, &mut at);
        phase = match phase {
            Phase::Fund if least() >= funding => {
                before = Counts::of(&shown);
                Phase::Pay
            }
            Phase::Pay if taken() >= funding + payments => Phase::Drain,
            Phase::Drain if least() == taken() => break,
            phase => phase,
        };
    }
    let paid = Counts::of(&shown).since(&before);
    let left: Vec<Left> = seats.into_iter().map(Seat::left).collect();
    let (wall, kept) = (Duration::from_nanos(at.0), vec![Kept { taken: taken(), ..Kept::default() }]);
    Ok(audited(Paid { wall, kept, ..paid }, (&shown, &left), usize::from(bank.plan.nodes)))
}
