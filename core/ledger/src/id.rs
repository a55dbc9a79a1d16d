//! Names of accounts.

use core::fmt;
use core::str::FromStr;

use synod_wire::wire;

wire! {
    /// An account: 16 bits of shard, 32 of registrar, 80 that the registrar assigns, of which version 1 uses 64. Ordered as
    /// the number of 128 bits that [`AccountId::number`] gives.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct AccountId {
        /// The shard that keeps it.
        pub shard: u16,
        /// Whoever opened it.
        pub registrar: u32,
        /// 1, 2, 3, ... in the order of the registrar's openings; 0 names no account.
        pub local: u64,
    }
}

/// Why a number or a text names no account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAccountId {
    /// It is neither shard-registrar-local nor a number of 128 bits.
    NotAnId,
    /// The local part is 0, or has more than 64 bits.
    Reserved,
}

impl fmt::Display for BadAccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAnId => {
                "an account is written SHARD-REGISTRAR-LOCAL, such as 0-1-42, or as one number of 128 bits"
            }
            Self::Reserved => "local numbers of accounts are 1 to 2^64 - 1",
        })
    }
}

impl core::error::Error for BadAccountId {}

impl AccountId {
    /// The number of 128 bits that other systems store.
    #[must_use]
    pub const fn number(self) -> u128 {
        (self.shard as u128) << 112 | (self.registrar as u128) << 80 | self.local as u128
    }

    /// 16 bytes, most significant first: what proofs hash and sort by.
    #[must_use]
    pub const fn to_be_bytes(self) -> [u8; 16] {
        self.number().to_be_bytes()
    }
}

impl TryFrom<u128> for AccountId {
    type Error = BadAccountId;

    fn try_from(number: u128) -> Result<Self, BadAccountId> {
        let [a, b, c, d, e, f, 0, 0, local @ ..] = number.to_be_bytes() else {
            return Err(BadAccountId::Reserved);
        };
        let local = u64::from_be_bytes(local);
        let id =
            Self { shard: u16::from_be_bytes([a, b]), registrar: u32::from_be_bytes([c, d, e, f]), local };
        if local == 0 { Err(BadAccountId::Reserved) } else { Ok(id) }
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.shard, self.registrar, self.local)
    }
}

impl FromStr for AccountId {
    type Err = BadAccountId;

    fn from_str(text: &str) -> Result<Self, BadAccountId> {
        let mut parts = text.split('-');
        let (Some(first), second, third, None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(BadAccountId::NotAnId);
        };
        let number = match (second, third) {
            (None, None) => first.parse().map_err(|_| BadAccountId::NotAnId)?,
            (Some(registrar), Some(local)) => {
                let parsed = (first.parse(), registrar.parse(), local.parse());
                let (Ok(shard), Ok(registrar), Ok(local)) = parsed else { return Err(BadAccountId::NotAnId) };
                Self { shard, registrar, local }.number()
            }
            _ => return Err(BadAccountId::NotAnId),
        };
        Self::try_from(number)
    }
}
