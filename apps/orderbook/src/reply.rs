//! What an operation is answered with: 32 bytes, and 16 for each of at most 16 fills.
//!
//! Layout, little-endian: code, number of fills, two zero bytes, fills that did not fit (u32), lots filled, lots left
//! open, number of the trader's last event; then price and lots of each fill. Fills that did not fit are in the
//! trader's stream of events, in order.

use synod_wire::{Draw, Drawn, Malformed, Reader, Why, Wire, Writer, wire};

use crate::units::{Lots, Ticks};

/// Most fills of a reply.
pub const FILLS_MAX: usize = 16;
/// Bytes of a reply without fills.
pub const REPLY_BYTES_MIN: usize = 32;
/// Bytes of a reply with all fills.
pub const REPLY_BYTES_MAX: usize = REPLY_BYTES_MIN + 16 * FILLS_MAX;

const _: () = assert!(REPLY_BYTES_MAX == 288, "the size of the design");

wire! {
    /// What became of an operation. From 16 on it was refused and changed nothing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Code {
        /// What is left rests in the book.
        0 = Resting,
        /// It was filled.
        1 = Filled,
        /// What is left ended.
        2 = Ended,
        /// It waits for its stop.
        3 = Waiting,
        /// It was cancelled.
        4 = Cancelled,
        /// It could not be filled wholly, and was not at all.
        5 = Killed,
        /// Those bytes are no operation.
        16 = Malformed,
        /// There is no such symbol.
        17 = NoSymbol,
        /// A price or quantity of zero.
        18 = Zero,
        /// What is asked excludes itself.
        19 = Contradictory,
        /// Quantity or money beyond what is counted.
        20 = TooLarge,
        /// It would have ended already.
        21 = Late,
        /// A post-only order would trade at once.
        22 = WouldTrade,
        /// The sender has no such order.
        23 = NoOrder,
        /// Less than it takes away is open.
        24 = TooMuch,
        /// The symbol has as many orders as it may.
        25 = SymbolFull,
        /// The sender has as many orders as it may.
        26 = TraderFull,
        /// There are as many traders with orders as there may be.
        27 = TradersFull,
        /// The symbol has as many all-or-none orders as it may.
        28 = AllOrNoneFull,
        /// Whether it can be filled wholly takes more looks at orders than one operation may take.
        29 = TooDeep,
        /// The sender has an order of this request already.
        30 = Repeated,
    }

    /// A trade as its sides see it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Fill {
        /// At what price.
        pub price: Ticks,
        /// How much.
        pub lots: Lots,
    }
}

impl Code {
    /// Whether the operation was refused.
    #[must_use]
    pub fn is_refusal(self) -> bool {
        self >= Self::Malformed
    }
}

/// The reply to an operation that is no question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What became of it.
    pub code: Code,
    /// Fills that did not fit.
    pub more: u32,
    /// Lots that were filled at once.
    pub filled: Lots,
    /// Lots that are open.
    pub left: Lots,
    /// The number of the trader's last event, 0 before the first.
    pub event: u64,
    fills: Vec<Fill>,
}

impl Reply {
    /// A reply without fills.
    #[must_use]
    pub const fn of(code: Code) -> Self {
        Self { code, more: 0, filled: Lots::ZERO, left: Lots::ZERO, event: 0, fills: Vec::new() }
    }

    /// The same with so many lots open.
    #[must_use]
    pub const fn with_left(mut self, left: Lots) -> Self {
        self.left = left;
        self
    }

    /// The first fills, at most [`FILLS_MAX`], in the order of trading.
    #[must_use]
    pub fn fills(&self) -> &[Fill] {
        &self.fills
    }

    /// Notes a fill; false when the reply has no room, and it counts as one of `more`.
    pub(crate) fn fill(&mut self, fill: Fill) -> bool {
        self.filled.0 += fill.lots.0;
        let fits = self.fills.len() < FILLS_MAX;
        if fits {
            self.fills.push(fill);
        } else {
            self.more = self.more.saturating_add(1);
        }
        fits
    }
}

impl Wire for Reply {
    fn write(&self, out: &mut Writer) {
        self.code.write(out);
        out.byte(u8::try_from(self.fills.len()).unwrap_or(u8::MAX));
        out.bytes(&[0, 0]);
        out.bytes(&self.more.to_le_bytes());
        for number in [self.filled.0, self.left.0, self.event] {
            out.bytes(&number.to_le_bytes());
        }
        for fill in &self.fills {
            out.bytes(&fill.price.0.to_le_bytes());
            out.bytes(&fill.lots.0.to_le_bytes());
        }
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let code = Code::read(input)?;
        let at = input.refuse(Why::TooLarge);
        let count = usize::from(input.byte()?);
        if count > FILLS_MAX || input.array::<2>()? != [0, 0] {
            return Err(at);
        }
        let more = u32::from_le_bytes(input.array()?);
        let [filled, left, event] = [number(input)?, number(input)?, number(input)?];
        let mut reply = Self { code, more, filled: Lots(filled), left: Lots(left), event, fills: Vec::new() };
        for _ in 0..count {
            reply.fills.push(Fill { price: Ticks(number(input)?), lots: Lots(number(input)?) });
        }
        Ok(reply)
    }

    fn size_hint(&self) -> usize {
        REPLY_BYTES_MIN + 16 * self.fills.len()
    }
}

fn number(input: &mut Reader) -> Result<u64, Malformed> {
    input.array().map(u64::from_le_bytes)
}

impl Draw for Reply {
    fn draw(from: &mut Drawn) -> Self {
        let mut reply = Self::of(Code::draw(from));
        reply.fills = (0..from.length(FILLS_MAX)).map(|_| Fill::draw(from)).collect();
        (reply.more, reply.event) = (u32::draw(from), from.next());
        (reply.filled, reply.left) = (Lots::draw(from), Lots::draw(from));
        reply
    }
}
