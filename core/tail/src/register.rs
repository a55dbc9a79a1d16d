//! Registers of one owner and many readers, over words (uBFT, section 6.1).
//!
//! *What it gives.* Regularity: of a correct owner a READ gives the last completed WRITE or a concurrent one, never a
//! mixture. A faulty owner can make a READ give nothing, be judged as abuse, or give whatever it wrote; it cannot make
//! a READ last, for every copy has a verdict or is too slow to have one.
//!
//! *How.* A register is two sub-registers that WRITEs take in turn. A READ copies both and is judged by
//! [`Copies::judge`]. Two whole copies need no clock. With one whole copy alone the other may have been completed and
//! overwritten while the READ stood still, so it counts only if the READ took less than half of the cooldown delta,
//! and is repeated otherwise (E36): the paper returns it. Zero is "none", and no sign of a faulty owner (E26).
//!
//! *Assumed.* The owner lets delta pass between the completion of a WRITE and the next WRITE of the same register, and
//! owner and readers have clocks of bounded drift (E27); this module reads none. A backend with atomic reads needs
//! neither: there is one sub-register, and its copy is what it is. A READ that must see a WRITE completed before it
//! begins behind a `SeqCst` fence; a WRITE ends with one, so that a READ behind an own WRITE has it.
//!
//! | word of the sub-register | holds |
//! |---|---|
//! | 0 | timestamp k; 0 for "none" and while it is being written |
//! | 1 to 4 | digest |
//! | 5 to 12 | signature |
//!
//! *Bounds.* 208 bytes a register, 104 with atomic reads; 16 bytes more at its owner. A WRITE stores 14 words, a READ
//! loads 28 at most.

use crate::ring::NUMBER_END;
use crate::words::{Fence, Words};

/// Words of a sub-register.
pub const HALF_WORDS: u32 = 13;

const DATA_WORDS: usize = 12;
const _: () = assert!(HALF_WORDS as usize == 1 + DATA_WORDS);

/// What a register holds under its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Digest of the message.
    pub digest: [u8; 32],
    /// The broadcaster's signature over it.
    pub signature: [u8; 64],
}

impl Value {
    fn words(&self) -> [u64; DATA_WORDS] {
        let (digest, _) = self.digest.as_chunks::<8>();
        let (signature, _) = self.signature.as_chunks::<8>();
        let mut words = [0; DATA_WORDS];
        for (word, bytes) in words.iter_mut().zip(digest.iter().chain(signature)) {
            *word = u64::from_le_bytes(*bytes);
        }
        words
    }

    fn of(words: &[u64; DATA_WORDS]) -> Self {
        let mut value = Self { digest: [0; 32], signature: [0; 64] };
        let (digest, _) = value.digest.as_chunks_mut::<8>();
        let (signature, _) = value.signature.as_chunks_mut::<8>();
        for (bytes, word) in digest.iter_mut().chain(signature).zip(words) {
            *bytes = word.to_le_bytes();
        }
        value
    }
}

/// What the memory behind a region can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Replicas load and store its words themselves; otherwise a memory node does it for them.
    pub one_sided: bool,
    /// No WRITE runs while a register is copied: no second sub-register, no cooldown and no clock.
    pub atomic_read: bool,
}

/// The measures of a region, as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSpec {
    /// Registers of the owner: a multiple of the tail.
    pub registers: u32,
    /// The tail t: register i holds timestamps k with k mod t = i mod t.
    pub tail: u32,
    /// What the memory can do.
    pub backend: Backend,
}

/// The registers of one owner, in its part of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    spec: RegionSpec,
}

impl Region {
    /// Checks the measures; `None` when registers are no multiple of the tail or their words cannot be counted in
    /// a `u32`.
    #[must_use]
    pub const fn new(spec: RegionSpec) -> Option<Self> {
        let fit = spec.tail > 0 && spec.registers > 0 && spec.registers.is_multiple_of(spec.tail);
        if fit && spec.registers.checked_mul(2 * HALF_WORDS).is_some() { Some(Self { spec }) } else { None }
    }

    /// What the memory can do.
    #[must_use]
    pub const fn backend(&self) -> Backend {
        self.spec.backend
    }

    /// Words of shared memory.
    #[must_use]
    pub const fn words(&self) -> u32 {
        self.spec.registers * self.halves() * HALF_WORDS
    }

    const fn halves(&self) -> u32 {
        if self.spec.backend.atomic_read { 1 } else { 2 }
    }

    const fn at(&self, index: u32, half: u32) -> u32 {
        (index * self.halves() + half) * HALF_WORDS
    }

    /// Whether register `index` may hold `k`.
    fn holds(&self, index: u32, k: u64) -> bool {
        let tail = u64::from(self.spec.tail);
        k != 0 && k < NUMBER_END && k % tail == u64::from(index) % tail
    }

    /// Copies what register `index` holds: the middle of a READ, between two looks at the clock.
    ///
    /// # Panics
    /// When there is no such register.
    pub fn copy<W: Words>(&self, words: &W, index: u32) -> Copies {
        assert!(index < self.spec.registers, "register {index} of {}", self.spec.registers);
        let first = Half::copy(words, self.at(index, 0));
        let second = if self.halves() == 1 { None } else { Some(Half::copy(words, self.at(index, 1))) };
        Copies { region: *self, index, first, second }
    }
}

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwritten {
    /// There is no such register.
    Index,
    /// The timestamp is zero, at or above [`NUMBER_END`], or belongs to another register.
    Misplaced,
    /// The timestamp is smaller than the last one, or equal with another value.
    Stale,
}

#[derive(Clone, Copy, Debug)]
struct Newest {
    k: u64,
    half: u32,
}

/// The writing side. There is one per region, and it is never made again on words that were written.
#[derive(Clone, Debug)]
pub struct Owner<W> {
    words: W,
    region: Region,
    newest: Vec<Newest>,
}

impl<W: Words> Owner<W> {
    /// The owner of a region whose words are all zero.
    #[must_use]
    pub fn new(region: Region, words: W) -> Self {
        // The first WRITE goes into the first sub-register.
        let none = Newest { k: 0, half: region.halves() - 1 };
        Self { words, region, newest: (0..region.spec.registers).map(|_| none).collect() }
    }

    /// WRITEs `value` under `k` into register `index`; when it returns, the WRITE is complete at this memory. Without
    /// atomic reads the caller has let the cooldown pass since the last WRITE of this register. Writing the newest
    /// once more is complete at once and stores nothing.
    ///
    /// # Errors
    /// Says why nothing was written.
    pub fn write(&mut self, index: u32, k: u64, value: &Value) -> Result<(), Unwritten> {
        let newest = self.newest.get_mut(index as usize).ok_or(Unwritten::Index)?;
        if !self.region.holds(index, k) {
            return Err(Unwritten::Misplaced);
        }
        let data = value.words();
        if k <= newest.k {
            let same = k == newest.k && load_data(&self.words, self.region.at(index, newest.half)) == data;
            return if same { Ok(()) } else { Err(Unwritten::Stale) };
        }
        *newest = Newest { k, half: (newest.half + 1) % self.region.halves() };
        let at = self.region.at(index, newest.half);
        self.words.store(at, 0);
        self.words.fence(Fence::Release);
        for (to, word) in (at + 1..).zip(data) {
            self.words.store(to, word);
        }
        self.words.fence(Fence::Release);
        self.words.store(at, k);
        self.words.fence(Fence::SeqCst);
        Ok(())
    }

    /// The timestamp of the newest WRITE of register `index`; 0 for none.
    #[must_use]
    pub fn newest(&self, index: u32) -> u64 {
        self.newest.get(index as usize).map_or(0, |newest| newest.k)
    }
}

fn load_data<W: Words>(words: &W, at: u32) -> [u64; DATA_WORDS] {
    let mut data = [0; DATA_WORDS];
    for (word, from) in data.iter_mut().zip(at + 1..) {
        *word = words.load(from);
    }
    data
}

/// A sub-register as it was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Half {
    before: u64,
    data: [u64; DATA_WORDS],
    after: u64,
}

enum Standing {
    Whole(u64),
    None,
    Changed,
}

impl Half {
    fn copy<W: Words>(words: &W, at: u32) -> Self {
        let before = words.load(at);
        words.fence(Fence::Acquire);
        let data = load_data(words, at);
        words.fence(Fence::Acquire);
        Self { before, data, after: words.load(at) }
    }

    fn entry(&self) -> Entry {
        Entry { k: self.before, value: Value::of(&self.data) }
    }
}

/// How long a READ took, in nanoseconds of the reader's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From before the copy to after it.
    pub taken_ns: u64,
    /// The cooldown delta of the region; it means nothing with atomic reads.
    pub delta_ns: u64,
}

/// A timestamp and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The timestamp.
    pub k: u64,
    /// What was written under it. That the broadcaster signed it is not checked here.
    pub value: Value,
}

/// What no correct owner does. The READ gives "none", and later READs go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abuse {
    /// Both sub-registers have one timestamp.
    EqualTimestamps,
    /// Both sub-registers changed within half of the cooldown.
    Restless,
}

/// What a READ gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This entry.
    Value(Entry),
    /// Nothing was written.
    None,
    /// Nothing can be said: copy again.
    Retry,
    /// "None", and the owner is to blame.
    Abuse(Abuse),
}

/// What a READ copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copies {
    region: Region,
    index: u32,
    first: Half,
    second: Option<Half>,
}

impl Copies {
    fn standing(&self, half: &Half) -> Standing {
        match half.before {
            k if k != half.after => Standing::Changed,
            k if self.region.holds(self.index, k) => Standing::Whole(k),
            _ => Standing::None,
        }
    }

    /// Says what the READ gives, knowing how long it took.
    #[must_use]
    pub fn judge(&self, pace: Pace) -> Verdict {
        let first = self.standing(&self.first);
        let Some(second) = &self.second else {
            return match first {
                Standing::Whole(_) => Verdict::Value(self.first.entry()),
                Standing::None => Verdict::None,
                Standing::Changed => Verdict::Retry,
            };
        };
        match (first, self.standing(second)) {
            (Standing::Whole(a), Standing::Whole(b)) if a == b => Verdict::Abuse(Abuse::EqualTimestamps),
            (Standing::Whole(a), Standing::Whole(b)) if a > b => Verdict::Value(self.first.entry()),
            (Standing::Whole(_), Standing::Whole(_)) => Verdict::Value(second.entry()),
            _ if pace.taken_ns >= pace.delta_ns / 2 => Verdict::Retry,
            (Standing::Whole(_), _) => Verdict::Value(self.first.entry()),
            (_, Standing::Whole(_)) => Verdict::Value(second.entry()),
            (Standing::Changed, Standing::Changed) => Verdict::Abuse(Abuse::Restless),
            _ => Verdict::None,
        }
    }
}
