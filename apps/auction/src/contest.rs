//! The order of operations that share tokens: by token, then by rank.
//!
//! A batch may have as many bids as there are tokens, so that most of them share one. Sorted as a whole they take longer than all
//! the rest; so they fall into as many buckets as there are operations first, and few are left to be sorted in each. *Bounds.* If
//! all ask for one token, they are in one bucket and sorted as a whole.

use crate::lanes::Ask;

/// An operation on a token that others of its batch ask for too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contested {
    /// Where its token is, below the number of tokens.
    pub(crate) place: usize,
    /// The rank of its sender.
    pub(crate) rank: u64,
    pub(crate) ask: Ask,
}

impl Contested {
    const fn key(&self) -> (usize, u64, u32) {
        (self.place, self.rank, self.ask.index)
    }
}

/// These operations on `tokens` tokens, by the places of their tokens, then by rank, then by index.
pub(crate) fn in_order(contested: &[Contested], tokens: usize) -> Vec<Contested> {
    // Tokens beside one another share a bucket, so that buckets in a row are tokens in a row.
    let buckets = contested.len().next_power_of_two();
    let shift = tokens.next_power_of_two().ilog2().saturating_sub(buckets.ilog2());
    let mut next = vec![0_usize; buckets + 1];
    for one in contested {
        if let Some(count) = next.get_mut((one.place >> shift) + 1) {
            *count += 1;
        }
    }
    let mut sum = 0;
    for first in &mut next {
        sum += *first;
        *first = sum;
    }
    let mut sorted = contested.to_vec();
    for one in contested {
        if let Some(at) = next.get_mut(one.place >> shift)
            && let Some(free) = sorted.get_mut(*at)
        {
            *free = *one;
            *at += 1;
        }
    }
    // Each bucket's next free place is its end now.
    let mut begin = 0;
    for end in next.into_iter().take(buckets) {
        if end > begin + 1
            && let Some(bucket) = sorted.get_mut(begin..end)
        {
            bucket.sort_unstable_by_key(Contested::key);
        }
        begin = end;
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::{Contested, in_order};
    use crate::lanes::Ask;
    use synod_wire::Drawn;

    #[test]
    fn buckets_give_the_order_that_sorting_as_a_whole_gives() {
        let mut draw = Drawn::new(9);
        for tokens in [1, 2, 3, 64, 100, 65_536, 1_000_003] {
            for count in [0, 1, 2, 3, 64, 100, 3_000] {
                let contested: Vec<Contested> = (0..count)
                    .map(|index| {
                        let mut below = |bound: usize| draw.below(bound as u64);
                        let place = usize::try_from(below(tokens)).expect("a short number");
                        // Few ranks, so that some are equal and the index decides.
                        Contested { place, rank: below(7) << 60, ask: Ask::of(index) }
                    })
                    .collect();
                let mut whole = contested.clone();
                whole.sort_by_key(Contested::key);
                assert_eq!(in_order(&contested, tokens), whole, "{count} on {tokens}");
            }
        }
    }

    #[test]
    fn operations_on_the_first_and_the_last_token_keep_their_ends() {
        let one = |place, index| Contested { place, rank: 5, ask: Ask::of(index) };
        let sorted = in_order(&[one(99, 0), one(0, 3), one(99, 1), one(0, 2)], 100);
        let order: Vec<(usize, u64, u32)> = sorted.iter().map(Contested::key).collect();
        assert_eq!(order, [(0, 5, 2), (0, 5, 3), (99, 5, 0), (99, 5, 1)]);
    }
}
