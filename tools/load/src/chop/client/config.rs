//! Whom a load client plays, and how.

use core::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use synod_chopchop::config::{Class, Cluster};
use synod_crypto::PublicKey;
use synod_machine::Span;
use synod_net::datagram::{LINKED, LinkPeer};
use synod_quorum::NodeId;

use crate::chop::family::KeyFamily;

/// Of how many the shares of a conduct are.
const WHOLE: u32 = 1_000;
/// Bytes of a message.
const MESSAGE_BYTES: u16 = 8;
/// The first link: the id below is that of the process itself.
const FIRST: u32 = NodeId::GUESTS.0 + 1;

/// Why there is no such load client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid(pub &'static str);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Invalid {}

/// How a member behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    /// As it must.
    Correct,
    /// It never signs a root.
    Silent,
    /// It signs another root than it says.
    OtherShare,
    /// It sends a share that is no point.
    NoShare,
    /// Its messages carry the signature of another.
    Forged,
}

/// How fast messages are begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Messages begun per second, by all members together.
    pub per_second: u32,
    /// Cards that wait for their ids.
    pub cards: u32,
    /// Messages that no broker showed a root for yet, at most: beyond them none is begun.
    pub unshown: u32,
    /// Silence after which the next broker is asked, or four times what a delivery takes, at most three times this; doubled
    /// after a round over all.
    pub submit: Span,
    /// Silence after which a message is sent again, or three times what it takes to be shown a root; doubled each time.
    pub retransmit: Span,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            per_second: 131_072,
            cards: 1_000,
            unshown: 32_768,
            submit: Span::secs(4),
            retransmit: Span::secs(1),
        }
    }
}

/// The members that one load client plays.
#[derive(Clone)]
pub struct Crowd {
    /// Their keys.
    pub family: Arc<KeyFamily>,
    /// The first member of the family, and how many.
    pub members: (u32, u32),
    /// The id of the first, when the directory of the genesis holds them in a row; without it they sign up.
    pub ids: Option<u32>,
    /// The cluster.
    pub cluster: Cluster,
    /// What its brokers take: 8 bytes.
    pub class: Class,
    /// Number of brokers.
    pub brokers: u32,
    /// Members that are silent, of a thousand.
    pub silent: u32,
    /// Members that break rules, of a thousand.
    pub invalid: u32,
    /// Whether a receipt of every delivery is given.
    pub receipts: bool,
    /// Whom a message pays 1: with equal payloads only parity tells one message of a member from the next.
    pub payee: u32,
    /// How fast.
    pub pace: Pace,
}

impl Crowd {
    pub(super) fn check(&self) -> Result<(), Invalid> {
        let Self { members: (first, count), brokers, silent, invalid, .. } = self;
        let links = count.checked_mul(*brokers).and_then(|links| links.checked_add(FIRST));
        let rules = [
            (*count > 0 && first.checked_add(*count).is_some(), "at least one member, numbers of 32 bits"),
            ((1..=16).contains(brokers), "1 to 16 brokers"),
            (links.is_some_and(|links| links < LINKED.0), "fewer than 2^31 links"),
            (silent.saturating_add(*invalid) <= WHOLE, "silent and invalid are at most all together"),
            (self.class == Class::Fixed(MESSAGE_BYTES), "messages have 8 bytes"),
            (self.payee >> 28 == 0, "the payee has an id of 28 bits"),
            (
                self.pace.per_second > 0 && self.pace.cards > 0 && self.pace.unshown > 0,
                "a pace is above zero",
            ),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, rule)| Err(Invalid(rule)))
    }

    /// How a member behaves: the silent and the invalid are spread over all.
    #[must_use]
    pub fn conduct(&self, member: u32) -> Conduct {
        // Odd and prime to the whole, so that the first thousand members already have their shares.
        let place = member % WHOLE * 619 % WHOLE;
        if place < self.silent {
            return Conduct::Silent;
        }
        match (place < self.silent + self.invalid, place % 3) {
            (false, _) => Conduct::Correct,
            (true, 0) => Conduct::OtherShare,
            (true, 1) => Conduct::NoShare,
            (true, _) => Conduct::Forged,
        }
    }

    /// The link of a member to a broker.
    pub(super) const fn link(&self, broker: u32, member: u32) -> NodeId {
        NodeId(FIRST + broker * self.members.1 + member)
    }

    /// The broker and member of a link.
    pub(super) fn of_link(&self, link: NodeId) -> Option<(u32, u32)> {
        let at = link.0.checked_sub(FIRST)?;
        let (broker, member) = (at.checked_div(self.members.1)?, at.checked_rem(self.members.1)?);
        (broker < self.brokers).then_some((broker, member))
    }
}

/// The calls of a crowd: a link of its own to each broker for each member, so that what one member does costs no other.
#[must_use]
pub fn links(crowd: &Crowd, brokers: &[(SocketAddr, PublicKey)]) -> Vec<LinkPeer> {
    let all = (0..).zip(brokers);
    let of = |(broker, (address, key)): (u32, &(SocketAddr, PublicKey))| {
        let (address, key) = (*address, *key);
        (0..crowd.members.1)
            .map(move |member| LinkPeer { id: crowd.link(broker, member), address, key })
            .collect::<Vec<_>>()
    };
    all.flat_map(of).collect()
}
