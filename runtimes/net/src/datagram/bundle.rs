//! Datagrams to one address as one buffer: the system carries them as one packet and cuts it up where it must (GSO).
//!
//! *Order.* Datagrams to one address leave in the order in which they were queued: a bundle takes what follows it directly,
//! as long as it has the same length, and ends with one that is shorter.
//!
//! *Bounds.* 64 datagrams and 60,000 bytes per bundle; 1,024 addresses are known to take no bundles.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;

/// Datagrams of one bundle: what every system that cuts takes.
const COUNT_MAX: usize = 64;
/// Bytes of one bundle, below the longest UDP packet.
const BYTES_MAX: usize = 60_000;

/// Addresses that are known to take no bundles; beyond it all are tried again.
const NARROW_MAX: usize = 1_024;

/// Datagrams that leave together.
pub(crate) struct Bundle {
    pub(crate) to: SocketAddr,
    pub(crate) datagrams: Vec<Vec<u8>>,
    /// Length of every datagram but the last, which may be shorter.
    pub(crate) each: usize,
    bytes: usize,
    is_closed: bool,
}

impl Bundle {
    /// A bundle of one.
    fn of(to: SocketAddr, datagram: Vec<u8>) -> Self {
        let each = datagram.len();
        Self { to, datagrams: vec![datagram], each, bytes: each, is_closed: false }
    }

    fn takes(&self, datagram: &[u8]) -> bool {
        !self.is_closed
            && self.datagrams.len() < COUNT_MAX
            && datagram.len() <= self.each
            && !datagram.is_empty()
            && self.bytes + datagram.len() <= BYTES_MAX
    }

    fn push(&mut self, datagram: Vec<u8>) {
        self.bytes += datagram.len();
        self.is_closed = datagram.len() < self.each;
        self.datagrams.push(datagram);
    }

    /// Whether it holds one datagram, which needs no cutting.
    pub(crate) const fn is_single(&self) -> bool {
        self.datagrams.len() == 1
    }
}

/// Bundles that wait to be sent, in order.
#[derive(Default)]
pub(crate) struct Bundles {
    all: VecDeque<Bundle>,
    /// The last bundle for each address.
    last: HashMap<SocketAddr, usize>,
    /// Whether the system does not cut: every datagram leaves alone.
    is_plain: bool,
    /// Where the way is too narrow for a bundle.
    narrow: HashSet<SocketAddr>,
}

impl Bundles {
    /// Adds datagrams behind those that wait.
    pub(crate) fn add(&mut self, datagrams: impl Iterator<Item = (SocketAddr, Vec<u8>)>) {
        self.last.clear();
        for (to, datagram) in datagrams {
            let last = self.last.get(&to).and_then(|at| self.all.get_mut(*at));
            let is_plain = self.is_plain || self.narrow.contains(&to);
            match last.filter(|last| !is_plain && last.takes(&datagram)) {
                Some(last) => last.push(datagram),
                None => {
                    self.last.insert(to, self.all.len());
                    self.all.push_back(Bundle::of(to, datagram));
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Datagrams that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.all.iter().map(|bundle| bundle.datagrams.len()).sum()
    }

    /// The bundles in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Bundle> {
        self.all.iter()
    }

    /// The first bundle left, or was given up.
    pub(crate) fn pop(&mut self) -> Option<Bundle> {
        self.all.pop_front()
    }

    /// The system does not cut: what waits leaves datagram by datagram, and everything from now on.
    pub(crate) fn unbundle(&mut self) {
        self.is_plain = true;
        self.part(|_| true);
    }

    /// The first bundle was refused, for some reason of its own: it leaves datagram by datagram.
    pub(crate) fn part_first(&mut self) {
        let mut left = 1_u32;
        self.part(|_| core::mem::take(&mut left) == 1);
    }

    /// The way of the first bundle is too narrow for one: what goes there leaves datagram by datagram from now on. What goes
    /// elsewhere does not, for every client chooses its own way.
    pub(crate) fn narrow_first(&mut self) {
        let Some(to) = self.all.front().map(|first| first.to) else { return };
        if self.narrow.len() >= NARROW_MAX {
            self.narrow.clear();
        }
        self.narrow.insert(to);
        self.part(|bundle| bundle.to == to);
    }

    fn part(&mut self, mut which: impl FnMut(&Bundle) -> bool) {
        let mut parted = VecDeque::with_capacity(self.all.len());
        for bundle in core::mem::take(&mut self.all) {
            if which(&bundle) {
                let to = bundle.to;
                parted.extend(bundle.datagrams.into_iter().map(|datagram| Bundle::of(to, datagram)));
            } else {
                parted.push_back(bundle);
            }
        }
        self.all = parted;
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Bundles, COUNT_MAX, NARROW_MAX};
    use std::net::SocketAddr;

    fn to(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// The sizes of the datagrams of each bundle, and where it goes.
    fn shapes(bundles: &Bundles) -> Vec<(u16, Vec<usize>)> {
        let sizes = |datagrams: &[Vec<u8>]| datagrams.iter().map(Vec::len).collect();
        bundles.iter().map(|bundle| (bundle.to.port(), sizes(&bundle.datagrams))).collect()
    }

    fn add(bundles: &mut Bundles, datagrams: &[(u16, usize)]) {
        bundles.add(datagrams.iter().map(|(port, length)| (to(*port), vec![7; *length])));
    }

    #[test]
    fn equal_lengths_to_one_address_leave_together_and_end_with_a_shorter_one() {
        let mut bundles = Bundles::default();
        add(&mut bundles, &[(1, 90), (2, 80), (1, 90), (1, 40), (1, 40), (2, 81), (2, 81)]);
        let wanted =
            [(1, vec![90, 90, 40]), (2, vec![80]), (1, vec![40]), (2, vec![81, 81])].map(|shape| shape);
        assert_eq!(shapes(&bundles), wanted);
        assert_eq!(bundles.waiting(), 7);
    }

    #[test]
    fn nothing_overtakes_another_datagram_to_its_address() {
        let mut bundles = Bundles::default();
        let mut drawn = 1_u64;
        let mut queued = Vec::new();
        for number in 0..500_u64 {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (port, length) = (u16::try_from(drawn >> 62).expect("small") + 1, 8 + (drawn >> 40) % 3 * 9);
            let mut datagram = vec![0; usize::try_from(length).expect("small")];
            datagram[..8].copy_from_slice(&number.to_le_bytes());
            queued.push((to(port), datagram));
        }
        bundles.add(queued.iter().cloned());
        assert!(bundles.iter().any(|bundle| bundle.datagrams.len() > 2));
        for port in 1..=4 {
            let own = bundles.iter().filter(|bundle| bundle.to == to(port));
            let left: Vec<_> = own.flat_map(|bundle| bundle.datagrams.iter()).collect();
            let asked: Vec<_> = queued.iter().filter(|(at, _)| *at == to(port)).map(|(_, of)| of).collect();
            assert_eq!(left, asked);
        }
    }

    #[test]
    fn bundles_have_a_most_of_datagrams_and_of_bytes() {
        let mut bundles = Bundles::default();
        add(&mut bundles, &vec![(1, 10); COUNT_MAX + 1]);
        assert_eq!(shapes(&bundles).iter().map(|(_, all)| all.len()).collect::<Vec<_>>(), [COUNT_MAX, 1]);
        let mut bundles = Bundles::default();
        add(&mut bundles, &vec![(1, 1_200); COUNT_MAX]);
        assert!(shapes(&bundles).iter().all(|(_, all)| all.iter().sum::<usize>() <= BYTES_MAX));
    }

    #[test]
    fn a_system_that_does_not_cut_gets_every_datagram_alone() {
        let mut bundles = Bundles::default();
        add(&mut bundles, &[(1, 9); 5]);
        bundles.unbundle();
        add(&mut bundles, &[(1, 9); 2]);
        assert_eq!((shapes(&bundles).len(), bundles.waiting()), (7, 7));
        assert!(bundles.iter().all(super::Bundle::is_single));
        let mut once = Bundles::default();
        add(&mut once, &[(1, 9), (1, 9), (2, 9), (2, 9), (1, 8), (1, 8)]);
        once.part_first();
        add(&mut once, &[(1, 9); 2]);
        let wanted =
            [(1, vec![9]), (1, vec![9]), (1, vec![8]), (2, vec![9, 9]), (1, vec![8]), (1, vec![9, 9])];
        assert_eq!(shapes(&once), wanted, "another error says nothing of the next bundle");
    }

    #[test]
    fn a_way_that_is_too_narrow_costs_nobody_else_its_bundles() {
        let mut bundles = Bundles::default();
        add(&mut bundles, &[(1, 9), (2, 9), (1, 9), (2, 9), (1, 20), (1, 20)]);
        bundles.narrow_first();
        add(&mut bundles, &[(1, 7), (1, 7), (2, 7), (2, 7)]);
        let of = |port| shapes(&bundles).into_iter().filter(move |(to, _)| *to == port).map(|(_, all)| all);
        assert_eq!(of(1).collect::<Vec<_>>(), [[9], [9], [20], [20], [7], [7]]);
        assert_eq!(of(2).collect::<Vec<_>>(), [[9, 9], [7, 7]]);
        // Too many such ways are forgotten together.
        let mut bundles = Bundles::default();
        for port in 1..=u16::try_from(NARROW_MAX).expect("small") + 1 {
            add(&mut bundles, &[(port, 9), (port, 9)]);
            bundles.narrow_first();
            assert!(bundles.pop().is_some() && bundles.pop().is_some());
        }
        assert_eq!(bundles.narrow.len(), 1);
    }
}
