//! Datagrams of links that come or leave together: their tags are computed side by side.
//!
//! *Order.* Only words of the handshake change links and keys. Datagrams of links between two such words are therefore
//! opened by the keys that stand when the first of them is: the outcome of each is as if it had come alone.
//!
//! *Bounds.* [`BURST_MAX`] datagrams are opened together; those that leave are what one round of system calls takes.

#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::as_conversions
)]

use std::collections::VecDeque;
use std::net::SocketAddr;

use synod_crypto::HashKey;

use super::format::{Dropped, Sealed, bare};

/// Datagrams that are opened together, at most.
pub(crate) const BURST_MAX: usize = 256;

/// A datagram of a link, and where it came from.
pub(crate) type Heard<'a> = (SocketAddr, Sealed<'a>);

/// Where the link of a datagram is kept, and whether its tag is good; or why there is nothing to check.
pub(crate) type Checked<P> = Result<(P, Result<(), Dropped>), Dropped>;

/// Checks the tags of datagrams. `locate` finds the link of each and its key; what it refuses has no tag computed.
pub(crate) fn checked<'k, P>(
    burst: &[Heard<'_>],
    locate: impl Fn(SocketAddr, &Sealed<'_>) -> Result<(P, &'k HashKey), Dropped>,
) -> Vec<Checked<P>> {
    let found: Vec<_> = burst.iter().map(|(from, sealed)| locate(*from, sealed)).collect();
    let claims: Vec<_> = found
        .iter()
        .zip(burst)
        .filter_map(|(found, (_, sealed))| found.as_ref().ok().map(|(_, key)| sealed.claim(key)))
        .collect();
    let mut tags = HashKey::tagged_each(&claims).into_iter();
    let mut judge = || if tags.next() == Some(true) { Ok(()) } else { Err(Dropped::Tag) };
    found.into_iter().map(|found| found.map(|(place, _)| (place, judge()))).collect()
}

/// A datagram on its way out. That of a link gets its tag when it leaves, together with others.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    bytes: Vec<u8>,
    key: Option<HashKey>,
}

impl From<Vec<u8>> for Draft {
    /// A word of the handshake, which has no tag.
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, key: None }
    }
}

impl Draft {
    /// The datagram of a body; `None` when a datagram does not hold it, or it begins like a word of the handshake.
    pub(crate) fn of(key: &HashKey, link: u32, sequence: u64, body: &[u8]) -> Option<Self> {
        Some(Self { bytes: bare(link, sequence, body)?, key: Some(key.clone()) })
    }

    /// The datagram, with its tag.
    pub(crate) fn sealed(mut self) -> Vec<u8> {
        if let Some(key) = self.key.take() {
            let tag = key.tag(&[&self.bytes]);
            self.bytes.extend_from_slice(&tag);
        }
        self.bytes
    }

    /// What misses its tag.
    fn untagged(&self) -> Option<(&HashKey, &[u8])> {
        Some((self.key.as_ref()?, &self.bytes))
    }
}

/// Gives the first `count` datagrams their tags.
pub(crate) fn tag_first(queue: &mut VecDeque<(SocketAddr, Draft)>, count: usize) {
    let untagged: Vec<_> = queue.iter().take(count).filter_map(|(_, draft)| draft.untagged()).collect();
    let tags = HashKey::tag_each(&untagged);
    let drafts = queue.iter_mut().take(count).filter(|(_, draft)| draft.key.is_some());
    for ((_, draft), tag) in drafts.zip(tags) {
        draft.bytes.extend_from_slice(&tag);
        draft.key = None;
    }
}

#[cfg(test)]
impl PartialEq for Draft {
    fn eq(&self, other: &Self) -> bool {
        self.clone().sealed() == other.clone().sealed()
    }
}

#[cfg(test)]
mod tests {
    use super::{Draft, tag_first};
    use crate::datagram::format::{BODY_MAX, seal};
    use std::net::SocketAddr;
    use synod_crypto::HashKey;

    #[test]
    fn datagrams_that_leave_together_are_those_that_were_sealed_alone() {
        let to = SocketAddr::from(([10, 0, 0, 1], 1));
        let (mut queue, mut alone) = (std::collections::VecDeque::new(), Vec::new());
        for n in 0..50_u32 {
            let key = HashKey::derive("synod test burst", &n.to_le_bytes());
            let body = vec![7; (4 + usize::try_from(n).expect("small") * 97).min(BODY_MAX)];
            queue.push_back((to, Draft::of(&key, n, 5, &body).expect("it fits")));
            alone.push(seal(&key, n, 5, &body).expect("it fits"));
            if n % 7 == 3 {
                queue.push_back((to, vec![240; 160].into()));
                alone.push(vec![240; 160]);
            }
        }
        tag_first(&mut queue, 22);
        let tagged = queue.iter().take_while(|(_, draft)| draft.key.is_none()).count();
        assert_eq!(tagged, 22, "as many as were asked for");
        tag_first(&mut queue, usize::MAX);
        assert!(queue.iter().all(|(_, draft)| draft.key.is_none()));
        let left: Vec<Vec<u8>> = queue.into_iter().map(|(_, draft)| draft.sealed()).collect();
        assert_eq!(left, alone);
    }
}
