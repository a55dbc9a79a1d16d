//! Payments one after the other on one thread, under a clock that stands while somebody works: two runs do the same, so that what they cost can be
//! counted in instructions.

use super::audit::Kept;
use super::bank::{Bank, Place};
use super::channel::Carries;
use super::replicas::{Paid, audited};
use super::seat::{Left, Phase, Seat, Shown};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use synod_astro::{BackedBatches, Batches, Profile};
use synod_broadcast::{Bracha, SignedBroadcast};
use synod_machine::Span;

/// How far the clock goes between two looks at what came.
const STEP: Span = Span::millis(1);
/// Looks at most until all that was ordered has settled.
const LOOKS: u64 = 100_000;

/// Lets custodial customers pay each other until so many orders were taken, and all of them have settled.
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

fn counted_over<B: Carries>(bank: &Bank, payments: u64) -> Result<Paid, String> {
    let places: Vec<Place> = bank.places().collect();
    let shown: Vec<Shown> = places.iter().map(|_| Shown::default()).collect();
    let (links, inboxes): (Vec<_>, Vec<_>) = places.iter().map(|_| channel()).unzip();
    let mut seats = Vec::new();
    for ((at, inbox), shown) in places.iter().zip(inboxes).zip(&shown) {
        let seat = Seat::<B>::new(bank, *at, (links.clone(), inbox), (shown, None));
        seats.push(seat.map_err(|why| why.0)?);
    }
    let sum =
        |of: fn(&Shown) -> &AtomicU64| shown.iter().map(|one| of(one).load(Ordering::Acquire)).sum::<u64>();
    let least = || shown.iter().map(|one| one.all.load(Ordering::Acquire)).min().unwrap_or(0);
    let funding: u64 = places.iter().map(|of| bank.funding(*of).len() as u64).sum();
    let (mut phase, mut at) = (Phase::Fund, Span::ZERO);
    for look in 0.. {
        if look == LOOKS {
            return Err(format!(
                "{} entries were taken and {} settled everywhere",
                sum(|one| &one.accepted),
                least()
            ));
        }
        at = Span(at.0 + STEP.0);
        seats.iter_mut().for_each(|seat| seat.look(phase, at));
        phase = match phase {
            Phase::Fund if least() >= funding => Phase::Pay,
            Phase::Pay if sum(|one| &one.accepted) >= funding + payments => Phase::Drain,
            Phase::Drain if least() == sum(|one| &one.accepted) => break,
            phase => phase,
        };
    }
    let left: Vec<Left> = seats.into_iter().map(Seat::left).collect();
    let taken = sum(|one| &one.accepted);
    let paid = Paid {
        payments: taken.saturating_sub(funding),
        accepted: taken,
        bytes: sum(|one| &one.bytes),
        signed: sum(|one| &one.signed),
        checked: sum(|one| &one.checked),
        wall: Duration::from_nanos(at.0),
        kept: vec![Kept { taken, ..Kept::default() }],
        ..Paid::default()
    };
    Ok(audited(paid, (&shown, &left), usize::from(bank.plan.nodes)))
}
