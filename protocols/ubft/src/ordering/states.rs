//! States of users: f + 1 equal roots at one position are certified (specification, 3.2).
//!
//! A state is signed when the user reports it, and said again until it is certified. Who says one that is certified is shown the
//! certificate.
//!
//! *Bounds.* Of each replica [`SHARES_MAX`] states, the newest ones; [`CERTIFIED_MAX`] certificates; [`CHECKS_MAX`] things of a peer are
//! checked at a time, and it is answered once in T_fast.

use std::collections::BTreeMap;

use synod_crypto::{Hash, Signature};
use synod_machine::broadcast::Position;
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_wire::List;

use super::vocabulary::{Rooted, RootedBy};
use crate::certificate::Certificate;

const SHARES_MAX: usize = 8;
const CERTIFIED_MAX: usize = 4;
const CHECKS_MAX: u32 = 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct States {
    me: NodeId,
    need: usize,
    /// What the own user reported, at and above the newest certificate.
    own: BTreeMap<u64, Hash>,
    shares: BTreeMap<(u64, NodeId), (Hash, Signature)>,
    certified: BTreeMap<u64, RootedBy>,
    /// The last position of which the user knows that its state is certified.
    told: u64,
    checks: BTreeMap<NodeId, u32>,
    served: BTreeMap<NodeId, Time>,
}

impl States {
    pub(super) fn new(me: NodeId, need: u32) -> Self {
        Self { me, need: usize::try_from(need).unwrap_or(usize::MAX), ..Self::default() }
    }

    /// The newest certificate, and its position; 0 where there is none.
    pub(super) fn newest(&self) -> Option<&RootedBy> {
        self.certified.last_key_value().map(|(_, certificate)| certificate)
    }

    pub(super) fn top(&self) -> u64 {
        self.certified.last_key_value().map_or(0, |(position, _)| *position)
    }

    /// The own user reported a state. True where it is to be signed.
    pub(super) fn report(&mut self, rooted: Rooted) -> bool {
        let at = rooted.position.0;
        let is_over = at < self.top() && !self.certified.contains_key(&at);
        if is_over || self.own.contains_key(&at) {
            return false;
        }
        self.own.insert(at, rooted.root);
        while self.own.len() > SHARES_MAX {
            self.own.pop_first();
        }
        at > self.top()
    }

    /// Whether a certificate names another state than the own user has.
    pub(super) fn differs(&self) -> Option<&RootedBy> {
        let differs = |(at, certificate): &(&u64, &RootedBy)| {
            self.own.get(at).is_some_and(|own| *own != certificate.subject.root)
        };
        self.certified.iter().find(differs).map(|(_, certificate)| certificate)
    }

    /// Whether a signature of a state may be of use.
    pub(super) fn wants(&self, signer: NodeId, rooted: &Rooted) -> bool {
        rooted.position.0 > self.top() && !self.shares.contains_key(&(rooted.position.0, signer))
    }

    /// Whether something more of a peer is checked; [`Self::checked`] when it is.
    pub(super) fn may_check(&mut self, peer: NodeId) -> bool {
        let checks = self.checks.entry(peer).or_default();
        let may = *checks < CHECKS_MAX;
        *checks += u32::from(may);
        may
    }

    pub(super) fn checked(&mut self, peer: NodeId) {
        self.checks.entry(peer).and_modify(|checks| *checks = checks.saturating_sub(1));
    }

    /// Whether a peer is answered.
    pub(super) fn may_serve(&mut self, peer: NodeId, now: Time, every: Span) -> bool {
        let may = self.served.get(&peer).is_none_or(|last| now.since(*last) >= every);
        if may {
            self.served.insert(peer, now);
        }
        may
    }

    /// A checked signature: f + 1 for one state certify it.
    pub(super) fn sign(&mut self, signer: NodeId, rooted: Rooted, signature: Signature) -> Option<RootedBy> {
        if !self.wants(signer, &rooted) {
            return None;
        }
        let at = rooted.position.0;
        self.shares.insert((at, signer), (rooted.root, signature));
        let of_signer: Vec<u64> =
            self.shares.keys().filter(|(_, id)| *id == signer).map(|(position, _)| *position).collect();
        if let Some(oldest) = of_signer.first().filter(|_| of_signer.len() > SHARES_MAX) {
            self.shares.remove(&(*oldest, signer));
        }
        let of_position = self.shares.range((at, NodeId(0))..=(at, NodeId(u32::MAX)));
        let equal = of_position.filter(|(_, (root, _))| *root == rooted.root);
        let signed: Vec<(u8, Signature)> = equal
            .take(self.need)
            .filter_map(|((_, id), (_, signature))| Some((id.member()?, *signature)))
            .collect();
        let signed = (signed.len() == self.need).then(|| List::try_from(signed).ok()).flatten()?;
        Some(Certificate { subject: rooted, signed })
    }

    /// A state is certified. False where a newer one is.
    pub(super) fn certify(&mut self, certificate: RootedBy) -> bool {
        let at = certificate.subject.position.0;
        if at <= self.top() {
            return false;
        }
        self.certified.insert(at, certificate);
        while self.certified.len() > CERTIFIED_MAX {
            self.certified.pop_first();
        }
        self.shares.retain(|(position, _), _| *position > at);
        true
    }

    /// The next certified state that the user reached and was not told of.
    pub(super) fn tell(&mut self, applied: u64) -> Option<RootedBy> {
        let next = self.told.saturating_add(1);
        let (at, certificate) = self.certified.range(next..).next().filter(|(at, _)| **at <= applied)?;
        let (told, certificate) = (*at, certificate.clone());
        self.told = told;
        self.own.retain(|position, _| *position > told);
        Some(certificate)
    }

    /// Own signatures that are of no certificate yet.
    pub(super) fn uncertified(&self) -> Vec<(Rooted, Signature)> {
        let own = self.shares.iter().filter(|((_, id), _)| *id == self.me);
        own.map(|((position, _), (root, signature))| {
            (Rooted { position: Position(*position), root: *root }, *signature)
        })
        .collect()
    }

    pub(super) fn bytes(&self) -> u64 {
        let certified: usize = self.certified.values().map(|one| one.signed.len() * 80 + 96).sum();
        (certified + self.shares.len() * 160 + self.own.len() * 80) as u64
    }

    pub(super) fn bytes_max(replicas: u32) -> u64 {
        let replicas = u64::from(replicas);
        let certified = CERTIFIED_MAX as u64 * (replicas * 80 + 96);
        // One more of each, before the oldest gives way.
        certified + (replicas + 1) * (SHARES_MAX as u64 + 1) * 160
    }
}
