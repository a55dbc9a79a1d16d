//! How long a slot may take before it is slow (specification, section 2): T_fast follows what slots take, so that a replica that shares its
//! core, or checks a burst of signatures, does not take its own delay for a peer's silence and answer it with more signatures.
//!
//! *Bounds.* The times of [`KEPT`] slots.

use std::collections::VecDeque;

use synod_machine::Span;

use crate::config::Parameters;

/// Slots whose times are kept.
const KEPT: usize = 256;
/// Slots between two looks at them.
const EVERY: u32 = 32;
/// The place of the time that counts, from the largest on: about the 99th of a hundred.
const PLACE: usize = 2;
/// T_fast is so many times it.
const TIMES: u64 = 10;
/// And the wait for a leader is at least so many times T_fast.
const SUSPECT_TIMES: u64 = 5;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    last: VecDeque<Span>,
    since: u32,
    l99: Span,
}

impl Pace {
    /// Most bytes that it holds.
    pub(super) const BYTES_MAX: u64 = (KEPT * size_of::<Span>()) as u64;

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        (self.last.len() * size_of::<Span>()) as u64
    }

    /// A slot was decided so long after its proposal came.
    pub(super) fn decided(&mut self, took: Span) {
        if self.last.len() >= KEPT {
            self.last.pop_front();
        }
        self.last.push_back(took);
        self.since += 1;
        if self.since >= EVERY {
            self.since = 0;
            self.look();
        }
    }

    fn look(&mut self) {
        let mut largest = [Span::default(); PLACE + 1];
        for took in &self.last {
            // The smallest of those that are largest gives way.
            if let Some(least) = largest.iter_mut().min().filter(|least| **least < *took) {
                *least = *took;
            }
        }
        let third = largest.into_iter().min().unwrap_or_default();
        self.l99 = Span((self.l99.0.saturating_mul(7).saturating_add(third.0)) / 8);
    }

    /// T_fast.
    pub(super) fn fast(&self, parameters: &Parameters) -> Span {
        let most = Span(parameters.suspect.0 / SUSPECT_TIMES);
        self.l99.times(TIMES).min(most).max(parameters.fast)
    }

    /// T_echo, which grows as T_fast does.
    pub(super) fn echo(&self, parameters: &Parameters) -> Span {
        Span(self.fast(parameters).0 / 2).max(parameters.echo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(times: impl IntoIterator<Item = u64>) -> Pace {
        let mut pace = Pace::default();
        times.into_iter().for_each(|micros| pace.decided(Span::micros(micros)));
        pace
    }

    #[test]
    fn slots_that_are_fast_leave_t_fast_and_t_echo_as_they_are_configured() {
        let parameters = Parameters::default();
        for pace in [Pace::default(), after((0..5_000).map(|_| 20))] {
            assert_eq!(pace.fast(&parameters), parameters.fast);
            assert_eq!(pace.echo(&parameters), parameters.echo);
        }
    }

    #[test]
    fn slots_that_are_slower_raise_them_up_to_a_fifth_of_the_wait_for_a_leader_and_they_fall_again() {
        let parameters = Parameters::default();
        let mut pace = after((0..2_000).map(|_| 500));
        assert!(pace.fast(&parameters) > Span::micros(4_900) && pace.fast(&parameters) <= Span::millis(5));
        assert!(pace.echo(&parameters) > Span::micros(2_400));
        (0..2_000).for_each(|_| pace.decided(Span::secs(1)));
        assert_eq!(pace.fast(&parameters), Span(parameters.suspect.0 / 5));
        (0..5_000).for_each(|_| pace.decided(Span::micros(20)));
        assert_eq!(pace.fast(&parameters), parameters.fast);
    }

    #[test]
    fn two_slots_of_256_that_take_long_are_none_to_go_by_and_three_are() {
        let parameters = Parameters::default();
        let every = |gap: u64| after((0..20_000).map(|slot| if slot % gap == 0 { 800 } else { 20 }));
        assert_eq!(every(128).fast(&parameters), parameters.fast);
        assert!(every(64).fast(&parameters) > Span::millis(7));
    }
}
