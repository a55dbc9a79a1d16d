//! What is held against links. A link without a record takes no memory.
//!
//! *Bounds.* `links_max` records; beyond them the one whose last wrong lies longest back gives way.

use std::collections::{BTreeMap, BTreeSet};

use synod_machine::{Span, Time};
use synod_quorum::NodeId;

use super::recent::Bucket;

/// Bad shares after which a link is refused.
const STRIKES_MAX: u32 = 3;
/// For how long.
const REFUSED: Span = Span::secs(600);
/// Certificates that do not hold, per minute, before they are strikes.
const LIES_FREE: u32 = 2;
/// The minute.
const MINUTE: Span = Span::secs(60);

/// What one link did.
#[derive(Clone, Copy, Debug)]
struct Wrongs {
    strikes: u32,
    refused_until: Time,
    lies: u32,
    lies_since: Time,
    bucket: Bucket,
    last: Time,
}

/// The record of all links.
#[derive(Clone, Debug)]
pub(super) struct Links {
    of: BTreeMap<NodeId, Wrongs>,
    by_age: BTreeSet<(Time, NodeId)>,
    most: usize,
}

impl Links {
    pub(super) fn new(most: u32) -> Self {
        Self { of: BTreeMap::new(), by_age: BTreeSet::new(), most: most as usize }
    }

    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    fn record(&mut self, link: NodeId, now: Time) -> &mut Wrongs {
        if let Some(known) = self.of.get(&link) {
            self.by_age.remove(&(known.last, link));
        } else if self.of.len() >= self.most
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.of.remove(&oldest);
        }
        self.by_age.insert((now, link));
        let bucket = Bucket::full(now);
        let blank =
            Wrongs { strikes: 0, refused_until: Time::ZERO, lies: 0, lies_since: now, bucket, last: now };
        let wrongs = self.of.entry(link).or_insert(blank);
        wrongs.last = now;
        wrongs
    }

    /// One bad share; the third refuses the link for ten minutes.
    pub(super) fn strike(&mut self, link: NodeId, now: Time) {
        let wrongs = self.record(link, now);
        wrongs.strikes += 1;
        if wrongs.strikes >= STRIKES_MAX {
            wrongs.strikes = 0;
            wrongs.refused_until = now + REFUSED;
        }
    }

    /// A certificate that does not hold: two a minute are free.
    pub(super) fn lied(&mut self, link: NodeId, now: Time) {
        let wrongs = self.record(link, now);
        if now.since(wrongs.lies_since) >= MINUTE {
            (wrongs.lies, wrongs.lies_since) = (0, now);
        }
        wrongs.lies += 1;
        if wrongs.lies > LIES_FREE {
            self.strike(link, now);
        }
    }

    /// Whether a certificate of this link is worth a pairing.
    pub(super) fn is_heard(&self, link: NodeId, now: Time) -> bool {
        self.of
            .get(&link)
            .is_none_or(|wrongs| wrongs.lies < LIES_FREE || now.since(wrongs.lies_since) >= MINUTE)
    }

    /// An entry of this link came back as delivered before or stale.
    pub(super) fn charge(&mut self, link: NodeId, now: Time) {
        self.record(link, now).bucket.charge(now);
    }

    /// Whether nothing of this link is taken now.
    pub(super) fn is_refused(&self, link: NodeId, now: Time) -> bool {
        self.of.get(&link).is_some_and(|wrongs| now < wrongs.refused_until || wrongs.bucket.is_empty(now))
    }
}

#[cfg(test)]
mod tests {
    use super::Links;
    use synod_machine::{Span, Time};
    use synod_quorum::NodeId;

    #[test]
    fn the_third_strike_refuses_a_link_for_ten_minutes() {
        let (mut links, link) = (Links::new(4), NodeId(300));
        links.strike(link, Time::ZERO);
        links.strike(link, Time::ZERO);
        assert!(!links.is_refused(link, Time::ZERO));
        links.strike(link, Time::ZERO);
        assert!(links.is_refused(link, Time::ZERO + Span::secs(599)));
        assert!(!links.is_refused(link, Time::ZERO + Span::secs(600)));
    }

    /// T33: lying certificates cost two pairings per link and minute.
    #[test]
    fn two_lies_a_minute_are_checked_and_no_more() {
        let (mut links, link) = (Links::new(4), NodeId(300));
        for _ in 0..2 {
            assert!(links.is_heard(link, Time::ZERO));
            links.lied(link, Time::ZERO);
        }
        assert!(!links.is_heard(link, Time::ZERO + Span::secs(59)));
        assert!(links.is_heard(link, Time::ZERO + Span::secs(60)));
        assert!(links.is_heard(NodeId(301), Time::ZERO));
    }

    #[test]
    fn records_are_bounded_and_the_oldest_gives_way() {
        let mut links = Links::new(4);
        for link in 0..9_u32 {
            links.charge(NodeId(300 + link), Time(u64::from(link)));
            links.charge(NodeId(300), Time(u64::from(link)));
        }
        assert_eq!((links.len(), links.by_age.len()), (4, 4));
        assert!(links.of.contains_key(&NodeId(300)) && links.of.contains_key(&NodeId(308)));
    }
}
