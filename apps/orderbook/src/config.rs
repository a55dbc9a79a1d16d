//! What all replicas must agree on about the book: its bounds.

use synod_wire::wire;

/// Orders a symbol may have at most, whatever is configured: with [`crate::LOTS_MAX`] a level's sum fits 64 bits.
const ORDERS_END: u32 = 1 << 16;

wire! {
    /// The bounds of a book. What is beyond one of them is refused with a code of its own, or the oldest is forgotten.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Config {
        /// Symbols, numbered from 0.
        pub symbols: u16,
        /// Orders of a symbol that rest or wait: SymbolFull.
        pub orders_max: u32,
        /// Orders of a trader that rest or wait: TraderFull.
        pub trader_orders_max: u32,
        /// All-or-none orders of a symbol: AllOrNoneFull.
        pub all_or_none_max: u32,
        /// Traders; the one without orders that is idle longest is forgotten, else TradersFull.
        pub traders_max: u32,
        /// Events kept of a trader, then the oldest is forgotten.
        pub events_max: u32,
        /// Trades kept of a symbol, then the oldest is forgotten.
        pub tape_max: u32,
        /// Changes of levels kept of a symbol, then the oldest is forgotten.
        pub feed_max: u32,
        /// Orders that one operation may look at to learn whether one can be filled wholly: TooDeep.
        pub looks_max: u32,
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            symbols: 16,
            orders_max: 1 << 16,
            trader_orders_max: 4_096,
            all_or_none_max: 256,
            traders_max: 1 << 14,
            events_max: 64,
            tape_max: 1_024,
            feed_max: 4_096,
            looks_max: 4_096,
        }
    }
}

impl Config {
    /// Whether a book can have these bounds: none is zero, and a symbol has at most 65,536 orders.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        let least = [self.trader_orders_max, self.all_or_none_max, self.traders_max, self.events_max];
        let others = [self.tape_max, self.feed_max, self.looks_max, self.orders_max];
        let mut at = 0;
        while at < least.len() {
            if least[at] == 0 || others[at] == 0 {
                return false;
            }
            at += 1;
        }
        self.symbols > 0 && self.orders_max <= ORDERS_END
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, ORDERS_END};

    #[test]
    fn a_bound_of_nothing_and_orders_beyond_a_sum_are_unsound() {
        let sound = Config::default();
        assert!(sound.is_sound());
        for orders_max in [ORDERS_END - 1, ORDERS_END] {
            assert!(Config { orders_max, ..sound }.is_sound());
        }
        let unsound = [
            Config { orders_max: ORDERS_END + 1, ..sound },
            Config { symbols: 0, ..sound },
            Config { orders_max: 0, ..sound },
            Config { trader_orders_max: 0, ..sound },
            Config { all_or_none_max: 0, ..sound },
            Config { traders_max: 0, ..sound },
            Config { events_max: 0, ..sound },
            Config { tape_max: 0, ..sound },
            Config { feed_max: 0, ..sound },
            Config { looks_max: 0, ..sound },
        ];
        assert!(unsound.iter().all(|config| !config.is_sound()));
    }
}
