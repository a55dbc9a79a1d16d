//! What work and links cost in a run.

use synod_machine::Span;
use synod_sim::{Crypto, Latency, Options, Prices};

/// Which prices are charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriceList {
    /// Signatures as on a Zen 4 core, Ed25519 (`synod bench crypto`).
    #[default]
    Today,
    /// Signatures as the paper had them: P-256 at 70 us each, alone and in batches.
    Of2020,
}

/// How large a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// A minute on a small machine, for tests.
    Quick,
    /// Some sizes of the paper.
    #[default]
    Usual,
    /// All sizes of the paper.
    Full,
}

impl Scale {
    /// Its name in results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Usual => "usual",
            Self::Full => "full",
        }
    }
}

/// Work per KiB that a replica reads or writes, in nanoseconds: some 100 bytes are one payment, whose certifying, booking and answering takes
/// a replica about 2 us (docs/papers/astro.md, "Figures").
const WORK_PER_KIB: u64 = 20_000;
/// Bytes a second that a node can send.
const EGRESS: u64 = 30 << 20;

/// The circumstances of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// Determines every draw.
    pub seed: u64,
    /// What is charged for signatures.
    pub prices: PriceList,
    /// How large it is.
    pub scale: Scale,
}

impl Circumstances {
    /// The simulator's options: two processors a node (one for events, one for jobs), European links.
    #[must_use]
    pub fn options(&self) -> Options {
        Options {
            seed: self.seed,
            token: format!("lab:{}", self.seed),
            crypto: Crypto::Toy,
            latency: Latency::Europe,
            jitter: Span::micros(200),
            egress: EGRESS,
            prices: self.price_list(),
            pool: 1,
            events_max: u64::MAX,
            ..Options::default()
        }
    }

    /// What is charged.
    #[must_use]
    pub fn price_list(&self) -> Prices {
        let today = Prices { coded_kib: WORK_PER_KIB, ..Prices::default() };
        match self.prices {
            PriceList::Today => today,
            PriceList::Of2020 => Prices { sign: 70_000, verify: 70_000, batch_verify: 70_000, ..today },
        }
    }

    /// The circumstances in words.
    #[must_use]
    pub fn words(&self) -> String {
        let Prices { turn, frame, coded_kib, sign, verify, batch_verify, .. } = self.price_list();
        format!(
            "simulated network: four European regions (0.3 to 24 ms one way), {} MiB/s a node, two processors a node; ns per event {turn}, \
             frame {frame}, KiB {coded_kib}, signature {sign}, check {verify}, check in a batch {batch_verify}; seed {}",
            EGRESS >> 20,
            self.seed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Circumstances, PriceList, Scale};

    #[test]
    fn the_prices_of_2020_differ_in_signatures_alone() {
        let of = |prices| Circumstances { seed: 1, prices, scale: Scale::Quick }.price_list();
        let (today, then) = (of(PriceList::Today), of(PriceList::Of2020));
        assert!(then.verify > today.verify && then.batch_verify > today.batch_verify);
        assert_eq!((then.turn, then.frame, then.coded_kib), (today.turn, today.frame, today.coded_kib));
    }
}
