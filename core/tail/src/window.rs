//! A sliding bitmap over numbers.

/// Smallest window, in numbers.
pub const WINDOW_MIN: u32 = 64;
/// Largest window, in numbers.
pub const WINDOW_MAX: u32 = 4_096;

/// What setting a number found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It was not set; now it is.
    New,
    /// It was set before.
    Before,
    /// It lies below the window; nothing changed.
    Below,
    /// It lies beyond the window; nothing changed.
    Beyond,
}

/// Which of the numbers base, base + 1, .., base + W - 1 were seen. W is a power of two between [`WINDOW_MIN`] and
/// [`WINDOW_MAX`]. The base never falls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitWindow {
    base: u64,
    /// Bit `n mod W` stands for n; bits of numbers outside the window are zero, so equal windows have equal words.
    words: Vec<u64>,
}

impl BitWindow {
    /// A window of `size` numbers from `base` on, none of them seen.
    ///
    /// # Panics
    /// When `size` is no power of two within the limits: a configuration that was not checked.
    #[must_use]
    pub fn new(base: u64, size: u32) -> Self {
        assert!(Self::is_size(size), "a window is a power of two between {WINDOW_MIN} and {WINDOW_MAX}");
        Self { base, words: (0..size / 64).map(|_| 0).collect() }
    }

    /// Rebuilds a window from what [`BitWindow::base`] and [`BitWindow::words`] gave; `None` when the words are not
    /// those of a window.
    #[must_use]
    pub fn from_words(base: u64, words: Vec<u64>) -> Option<Self> {
        let size = u32::try_from(words.len()).ok()?.checked_mul(64)?;
        Self::is_size(size).then_some(Self { base, words })
    }

    /// Whether a window can have this size.
    #[must_use]
    pub const fn is_size(size: u32) -> bool {
        size.is_power_of_two() && size >= WINDOW_MIN && size <= WINDOW_MAX
    }

    /// The lowest number of the window.
    #[must_use]
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// How many numbers the window spans.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.words.len() as u64 * 64
    }

    /// The first number beyond the window.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.base.saturating_add(self.size())
    }

    /// The bitmap, in the order that [`BitWindow::from_words`] takes.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// What [`BitWindow::set`] would find.
    #[must_use]
    pub fn look(&self, number: u64) -> Seen {
        if number < self.base {
            return Seen::Below;
        }
        if number >= self.end() {
            return Seen::Beyond;
        }
        let (at, bit) = self.place(number);
        if self.words[at] & bit == 0 { Seen::New } else { Seen::Before }
    }

    /// Marks `number` as seen, if it lies in the window.
    pub fn set(&mut self, number: u64) -> Seen {
        let seen = self.look(number);
        if seen == Seen::New {
            let (at, bit) = self.place(number);
            self.words[at] |= bit;
        }
        seen
    }

    /// Whether `number` lies in the window and was seen.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.look(number) == Seen::Before
    }

    /// Moves the base up to `base`; a lower one changes nothing.
    pub fn advance(&mut self, base: u64) {
        if base >= self.end() {
            self.words.fill(0);
        } else {
            for number in self.base..base {
                let (at, bit) = self.place(number);
                self.words[at] &= !bit;
            }
        }
        self.base = self.base.max(base);
    }

    /// Numbers seen in the window.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    fn place(&self, number: u64) -> (usize, u64) {
        let at = usize::try_from((number / 64) & (self.words.len() as u64 - 1));
        (at.unwrap_or(0), 1 << (number % 64))
    }
}
