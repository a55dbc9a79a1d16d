//! What clients and servers sign: nine statements, each in its own domain (signed prefix of `synod_crypto`).
//!
//! Bodies are fixed-width little-endian, without a tag: the kind stands in the prefix. BLS keys and signatures are
//! bytes here; whether they are points of the right group is checked where they are used.

use core::fmt;

use synod_crypto::{Hash, PublicKey};
use synod_machine::planted;
use synod_wire::{Draw, Drawn, Malformed, Reader, Why, Writer};

use crate::fixed::{Fixed, fixed};

macro_rules! bytes_of {
    ($( $(#[$doc:meta])* $name:ident[$size:literal] $label:literal; )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub [u8; $size]);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($label)
            }
        }

        impl Fixed for $name {
            fn put(&self, out: &mut Writer) {
                out.bytes(&self.0);
            }
            fn take(input: &mut Reader) -> Result<Self, Malformed> {
                input.array().map(Self)
            }
        }

        impl Draw for $name {
            fn draw(from: &mut Drawn) -> Self {
                Self(Draw::draw(from))
            }
        }
    )*};
}

bytes_of! {
    /// A compressed BLS12-381 public key (G1). A name; card checks decide whether it is a key.
    BlsKeyBytes[48] "bls key";
    /// A compressed BLS12-381 signature (G2). Never an identifier.
    BlsSignatureBytes[96] "bls sig";
    /// An uncompressed BLS12-381 signature (G2), as clients send their shares.
    BlsShareBytes[192] "bls share";
}

impl BlsSignatureBytes {
    /// What stands in a field that holds no signature.
    pub const ZERO: Self = Self([0; 96]);
}

/// What a batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Messages of clients.
    Messages,
    /// Cards of clients to come.
    SignUp,
}

impl Fixed for Kind {
    fn put(&self, out: &mut Writer) {
        out.byte(match self {
            Self::Messages => 1,
            Self::SignUp => 2,
        });
    }
    fn take(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::OutOfRange);
        match u8::take(input)? {
            1 => Ok(Self::Messages),
            2 => Ok(Self::SignUp),
            tag => Err(Malformed { why: Why::UnknownTag(tag), ..refusal }),
        }
    }
}

impl Draw for Kind {
    fn draw(from: &mut Drawn) -> Self {
        if bool::draw(from) { Self::Messages } else { Self::SignUp }
    }
}

fixed! {
    /// Kind 1: a client registers its two keys, with proof that it has the first. Ed25519.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SignUp {
        /// The BLS key.
        pub bls: BlsKeyBytes,
        /// The Ed25519 key.
        pub ed: PublicKey,
        /// Possession of `bls`: a signature over [`Possession`].
        pub pop: BlsSignatureBytes,
    }

    /// Kind 2: a client has the secret of `bls`. BLS, possession suite.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Possession {
        /// The BLS key.
        pub bls: BlsKeyBytes,
        /// The Ed25519 key it belongs with.
        pub ed: PublicKey,
    }

    /// Kind 3: a client broadcasts a message (the paper's t_i). Ed25519.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Submission {
        /// The client.
        pub id: u32,
        /// Its sequence number.
        pub k0: u64,
        /// Flips with every broadcast, so that equal payloads in a row are two messages.
        pub parity: bool,
        /// Keyed hash of the message.
        pub message: Hash,
    }

    /// Kind 4: a client found its message under this root (the paper's s_i). BLS.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Root {
        /// Root, k, count and message size together.
        pub root_commit: Hash,
    }

    /// Kind 5: a server holds the batch, durably, and found it well formed. Ed25519.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Witness {
        /// What the batch holds.
        pub kind: Kind,
        /// Digest of the batch.
        pub digest: Hash,
        /// Height from which it may not be accepted any more.
        pub expiry: u64,
        /// Number of entries.
        pub count: u32,
        /// Bytes of the body.
        pub body_len: u32,
    }

    /// Kind 6: a server delivered a batch, and these entries not. BLS.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Delivered {
        /// The height it took.
        pub height: u64,
        /// What the batch holds.
        pub kind: Kind,
        /// Digest of the batch.
        pub digest: Hash,
        /// What its signers signed; zero for sign-ups.
        pub root_commit: Hash,
        /// Tree over the exceptions, zero when there are none; over assigned ids for sign-ups.
        pub exceptions_root: Hash,
        /// Entries not delivered.
        pub exc_count: u32,
    }

    /// Kind 7: a server delivered this many batches. BLS.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Height {
        /// The number of delivered batches, genesis included.
        pub height: u64,
    }

    /// Kind 8: a server answers where a client stands. BLS.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct State {
        /// Of the query.
        pub nonce: u64,
        /// The client.
        pub id: u32,
        /// The lowest sequence number that is still free.
        pub next_k: u64,
        /// Tag of the last delivered message, 0 before the first.
        pub tag: u64,
    }

    /// Kind 9: a client claims its id on one link of a lazy broker. Ed25519.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LinkClaim {
        /// Of the broker's challenge.
        pub nonce: [u8; 16],
        /// The broker.
        pub broker: PublicKey,
        /// The client.
        pub id: u32,
    }
}

impl Witness {
    /// What a server signs: all of it, so that nobody can give the batch another expiry.
    #[must_use]
    pub fn signed(&self) -> Self {
        let expiry = if planted!(C18) { 0 } else { self.expiry };
        Self { expiry, ..self.clone() }
    }
}

macro_rules! kinds {
    ($( $number:literal = $name:ident; )*) => {$(
        impl synod_crypto::Statement for $name {
            const PROTOCOL: u8 = 4;
            const VERSION: u8 = 1;

            fn kind(&self) -> u16 {
                $number
            }
        }
    )*};
}

kinds! {
    1 = SignUp;
    2 = Possession;
    3 = Submission;
    4 = Root;
    5 = Witness;
    6 = Delivered;
    7 = Height;
    8 = State;
    9 = LinkClaim;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use synod_crypto::{Scope, Statement};
    use synod_quorum::Epoch;
    use synod_wire::{Limits, Wire};

    fn signed<S: Statement + Draw>() -> (usize, u16, Vec<u8>) {
        let scope = Scope { cluster: Hash([3; 32]), epoch: Epoch(1) };
        let statement = S::draw(&mut Drawn::new(1));
        (statement.encode().len(), statement.kind(), statement.signed_bytes(&scope))
    }

    #[test]
    fn bodies_have_the_published_sizes_and_kinds() {
        let all = [
            signed::<SignUp>(),
            signed::<Possession>(),
            signed::<Submission>(),
            signed::<Root>(),
            signed::<Witness>(),
            signed::<Delivered>(),
            signed::<Height>(),
            signed::<State>(),
            signed::<LinkClaim>(),
        ];
        let sizes: Vec<usize> = all.iter().map(|(size, ..)| *size).collect();
        assert_eq!(sizes, [176, 80, 45, 32, 49, 109, 8, 28, 52]);
        let kinds: Vec<u16> = all.iter().map(|(_, kind, _)| *kind).collect();
        assert_eq!(kinds, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let prefixes: BTreeSet<&[u8]> = all.iter().map(|(.., bytes)| &bytes[..4]).collect();
        assert_eq!(prefixes.len(), 9, "no statement is one of another kind");
        assert!(all.iter().all(|(.., bytes)| bytes.starts_with(&[4, 1])));
    }

    #[test]
    fn a_parity_or_kind_that_is_none_is_refused() {
        let mut bytes = Submission { id: 1, k0: 2, parity: true, message: Hash::ZERO }.encode().to_vec();
        assert_eq!(bytes[12], 1);
        bytes[12] = 2;
        assert!(Submission::decode(bytes.into(), &Limits::default()).is_err());
        let witness = Witness { kind: Kind::SignUp, digest: Hash::ZERO, expiry: 1, count: 1, body_len: 240 };
        let mut bytes = witness.encode().to_vec();
        assert_eq!(bytes[0], 2);
        for kind in [0, 3] {
            bytes[0] = kind;
            assert!(Witness::decode(bytes.clone().into(), &Limits::default()).is_err());
        }
    }
}
