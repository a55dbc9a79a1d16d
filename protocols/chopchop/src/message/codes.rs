//! Codes of answers that refuse.

use synod_wire::{Draw, Drawn, Malformed, Reader, Why, Writer};

use crate::fixed::Fixed;

macro_rules! nacks {
    ($( $(#[$doc:meta])* $name:ident = $code:literal; )*) => {
        /// Why a broker does not take a client's message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Nack { $( $(#[$doc])* $name, )* }

        impl Nack {
            /// Every answer there is.
            pub const ALL: &'static [Self] = &[ $( Self::$name, )* ];

            /// The code on the wire.
            #[must_use]
            pub const fn code(self) -> u16 {
                match self { $( Self::$name => $code, )* }
            }
        }
    };
}

nacks! {
    /// The id is beyond the broker's directory.
    NotInDirectory = 1;
    /// The message does not have the size of the broker's class.
    Class = 2;
    /// The number is above what the broker knows to be legitimate.
    NeedCertificate = 3;
    /// The broker takes no more at present.
    Busy = 4;
    /// The link must claim the id first.
    NeedClaim = 5;
    /// The message breaks a rule.
    Refused = 6;
}

impl Fixed for Nack {
    fn put(&self, out: &mut Writer) {
        self.code().put(out);
    }
    fn take(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::OutOfRange);
        let code = u16::take(input)?;
        Self::ALL.iter().copied().find(|known| known.code() == code).ok_or(refusal)
    }
}

impl Draw for Nack {
    fn draw(from: &mut Drawn) -> Self {
        let at = usize::try_from(from.below(Self::ALL.len() as u64)).unwrap_or(0);
        Self::ALL.get(at).copied().unwrap_or(Self::Busy)
    }
}
