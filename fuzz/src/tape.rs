//! A cursor over input bytes that never runs dry: behind the end it gives zeros and says so.

/// Bytes as a source of choices.
#[derive(Clone, Debug)]
pub struct Tape<'a> {
    rest: &'a [u8],
}

impl<'a> Tape<'a> {
    /// Starts at the first byte.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether every byte was taken.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte; 0 behind the end.
    pub fn byte(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((first, rest)) => {
                self.rest = rest;
                *first
            }
            None => 0,
        }
    }

    /// The next two bytes as a number.
    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// A number below `bound`, by one byte; 0 when `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()).checked_rem(bound).unwrap_or(0)
    }

    /// The next `count` bytes, or what is left of them.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at_checked(count).unwrap_or((self.rest, &[]));
        self.rest = rest;
        taken
    }

    /// Bytes behind a length of one byte.
    pub fn short(&mut self) -> &'a [u8] {
        let count = usize::from(self.byte());
        self.take(count)
    }
}

#[cfg(test)]
mod tests {
    use super::Tape;

    #[test]
    fn a_tape_gives_zeros_behind_its_end() {
        let mut tape = Tape::new(&[7, 1, 0, 2, 9]);
        assert_eq!((tape.byte(), tape.word(), tape.short()), (7, 1, &[9][..]));
        assert!(tape.is_over() && tape.byte() == 0 && tape.below(3) == 0 && tape.take(4).is_empty());
    }
}
