//! The accepting side of links: no state for whoever has not shown a cookie, one place per link afterwards.
//!
//! *Why cookies.* An address is believed once it gave back 32 bytes that only the acceptor can make and that were sent
//! there. Until then HELLO (160 bytes) is answered by COOKIE (48), and nothing is kept or computed but two hashes.
//!
//! *Bounds.* The table ([`Table`]), answers to the newest 1,024 proofs, and rates of exchanges, each of which costs an
//! X25519 key pair, an agreement and a signature.

#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::as_conversions
)]

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use synod_crypto::{Hash, HashKey, Keys};
use synod_machine::{Time, planted};
use synod_wire::Bytes;

use super::burst::{self, Draft, checked};
use super::exchange::{Secret, conversation, vouch};
use super::format::{Acceptance, DATAGRAM_MAX, Datagram, Dropped, Opening, Sealed};
use super::table::Table;
use crate::handshake::nonce;
use crate::quotas::{Bucket, Door, places};

/// Answers to proofs that are kept, for diallers that did not get theirs.
const ANSWERS_MAX: usize = 1_024;
/// Nanoseconds a cookie's minute has.
const MINUTE: u64 = 60_000_000_000;

/// What a datagram brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A word of the handshake that is answered.
    Answer(Vec<u8>),
    /// A new link, the one that gave way to it, and the answer.
    Opened { link: u32, evicted: Option<u32>, answer: Vec<u8> },
    /// A body.
    Body { link: u32, body: Bytes },
}

/// What an acceptor may spend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    pub(crate) links_max: u32,
    pub(crate) links_per_second: u32,
    pub(crate) links_per_address: u32,
}

/// The accepting side.
pub(crate) struct Acceptor {
    keys: Arc<Keys>,
    cluster: Hash,
    cookies: HashKey,
    pub(crate) table: Table,
    answers: BTreeMap<(Hash, SocketAddr), (u32, Vec<u8>)>,
    order: VecDeque<(Hash, SocketAddr)>,
    bucket: Bucket,
    door: Door,
}

impl Acceptor {
    pub(crate) fn new(keys: Arc<Keys>, cluster: Hash, rates: Rates, now: Time) -> Self {
        Self {
            keys,
            cluster,
            cookies: HashKey::derive("synod link v1 cookie", &nonce()),
            table: Table::new(rates.links_max),
            answers: BTreeMap::new(),
            order: VecDeque::new(),
            bucket: Bucket::new(u64::from(rates.links_per_second), now),
            // Nobody waits at this door: it only counts by address.
            door: Door::new(places(1), rates.links_per_address),
        }
    }

    /// Reads a datagram that came by `socket`.
    ///
    /// # Errors
    /// [`Dropped`] when there is nothing to answer or deliver.
    pub(crate) fn receive(
        &mut self,
        from: SocketAddr,
        socket: u8,
        bytes: &[u8],
        now: Time,
    ) -> Result<Heard, Dropped> {
        match Datagram::read(bytes)? {
            Datagram::Hello(opening) => {
                let cookie = self.cookie(from, &opening.digest(), now.0 / MINUTE);
                let mut answer = Datagram::Cookie { ticket: opening.ticket, cookie }.encode();
                if planted!(C30) {
                    answer.resize(DATAGRAM_MAX, 0);
                }
                Ok(Heard::Answer(answer))
            }
            Datagram::Prove { opening, cookie } => self.proved(from, socket, (&opening, &cookie), now),
            Datagram::Sealed(sealed) => {
                self.open_each(&[(from, sealed)]).pop().unwrap_or(Err(Dropped::Unknown))
            }
            Datagram::Cookie { .. } | Datagram::Accept(_) => Err(Dropped::Unknown),
        }
    }

    fn cookie(&self, from: SocketAddr, opening: &Hash, minute: u64) -> [u8; 32] {
        let ip = match from {
            SocketAddr::V4(v4) => v4.ip().to_ipv6_mapped(),
            SocketAddr::V6(v6) => *v6.ip(),
        };
        let parts: [&[u8]; 4] = [&ip.octets(), &from.port().to_le_bytes(), &opening.0, &minute.to_le_bytes()];
        self.cookies.hash_parts(&parts).0
    }

    fn proved(
        &mut self,
        from: SocketAddr,
        socket: u8,
        proof: (&Opening, &[u8; 32]),
        now: Time,
    ) -> Result<Heard, Dropped> {
        let (opening, cookie) = proof;
        let digest = opening.digest();
        let minute = now.0 / MINUTE;
        let is_own = [minute, minute.saturating_sub(1)]
            .into_iter()
            .any(|minute| verify_slices_are_equal(&self.cookie(from, &digest, minute), cookie).is_ok());
        if !is_own {
            return Err(Dropped::Cookie);
        }
        if let Some((link, answer)) = self.answers.get(&(digest, from))
            && self.table.from(*link, from).is_some()
        {
            return Ok(Heard::Answer(answer.clone()));
        }
        self.bucket.refill(now);
        if !self.bucket.open() || !self.door.admits(Some(from.ip()), now) {
            return Err(Dropped::Busy);
        }
        self.bucket.take(1);
        self.open(from, socket, opening, &digest).ok_or(Dropped::Format)
    }

    /// Opens a link; `None` for a share that gives no secret.
    fn open(&mut self, from: SocketAddr, socket: u8, opening: &Opening, digest: &Hash) -> Option<Heard> {
        let secret = Secret::new()?;
        let link = self.table.next_number();
        let said = conversation(digest, link, &secret.share);
        let keys = secret.agree(&opening.share, &said)?;
        let signature = vouch(said, self.cluster, &self.keys);
        let acceptance = Acceptance { ticket: opening.ticket, link, share: secret.share, signature };
        let answer = Datagram::Accept(acceptance).encode();
        let evicted = self.table.open(keys, from, socket);
        if self.order.len() >= ANSWERS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.answers.remove(&oldest);
        }
        if self.answers.insert((*digest, from), (link, answer.clone())).is_none() {
            self.order.push_back((*digest, from));
        }
        Some(Heard::Opened { link, evicted, answer })
    }

    /// Reads datagrams of links that came together. What each brought, in their order.
    pub(crate) fn open_each(&mut self, burst: &[burst::Heard<'_>]) -> Vec<Result<Heard, Dropped>> {
        let checked = checked(burst, |from, sealed| {
            let link = self.table.from(sealed.link, from).ok_or(Dropped::Unknown)?;
            if link.is_fresh(sealed.sequence) { Ok(((), link.inward())) } else { Err(Dropped::Replayed) }
        });
        let all = checked.into_iter().zip(burst);
        all.map(|(checked, (_, sealed))| self.sealed(sealed, checked?.1)).collect()
    }

    /// A datagram of a link that is known, after others that came with it.
    fn sealed(&mut self, sealed: &Sealed<'_>, tag: Result<(), Dropped>) -> Result<Heard, Dropped> {
        let link = self.table.get(sealed.link).ok_or(Dropped::Unknown)?;
        if !link.is_fresh(sealed.sequence) {
            return Err(Dropped::Replayed);
        }
        tag?;
        link.window().add(sealed.sequence);
        self.table.heard(sealed.link);
        Ok(Heard::Body { link: sealed.link, body: sealed.body() })
    }

    /// The datagram of a body for a link, where it leads and by which socket; `None` when there is no such link, or a
    /// datagram does not hold the body.
    pub(crate) fn seal(&mut self, link: u32, body: &[u8]) -> Option<(u8, SocketAddr, Draft)> {
        let open = self.table.get(link)?;
        let (socket, address) = (open.socket, open.address());
        let (key, sequence) = open.outward();
        Some((socket, address, Draft::of(key, link, sequence, body)?))
    }
}
