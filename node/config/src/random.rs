//! Random text for properties: fixed streams, so that a failure repeats.

/// A splitmix64 stream.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("bounds of tests are small");
        usize::try_from(self.next() % bound).expect("it is below a usize")
    }

    fn character(&mut self) -> char {
        let ascii = u8::try_from(self.below(128)).expect("below 128");
        match self.below(20) {
            0 => char::from_u32(u32::try_from(self.below(0x11_0000)).expect("below 2^21"))
                .unwrap_or('\u{fffd}'),
            1..=4 => ['[', ']', '"', '=', '\n', '.', '{', '}', '#', '\''][self.below(10)],
            _ => char::from(ascii),
        }
    }

    /// Text that is often nearly a value.
    pub(crate) fn value(&mut self) -> String {
        let number = self.next() >> self.below(64);
        let units = ["", "Ki", "Mi", "Gi", "ms", "s", "us", "ns", "m", "kB"];
        match self.below(5) {
            0 => (0..self.below(12)).map(|_| self.character()).collect(),
            1 => format!("127.0.0.1:{number}"),
            2 => {
                ["true", "false", "group", "park", "info", "json", "off", "", "n0"][self.below(9)].to_owned()
            }
            _ => format!("{number}{}", units[self.below(units.len())]),
        }
    }

    /// `text` with up to four places cut, doubled or replaced.
    pub(crate) fn mutated(&mut self, text: &str) -> String {
        let mut characters: Vec<char> = text.chars().collect();
        for _ in 0..=self.below(4) {
            let at = self.below(characters.len().max(1)).min(characters.len());
            match self.below(4) {
                0 => characters.truncate(at),
                1 => characters.insert(at, self.character()),
                2 => characters.extend_from_within(at..),
                _ => {
                    let inserted = self.character();
                    if let Some(place) = characters.get_mut(at) {
                        *place = inserted;
                    }
                }
            }
        }
        characters.into_iter().collect()
    }
}
