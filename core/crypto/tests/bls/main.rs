//! Promises of multi-signatures: registration, sums, verdicts, the search for bad shares, certificates.
//!
//! What needs only the laws of sums runs with toy keys too; points that no honest signer makes are made of the curve.

mod certificates;
mod families;
mod registration;
mod searching;
mod verdicts;

use blst::min_pk::{AggregateSignature, Signature};
use synod_crypto::bls::{BlsClaim, BlsSecret, BlsSignature, SignatureSum};
use synod_crypto::{Hash, Keys, Scope, Seed, Statement, toy};
use synod_quorum::Epoch;
use synod_wire::{Drawn, wire};

wire! {
    /// Something to say together.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Say(pub u64);
}

impl Statement for Say {
    const PROTOCOL: u8 = 251;
    const VERSION: u8 = 1;
    fn kind(&self) -> u16 {
        1
    }
}

const SCOPE: Scope = Scope { cluster: Hash([9; 32]), epoch: Epoch(2) };

/// A maker of keys by name.
type Make = fn(u64) -> Keys;

/// Both schemes.
const SCHEMES: [Make; 2] = [real, toys];

fn real(name: u64) -> Keys {
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&name.to_le_bytes());
    Keys::ed25519(&Seed::new(seed), [3; 32]).with_bls(BlsSecret::new(&Seed::new(seed)))
}

fn toys(name: u64) -> Keys {
    toy::Universe::new(1).keys(name)
}

fn signed(keys: &Keys, what: u64) -> BlsSignature {
    keys.sign_bls(&SCOPE, &Say(what)).expect("a secret for multi-signatures")
}

/// The claim that `signers` said `what`, with their genuine signatures.
fn claim(make: Make, signers: impl Iterator<Item = u64> + Clone, what: u64) -> BlsClaim<Say> {
    let keys = make(0);
    let public = signers.clone().map(|name| make(name).bls_public().expect("a key"));
    let signatures = signers.map(|name| signed(&make(name), what));
    BlsClaim {
        statement: Say(what),
        scope: SCOPE,
        keys: keys.bls().sum_keys(public),
        signature: keys.bls().sum_signatures(signatures).to_signature(),
    }
}

/// `a + b`, or `a - b` with `minus`.
fn moved(keys: &Keys, a: BlsSignature, b: BlsSignature, minus: Sign) -> BlsSignature {
    let mut sum: SignatureSum = keys.bls().sum_signatures([a]);
    match minus {
        Sign::Plus => sum.add_signature(&b),
        Sign::Minus => sum.subtract(&keys.bls().sum_signatures([b])),
    }
    sum.to_signature()
}

/// Which way a point is moved.
#[derive(Clone, Copy)]
enum Sign {
    Plus,
    Minus,
}

/// A point of the curve outside G2.
fn stray(keys: &Keys, from: &mut Drawn) -> BlsSignature {
    loop {
        let mut bytes = [0; 96];
        bytes[0] = 0x80;
        bytes[40..48].copy_from_slice(&from.next().to_le_bytes());
        bytes[88..].copy_from_slice(&from.next().to_le_bytes());
        if let Ok(signature) = keys.bls().signature(&bytes) {
            return signature;
        }
    }
}

/// A point whose order divides the cofactor: the order of G2 times a stray point.
fn torsion(keys: &Keys, from: &mut Drawn) -> BlsSignature {
    let order: [u64; 4] =
        [0x73ed_a753_299d_7d48, 0x3339_d808_09a1_d805, 0x53bd_a402_fffe_5bfe, 0xffff_ffff_0000_0001];
    let point = stray(keys, from);
    let point = Signature::from_bytes(&point.to_bytes()).expect("on the curve");
    let step = AggregateSignature::from_signature(&point);
    let mut product: Option<AggregateSignature> = None;
    for bit in order.iter().flat_map(|word| (0..64).rev().map(move |at| word >> at & 1)) {
        if let Some(sum) = &mut product {
            let twice = *sum;
            sum.add_aggregate(&twice);
        }
        if bit == 1 {
            match &mut product {
                None => product = Some(step),
                Some(sum) => sum.add_aggregate(&step),
            }
        }
    }
    let torsion = product.expect("the order is not zero").to_signature();
    assert!(!torsion.subgroup_check(), "torsion is outside G2");
    keys.bls().signature(&torsion.to_bytes()).expect("on the curve")
}
