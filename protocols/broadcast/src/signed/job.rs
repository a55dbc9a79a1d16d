//! What is signed, hashed and checked beside the handlers.

use std::sync::Arc;

use synod_crypto::{Claim, Hash, Keys, Refusal, Signature, Verified, verify_all, verify_evidence};
use synod_machine::{Cost, Job as Work};
use synod_quorum::NodeId;
use synod_wire::Bytes;

pub use synod_machine::broadcast::{Read, View};

use super::words::{Acked, Certificate, Said, named};
use crate::Lot;
use crate::fault::Fault;

/// What stands for a payload, if it is one, and what was read of it.
pub type Reading = fn(&Bytes) -> Option<(Hash, Option<Read>)>;

/// Whether a member may except these items of a payload.
pub type MayExcept = fn(&Bytes, &[u32]) -> bool;

/// A payload by its names.
#[derive(Clone, Debug)]
pub struct Payload {
    /// In statements.
    pub digest: Hash,
    /// On the disk: of its content.
    pub name: Hash,
    /// The payload.
    pub bytes: Bytes,
    /// What was read of it, if anything was.
    pub read: Option<Read>,
}

/// The same bytes are the same payload.
impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        (self.digest, self.name, &self.bytes) == (other.digest, other.name, &other.bytes)
    }
}

impl Eq for Payload {}

impl Payload {
    fn of(bytes: Bytes, reading: Reading) -> Option<Self> {
        let (digest, read) = reading(&bytes)?;
        Some(Self { digest, name: Hash::of(&bytes), bytes, read })
    }

    /// One that this node's user put together.
    fn known(bytes: Bytes, digest: Hash, read: Read, reading: Reading) -> Self {
        let is_so = || reading(&bytes).is_some_and(|(read, _)| read == digest);
        debug_assert!(is_so(), "the user knows what it broadcasts");
        Self { digest, name: Hash::of(&bytes), bytes, read: Some(read) }
    }
}

/// A good ACK, or the member who said what it may not, and what that is.
pub type CheckedAck = Result<(Verified<Claim<Acked>>, Said), (u8, Fault)>;

/// Work of the signed broadcast.
#[derive(Clone, Debug)]
pub enum Job {
    /// Hashes and signs this node's own payload.
    Seal {
        /// Under which keys.
        view: Arc<View>,
        /// Its slot.
        lot: Lot,
        /// The payload.
        payload: Bytes,
        /// What stands for it and what reading it would give, if the user says so.
        known: Option<(Hash, Read)>,
        /// See [`super::Items`].
        reading: Reading,
    },
    /// Hashes a payload that came, and checks its source's signature where it came with one.
    Take {
        /// Under which keys.
        view: Arc<View>,
        /// Who sent it.
        from: NodeId,
        /// For which slot.
        lot: Lot,
        /// The payload.
        payload: Bytes,
        /// The source's.
        signature: Option<Signature>,
        /// See [`super::Items`].
        reading: Reading,
    },
    /// Signs an ACK.
    Sign {
        /// Under which keys.
        view: Arc<View>,
        /// This node.
        me: NodeId,
        /// What is signed.
        acked: Acked,
        /// The same with its list.
        said: Said,
    },
    /// Checks ACKs of one payload.
    Acks {
        /// Under which keys.
        view: Arc<View>,
        /// The slot.
        lot: Lot,
        /// Of the payload.
        digest: Hash,
        /// The ACKs.
        said: Vec<Said>,
        /// The payload, if it is in memory, to hold lists of exceptions against.
        payload: Option<Bytes>,
        /// See [`super::Items`].
        may_except: MayExcept,
    },
    /// Checks a certificate.
    Certify {
        /// Under which keys.
        view: Arc<View>,
        /// Who sent it.
        from: NodeId,
        /// The certificate.
        certificate: Certificate,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Done {
    /// This node's own payload is signed, if it is one.
    Sealed {
        /// The payload.
        payload: Option<Payload>,
        /// The statement about it.
        acked: Option<Verified<Claim<Acked>>>,
    },
    /// A payload has this digest; the statement is there if the source's signature is good.
    Taken {
        /// Who sent it.
        from: NodeId,
        /// For which slot.
        lot: Lot,
        /// The payload; `None` for what is none.
        payload: Option<Payload>,
        /// The source's statement; `None` where none came along.
        signed: Option<Result<Verified<Claim<Acked>>, Signature>>,
    },
    /// An ACK is signed.
    Signed {
        /// What was signed.
        acked: Verified<Claim<Acked>>,
        /// The same with its list and its signature.
        said: Said,
    },
    /// ACKs are checked, one by one.
    Acks {
        /// The slot.
        lot: Lot,
        /// Of the payload.
        digest: Hash,
        /// Good ones, and members whose are not.
        said: Vec<CheckedAck>,
    },
    /// A certificate is checked.
    Certified {
        /// Who sent it.
        from: NodeId,
        /// The certificate, or why it proves nothing.
        certificate: Result<Verified<Certificate>, Refusal>,
    },
}

impl Work for Job {
    type Done = Done;

    fn run(self, keys: &Keys) -> Done {
        match self {
            Self::Seal { view, lot, payload, known, reading } => {
                let payload = match known {
                    Some((digest, read)) => Some(Payload::known(payload, digest, read, reading)),
                    None => Payload::of(payload, reading),
                };
                let acked = payload.as_ref().map(|payload| whole(&view, lot, payload.digest));
                let acked = acked.map(|acked| keys.sign(view.scope(), NodeId(u32::from(lot.source)), acked));
                Done::Sealed { payload, acked }
            }
            Self::Take { view, from, lot, payload, signature, reading } => {
                let payload = Payload::of(payload, reading);
                let signed = payload.as_ref().zip(signature).map(|(payload, signature)| {
                    let acked = whole(&view, lot, payload.digest);
                    let claim = view.claim(NodeId(u32::from(lot.source)), acked, signature);
                    claim.and_then(|claim| claim.verify(keys).ok()).ok_or(signature)
                });
                Done::Taken { from, lot, payload, signed }
            }
            Self::Sign { view, me, acked, said } => {
                let acked = keys.sign(view.scope(), me, acked);
                let said = Said { signature: acked.signature, ..said };
                Done::Signed { acked, said }
            }
            Self::Acks { view, lot, digest, said, payload, may_except } => {
                let may = |said: &Said| {
                    let listed = payload.as_ref().filter(|_| !said.except.items().is_empty());
                    listed.is_none_or(|payload| may_except(payload, said.except.items()))
                };
                Done::Acks { lot, digest, said: check(&view, (lot, digest), said, may, keys) }
            }
            Self::Certify { view, from, certificate } => {
                let certificate = verify_evidence(certificate, keys, view.cluster, &view.roster);
                Done::Certified { from, certificate }
            }
        }
    }

    fn cost(&self) -> Cost {
        match self {
            Self::Seal { payload, .. } => Cost { sign: 1, hashed: payload.len() as u64, ..Cost::default() },
            Self::Take { payload, signature, .. } => {
                let verify = u32::from(signature.is_some());
                Cost { verify, hashed: payload.len() as u64, ..Cost::default() }
            }
            Self::Sign { .. } => Cost { sign: 1, ..Cost::default() },
            Self::Acks { said, payload, .. } => {
                let lists = said.iter().filter(|said| !said.except.items().is_empty()).count() as u64;
                let read = lists * payload.as_ref().map_or(0, |payload| payload.len() as u64);
                Cost { hashed: read, coded: read, ..batch(said.len()) }
            }
            Self::Certify { certificate, .. } => batch(certificate.said.len()),
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Take { from, .. } | Self::Certify { from, .. } => Some(*from),
            Self::Seal { .. } | Self::Sign { .. } | Self::Acks { .. } => None,
        }
    }
}

fn batch(signatures: usize) -> Cost {
    Cost { batch_verify: u32::try_from(signatures).unwrap_or(u32::MAX), ..Cost::default() }
}

/// What a source says of its own payload: all of it, authorized.
pub(super) fn whole(view: &View, lot: Lot, digest: Hash) -> Acked {
    Acked { context: named(view.context), lot, digest, except: Hash::ZERO, authorized: true }
}

fn check(
    view: &View,
    (lot, digest): (Lot, Hash),
    said: Vec<Said>,
    may: impl Fn(&Said) -> bool,
    keys: &Keys,
) -> Vec<CheckedAck> {
    let claims = said.iter().filter_map(|one| {
        let statement = one.statement(view.context, lot, digest);
        view.claim(NodeId(u32::from(one.member)), statement, one.signature)
    });
    let claims: Vec<Claim<Acked>> = claims.collect();
    assert!(claims.len() == said.len(), "members were looked up before");
    let checked = verify_all(claims, keys).into_iter().zip(said);
    let checked = checked.map(|(good, one)| match good {
        Ok(_) if !may(&one) => Err((one.member, Fault::BadExceptions)),
        Ok(claim) => Ok((claim, one)),
        Err(_) => Err((one.member, Fault::BadSignature)),
    });
    checked.collect()
}
