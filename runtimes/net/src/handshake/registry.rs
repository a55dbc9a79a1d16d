//! One live instance per key, one connection per peer and line, penalties for misbehaviour.
//!
//! *Bounds.* One entry per live connection, whose number the reactor bounds, and at most 4,096 penalties; when these
//! are full the one that ends first gives way. Of processes that share a key the first 16 pairs of Hellos are kept.

#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::as_conversions
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use synod_crypto::PublicKey;
use synod_machine::{Span, Time};

use super::Line;
use super::hello::Hello;
use crate::Refusal;

const PENALTIES_MAX: usize = 4_096;
const PENALTY_MAX: Span = Span::secs(60);
/// Pairs of Hellos kept as evidence, at most.
const PAIRS_MAX: usize = 16;

impl core::fmt::Debug for Claim {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Claim({:?} {:?})", self.key, self.line)
    }
}

/// Why a connection is not admitted though its Hello is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// Another process holds the key.
    Refused(Refusal),
    /// The connection that exists stays.
    Spare,
    /// The holder of the key misbehaved and waits.
    Penalty,
}

/// Who wants in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applicant {
    pub(crate) key: PublicKey,
    pub(crate) line: Line,
    pub(crate) instance: u64,
    /// Whether the side that dialled has precedence: the lower member.
    pub(crate) by_lower: bool,
}

#[derive(Default)]
struct State {
    live: BTreeMap<(PublicKey, Line), Entry>,
    penalties: BTreeMap<PublicKey, Penalty>,
    next: u64,
    /// What the holders of live connections said of themselves.
    hellos: BTreeMap<(PublicKey, Line), Hello>,
    /// Two processes that spoke with one key, the live one first.
    pairs: Vec<(Hello, Hello)>,
}

struct Entry {
    instance: u64,
    by_lower: bool,
    number: u64,
}

struct Penalty {
    until: Time,
    last: Span,
}

/// Shared between the handshakes of a process and its reactor.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    state: Arc<Mutex<State>>,
}

/// The right to be the connection of a key and line; given back on drop.
pub(crate) struct Claim {
    registry: Registry,
    key: PublicKey,
    line: Line,
    number: u64,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment, so a panic elsewhere leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides whether a connection with a good Hello may live, and records it.
    ///
    /// # Errors
    /// [`Denied`] says why not.
    pub(crate) fn claim(&self, who: Applicant, now: Time) -> Result<Claim, Denied> {
        let mut state = self.lock();
        if state.penalties.get(&who.key).is_some_and(|penalty| now < penalty.until) {
            return Err(Denied::Penalty);
        }
        let other = [Line::Main, Line::Bulk].into_iter().filter_map(|line| state.live.get(&(who.key, line)));
        if other.into_iter().any(|entry| entry.instance != who.instance) {
            return Err(Denied::Refused(Refusal::SecondInstance));
        }
        let held = state.live.get(&(who.key, who.line));
        if held.is_some_and(|entry| entry.by_lower && !who.by_lower) {
            return Err(Denied::Spare);
        }
        state.next = state.next.wrapping_add(1);
        let number = state.next;
        let entry = Entry { instance: who.instance, by_lower: who.by_lower, number };
        state.live.insert((who.key, who.line), entry);
        drop(state);
        Ok(Claim { registry: self.clone(), key: who.key, line: who.line, number })
    }

    /// Remembers what the holder of a connection said of itself, for as long as it lives.
    pub(crate) fn introduced(&self, hello: &Hello) {
        self.lock().hellos.insert((hello.key, hello.line), hello.clone());
    }

    /// Keeps the Hellos of two live processes with one key; whether it is a new pair.
    pub(crate) fn second(&self, refused: &Hello) -> bool {
        let mut state = self.lock();
        let held = [Line::Main, Line::Bulk].into_iter();
        let live = held.filter_map(|line| state.hellos.get(&(refused.key, line))).next().cloned();
        let Some(live) = live.filter(|live| live.instance != refused.instance) else { return false };
        let known = |(one, other): &(Hello, Hello)| {
            one.instance == live.instance && other.instance == refused.instance
        };
        let fresh = !state.pairs.iter().any(known) && state.pairs.len() < PAIRS_MAX;
        if fresh {
            state.pairs.push((live, refused.clone()));
        }
        fresh
    }

    /// The pairs kept so far: key, live instance, refused instance.
    pub(crate) fn pairs(&self) -> Vec<(PublicKey, u64, u64)> {
        self.lock().pairs.iter().map(|(live, other)| (live.key, live.instance, other.instance)).collect()
    }

    /// Locks `key` out for `first`, or twice its last penalty, up to 60 s.
    pub(crate) fn punish(&self, key: PublicKey, first: Span, now: Time) -> Span {
        let mut state = self.lock();
        let span = match state.penalties.get(&key) {
            Some(penalty) => Span(penalty.last.times(2).0.min(PENALTY_MAX.0)),
            None => first,
        };
        if !state.penalties.contains_key(&key) && state.penalties.len() >= PENALTIES_MAX {
            let soonest = state.penalties.iter().min_by_key(|(_, p)| p.until).map(|(key, _)| *key);
            soonest.map(|key| state.penalties.remove(&key));
        }
        state.penalties.insert(key, Penalty { until: Time(now.0.saturating_add(span.0)), last: span });
        span
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = self.registry.lock();
        if state.live.get(&(self.key, self.line)).is_some_and(|entry| entry.number == self.number) {
            state.live.remove(&(self.key, self.line));
            state.hellos.remove(&(self.key, self.line));
        }
    }
}

#[cfg(test)]
mod tests {
    use synod_crypto::Hash;
    use synod_machine::Wall;
    use synod_quorum::Epoch;
    use synod_wire::List;

    use super::*;
    use crate::handshake::{Role, hello_name};

    fn who(instance: u64, by_lower: bool) -> Applicant {
        Applicant { key: PublicKey([1; 32]), line: Line::Main, instance, by_lower }
    }

    #[test]
    fn a_second_instance_is_refused_until_the_first_is_gone() {
        let registry = Registry::default();
        let first = registry.claim(who(1, true), Time::ZERO).expect("nobody is there");
        let bulk = Applicant { line: Line::Bulk, ..who(2, true) };
        let refused = Some(Denied::Refused(Refusal::SecondInstance));
        assert_eq!(registry.claim(who(2, true), Time::ZERO).err(), refused);
        assert_eq!(registry.claim(bulk, Time::ZERO).err(), refused, "on either line");
        drop(first);
        assert!(registry.claim(who(2, true), Time::ZERO).is_ok());
    }

    fn hello(instance: u64) -> Hello {
        Hello {
            oldest: 1,
            newest: 1,
            cluster: Hash::ZERO,
            name: hello_name("prod").expect("short"),
            epoch: Epoch(0),
            role: Role::Member,
            line: Line::Main,
            machines: List::default(),
            instance,
            wall: Wall(0),
            key: PublicKey([1; 32]),
        }
    }

    #[test]
    fn the_hellos_of_two_processes_with_one_key_are_kept_once_and_few() {
        let registry = Registry::default();
        let _first = registry.claim(who(1, true), Time::ZERO).expect("nobody is there");
        registry.introduced(&hello(1));
        assert!(!registry.second(&hello(1)), "the live one is no second");
        assert!(registry.second(&hello(2)) && !registry.second(&hello(2)));
        assert_eq!(registry.pairs(), [(PublicKey([1; 32]), 1, 2)]);
        assert_eq!((3..100).filter(|instance| registry.second(&hello(*instance))).count(), PAIRS_MAX - 1);
        assert_eq!(registry.pairs().len(), PAIRS_MAX);
    }

    #[test]
    fn of_simultaneous_dials_the_lower_members_stays() {
        let registry = Registry::default();
        let higher = registry.claim(who(1, false), Time::ZERO).expect("nobody is there");
        let lower = registry.claim(who(1, true), Time::ZERO).expect("the lower member's replaces it");
        drop(higher);
        assert_eq!(registry.claim(who(1, false), Time::ZERO).err(), Some(Denied::Spare));
        let again = registry.claim(who(1, true), Time::ZERO).expect("its own redial replaces it");
        drop(lower);
        assert_eq!(registry.claim(who(1, false), Time::ZERO).err(), Some(Denied::Spare), "still held");
        drop(again);
        assert!(registry.claim(who(1, false), Time::ZERO).is_ok());
    }

    #[test]
    fn penalties_double_up_to_a_minute() {
        let registry = Registry::default();
        let key = PublicKey([1; 32]);
        let spans: Vec<u64> =
            (0..8).map(|_| registry.punish(key, Span::secs(1), Time::ZERO).0 / 1_000_000_000).collect();
        assert_eq!(spans, [1, 2, 4, 8, 16, 32, 60, 60]);
        let inside = Time(Span::secs(59).0);
        assert_eq!(registry.claim(who(1, true), inside).err(), Some(Denied::Penalty));
        assert!(registry.claim(who(1, true), Time(Span::secs(60).0)).is_ok());
    }

    #[test]
    fn penalties_are_bounded_and_the_one_that_ends_first_gives_way() {
        let registry = Registry::default();
        for n in 0..=4_096_u32 {
            let mut key = PublicKey([0; 32]);
            key.0[..4].copy_from_slice(&n.to_le_bytes());
            registry.punish(key, Span::secs(1), Time(u64::from(n)));
        }
        let state = registry.lock();
        assert_eq!(state.penalties.len(), PENALTIES_MAX);
        assert!(!state.penalties.contains_key(&PublicKey([0; 32])));
    }
}
