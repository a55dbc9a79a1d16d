//! What the messages of generated batches ask for.

use bytes::Bytes;
use synod_chopchop::batch::OwnedEntry;
use synod_machine::Rng;

/// Amounts and colours repeat after as many batches.
const ROUND: u64 = 1_000;
/// Numbers above those of batches of a plan, for messages that none of those holds.
pub(super) const APART: u64 = 1 << 22;
/// Sides of the board, in bits.
const SIDE: u32 = 11;

/// Operations of an application, drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operations {
    /// 1 to 1,000 to any client, above that in small batches.
    Payments {
        /// Clients.
        clients: u32,
    },
    /// A pixel anywhere.
    Pixels,
    /// A bid on any token, above those of the batches before.
    Bids {
        /// Tokens.
        tokens: u32,
    },
    /// As many drawn bytes: operations of no application.
    Bytes(u16),
}

impl Operations {
    /// Bytes of a message.
    #[must_use]
    pub const fn size(self) -> u16 {
        match self {
            Self::Bytes(size) => size,
            Self::Payments { .. } | Self::Pixels | Self::Bids { .. } => 8,
        }
    }

    /// The number of a batch is part of its messages, so that no client says the same in batches that follow one another.
    fn operation(self, number: u64, rng: &mut Rng) -> u64 {
        let drawn = rng.draw();
        let part = |of: u32| (drawn >> 32) % u64::from(of.max(1));
        match self {
            Self::Payments { clients } => {
                let beyond = if number < APART { 0 } else { ROUND };
                part(clients) | (1 + number % ROUND + beyond) << 32
            }
            Self::Pixels => drawn >> (64 - 2 * SIDE) | (number % (1 << 24)) << (2 * SIDE),
            Self::Bids { tokens } => part(tokens) << 1 | (number % (1 << 31)) << 32,
            Self::Bytes(_) => drawn ^ number,
        }
    }

    /// The messages of batch `number`, so many, one behind another.
    pub fn messages(self, count: usize, number: u64, rng: &mut Rng) -> Bytes {
        let size = usize::from(self.size());
        let mut all = Vec::with_capacity(count * size);
        for _ in 0..count {
            let end = all.len() + size;
            while all.len() < end {
                let word = self.operation(number, rng).to_le_bytes();
                all.extend(word.into_iter().take(end - all.len()));
            }
        }
        all.into()
    }

    /// The entries of batch `number` for these ids.
    pub(super) fn entries(
        self,
        ids: &[u32],
        (number, parity): (u64, bool),
        rng: &mut Rng,
    ) -> Vec<OwnedEntry> {
        let (size, mut all) = (usize::from(self.size()), self.messages(ids.len(), number, rng));
        ids.iter().map(|id| OwnedEntry { id: *id, message: all.split_to(size), parity }).collect()
    }

    /// Whom an operation pays, and how much; none if it pays nobody.
    pub(super) fn paid(self, message: &[u8]) -> Option<(u32, u32)> {
        let Self::Payments { .. } = self else { return None };
        let (recipient, amount) = message.split_at_checked(4)?;
        Some((u32::from_le_bytes(recipient.try_into().ok()?), u32::from_le_bytes(amount.try_into().ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::Operations;
    use synod_machine::Rng;
    use synod_quorum::NodeId;

    fn words(operations: Operations, number: u64) -> Vec<u64> {
        let mut rng = Rng::new(3, NodeId(0), 0);
        let ids: Vec<u32> = (0..200).collect();
        let entries = operations.entries(&ids, (number, true), &mut rng);
        let word = |entry: &synod_chopchop::batch::OwnedEntry| {
            assert_eq!((entry.message.len(), entry.parity), (8, true));
            u64::from_le_bytes(entry.message[..].try_into().expect("eight bytes"))
        };
        entries.iter().map(word).collect()
    }

    #[test]
    fn operations_keep_the_rules_of_their_application() {
        for word in words(Operations::Payments { clients: 50 }, 7) {
            assert!(word & 0xffff_ffff < 50 && word >> 32 == 8, "{word:x}: a client, and 1 + 7");
        }
        for word in words(Operations::Pixels, 7) {
            assert!(word >> 46 == 0 && (word >> 22) & 0xff_ffff == 7, "{word:x}");
        }
        for word in words(Operations::Bids { tokens: 9 }, 7) {
            assert!(word & 1 == 0 && (word >> 1) & 0x7fff_ffff < 9 && word >> 32 == 7, "{word:x}");
        }
    }

    #[test]
    fn nobody_says_the_same_in_neighbouring_batches() {
        for operations in [Operations::Payments { clients: 1 }, Operations::Pixels, Operations::Bytes(8)] {
            let (one, next) = (words(operations, 8), words(operations, 9));
            assert!(one.iter().zip(&next).all(|(one, next)| one != next), "{operations:?}");
        }
    }

    #[test]
    fn small_batches_say_what_no_batch_of_the_plan_says() {
        for operations in
            [Operations::Payments { clients: 1 }, Operations::Pixels, Operations::Bids { tokens: 1 }]
        {
            let small = words(operations, super::APART + 8);
            assert!(
                (0..2_000).all(|number| !words(operations, number).contains(&small[0])),
                "{operations:?}"
            );
        }
    }

    #[test]
    fn who_is_paid_is_read_back() {
        let operations = Operations::Payments { clients: 50 };
        let word = words(operations, 3)[0];
        let recipient = u32::try_from(word & 0xffff_ffff).expect("four bytes");
        assert_eq!(operations.paid(&word.to_le_bytes()), Some((recipient, 4)));
        assert_eq!(Operations::Pixels.paid(&[0; 8]), None);
        let mut rng = Rng::new(1, NodeId(0), 0);
        let odd = Operations::Bytes(3).entries(&[1, 2], (1, false), &mut rng);
        assert!(odd.iter().all(|entry| entry.message.len() == 3));
    }
}
