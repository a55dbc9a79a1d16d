//! Keys that may sign with others.

use core::fmt;

use super::points::BlsPublicKey;
use super::scheme::{Bls, POSSESSION, Said};
use crate::{Keys, Scope, Statement};

/// Why a key or a signature is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBls {
    /// The bytes are no canonical encoding.
    Encoding,
    /// The coordinates are no point of the curve.
    NoPoint,
    /// The point is outside its group.
    OutsideGroup,
    /// The point is infinity.
    Infinity,
    /// The proof of possession is not of the key.
    Possession,
}

impl fmt::Display for BadBls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Encoding => "the point is not in its canonical encoding",
            Self::NoPoint => "the coordinates are no point of the curve",
            Self::OutsideGroup => "the point is outside its group",
            Self::Infinity => "the point is infinity",
            Self::Possession => "the proof of possession is not of this key",
        })
    }
}

impl core::error::Error for BadBls {}

/// A key that its owner wants registered, and the proof that the owner has its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    key: [u8; 48],
    possession: [u8; 96],
    message: Vec<u8>,
}

impl Registration {
    /// A possession over `statement`, which names the key.
    #[must_use]
    pub fn of_statement<S: Statement>(
        key: [u8; 48],
        possession: [u8; 96],
        statement: &S,
        scope: &Scope,
    ) -> Self {
        Self { key, possession, message: statement.signed_bytes(scope) }
    }

    /// A possession over the key alone, for keys that are part of what names the cluster. A statement's signed bytes are
    /// never as short as a key.
    #[must_use]
    pub fn of_key(key: [u8; 48], possession: [u8; 96]) -> Self {
        Self { key, possession, message: key.to_vec() }
    }
}

impl Bls<'_> {
    /// Registers keys: each comes back, or the rule that it breaks, in order. Possessions are checked together, 0.6 ms each
    /// when all are good. Whether keys are distinct is for the directory that takes them.
    #[must_use]
    pub fn register(&self, registrations: &[Registration]) -> Vec<Result<BlsPublicKey, BadBls>> {
        let mut verdicts = Vec::with_capacity(registrations.len());
        let mut parsed = Vec::new();
        for (at, one) in registrations.iter().enumerate() {
            let key = self.vouched_key(&one.key);
            let possession = self.signature(&one.possession).map_err(|_| BadBls::Possession);
            verdicts.push(key.and_then(|key| possession.map(|_| key)));
            if let (Ok(key), Ok(possession)) = (key, possession) {
                parsed.push((at, self.sum_keys([key]), possession));
            }
        }
        let said: Vec<Said<'_>> = parsed
            .iter()
            .map(|(at, keys, signature)| Said { keys, signature, message: &registrations[*at].message })
            .collect();
        let good = self.which_hold(POSSESSION, &said);
        for ((at, ..), good) in parsed.iter().zip(good) {
            if !good {
                verdicts[*at] = Err(BadBls::Possession);
            }
        }
        verdicts
    }
}

impl Keys {
    /// The possession of the own key over `statement`, compressed; nothing without a secret for multi-signatures.
    #[must_use]
    pub fn possess<S: Statement>(&self, scope: &Scope, statement: &S) -> Option<[u8; 96]> {
        self.bls().sign(POSSESSION, &statement.signed_bytes(scope)).map(|proof| proof.to_bytes())
    }

    /// The possession of the own key over the key alone, as [`Registration::of_key`] wants it.
    #[must_use]
    pub fn possess_key(&self) -> Option<[u8; 96]> {
        let bls = self.bls();
        let key = bls.public()?.to_bytes();
        bls.sign(POSSESSION, &key).map(|proof| proof.to_bytes())
    }
}
