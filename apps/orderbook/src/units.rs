//! Prices, quantities, money, names: integers that cannot be mistaken for one another.

use synod_wire::wire;

/// The largest quantity of one order. A level holds at most 2^16 orders, so its sum fits 64 bits.
pub const LOTS_MAX: Lots = Lots((1 << 48) - 1);

wire! {
    /// A price in ticks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Ticks(pub u64);

    /// A quantity in lots.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub struct Lots(pub u64);

    /// What is traded, by its number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Symbol(pub u16);

    /// Who trades: the number of a session.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct TraderId(pub u64);

    /// An order by its place: whose, and with which request it came.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct OrderId {
        /// Whose.
        pub trader: TraderId,
        /// The request that placed it.
        pub request: u64,
    }
}

/// Money: ticks times lots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(pub u64);

impl Ticks {
    /// What so many lots cost at this price; `None` beyond 64 bits.
    #[must_use]
    pub const fn times(self, lots: Lots) -> Option<Money> {
        match self.0.checked_mul(lots.0) {
            Some(money) => Some(Money(money)),
            None => None,
        }
    }
}

impl Lots {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// The sum; `None` above [`LOTS_MAX`].
    #[must_use]
    pub fn plus(self, more: Self) -> Option<Self> {
        self.0.checked_add(more.0).map(Self).filter(|sum| *sum <= LOTS_MAX)
    }

    /// What is left without `less`; `None` below zero.
    #[must_use]
    pub const fn minus(self, less: Self) -> Option<Self> {
        match self.0.checked_sub(less.0) {
            Some(left) => Some(Self(left)),
            None => None,
        }
    }

    /// Whether there is nothing.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{LOTS_MAX, Lots, Money, Ticks};

    #[test]
    fn products_and_sums_are_checked_at_their_ends() {
        assert_eq!(Ticks(3).times(Lots(4)), Some(Money(12)));
        assert_eq!(Ticks(u64::MAX).times(Lots(1)), Some(Money(u64::MAX)));
        assert_eq!(Ticks(u64::MAX).times(Lots(2)), None);
        let one_below = Lots(LOTS_MAX.0 - 1);
        assert_eq!(one_below.plus(Lots(1)), Some(LOTS_MAX));
        assert_eq!(LOTS_MAX.plus(Lots(1)), None);
        assert_eq!(LOTS_MAX.plus(Lots(u64::MAX)), None);
        assert_eq!((Lots(2).minus(Lots(2)), Lots(2).minus(Lots(3))), (Some(Lots::ZERO), None));
    }
}
