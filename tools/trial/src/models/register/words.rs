//! Words under which production code tells, access by access, what it does.

use std::cell::{Cell, RefCell};

use synod_tail::register::{Copies, HALF_WORDS, Owner, Region, Value};
use synod_tail::{Fence, Words};

/// Notes all stores, in order.
#[derive(Default)]
struct Stored {
    all: RefCell<Vec<(u32, u64)>>,
}

impl Words for Stored {
    fn load(&self, at: u32) -> u64 {
        let all = self.all.borrow();
        all.iter().rev().find(|(of, _)| *of == at).map_or(0, |(_, value)| *value)
    }
    fn store(&self, at: u32, value: u64) {
        self.all.borrow_mut().push((at, value));
    }
    fn fence(&self, _: Fence) {}
}

/// Answers what was answered before, and notes the first load beyond.
struct Answered<'a> {
    answers: &'a [u64],
    words: u32,
    at: Cell<usize>,
    next: Cell<Option<u32>>,
}

impl Words for Answered<'_> {
    fn load(&self, at: u32) -> u64 {
        if !is_live(at, self.words) {
            return 0;
        }
        let place = self.at.replace(self.at.get() + 1);
        if let Some(answer) = self.answers.get(place) {
            return *answer;
        }
        self.next.set(self.next.get().or(Some(at)));
        0
    }
    fn store(&self, at: u32, _: u64) {
        unreachable!("a READ stores nothing, least of all into word {at}");
    }
    fn fence(&self, _: Fence) {}
}

/// Whether a word is not the same in all values: the timestamp, the first words of a value but one, and its last.
const fn is_live(at: u32, words: u32) -> bool {
    let place = at % HALF_WORDS;
    place < words || place == HALF_WORDS - 1
}

/// A value that tells in each of its live words under which timestamp it was written.
pub(super) fn value(k: u64, words: u32) -> Value {
    let mut value = Value { digest: [0; 32], signature: [0; 64] };
    let bytes = value.digest.iter_mut().chain(&mut value.signature).step_by(8);
    for (byte, place) in bytes.zip(1..) {
        if is_live(place, words) {
            *byte = u8::try_from(k).unwrap_or(u8::MAX);
        }
    }
    value
}

/// The stores of each of so many WRITEs, as the real owner makes them.
pub(super) fn writes(region: Region, writes: u8, words: u32) -> Vec<Vec<(u32, u64)>> {
    let stored = Stored::default();
    let mut owner = Owner::new(region, &stored);
    let mut all = Vec::new();
    for k in 1..=u64::from(writes) {
        let before = stored.all.borrow().len();
        let done = owner.write(0, k, &value(k, words));
        assert_eq!(done, Ok(()), "timestamps rise");
        let stores = stored.all.borrow().iter().skip(before).copied().collect::<Vec<_>>();
        all.push(stores.into_iter().filter(|(at, _)| is_live(*at, words)).collect());
    }
    all
}

/// How far a READ is after these answers.
pub(super) enum Reading {
    /// It loads this word next.
    Loads(u32),
    /// It has copied all it needs.
    Copied(Copies),
}

/// See [`Reading`].
pub(super) fn read(region: Region, answers: &[u64], words: u32) -> Reading {
    let answered = Answered { answers, words, at: Cell::new(0), next: Cell::new(None) };
    let copies = region.copy(&answered, 0);
    answered.next.get().map_or(Reading::Copied(copies), Reading::Loads)
}
