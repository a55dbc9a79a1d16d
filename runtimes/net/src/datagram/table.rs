//! The links of an acceptor: a bounded table, the longest idle giving way.
//!
//! *Bounds.* `links_max` places of at most 128 bytes, made as links come. A link's number holds its place in the low
//! bits and how often that place was used in the high ones, so a number comes back after 2^31 handshakes at the
//! earliest when no link stays longer than the others. A number is below 2^31.

use std::net::{IpAddr, SocketAddr};

use synod_crypto::HashKey;

use super::exchange::LinkKeys;
use super::window::Window;

/// No place.
const NONE: u32 = u32::MAX;
/// Numbers of links.
const NUMBERS: u32 = 1 << 31;

/// One link, by its place.
pub(crate) struct Link {
    inward: HashKey,
    outward: HashKey,
    sent: u64,
    window: Window,
    number: u32,
    older: u32,
    newer: u32,
    address: [u8; 16],
    port: u16,
    is_open: bool,
    /// The socket it came by.
    pub(crate) socket: u8,
    /// Bodies of it that no machine could read.
    pub(crate) strikes: u8,
}

const _: () = assert!(size_of::<Link>() <= 128, "the published bytes per link");

impl Link {
    /// The key of what comes.
    pub(crate) const fn inward(&self) -> &HashKey {
        &self.inward
    }

    /// Whether a number was not seen.
    pub(crate) const fn is_fresh(&self, sequence: u64) -> bool {
        self.window.is_fresh(sequence)
    }

    /// What was seen.
    pub(crate) const fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    /// The key of what goes, and the next number there.
    pub(crate) const fn outward(&mut self) -> (&HashKey, u64) {
        let sequence = self.sent;
        self.sent += 1;
        (&self.outward, sequence)
    }

    /// Where the link leads.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::new(IpAddr::from(self.address).to_canonical(), self.port)
    }
}

/// An address as 16 bytes: IPv4 is mapped. Zones of link-local addresses are not kept.
fn packed(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The links of an acceptor.
pub(crate) struct Table {
    places: Vec<Link>,
    free: Vec<u32>,
    max: u32,
    bits: u32,
    oldest: u32,
    newest: u32,
}

impl Table {
    /// Room for `max` links, at least 1 and at most 2^24.
    pub(crate) fn new(max: u32) -> Self {
        let max = max.clamp(1, 1 << 24);
        let bits = max.next_power_of_two().trailing_zeros();
        Self { places: Vec::new(), free: Vec::new(), max, bits, oldest: NONE, newest: NONE }
    }

    /// Links that are open.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The place of the next link, and whether it is another's now.
    fn upcoming(&self) -> (u32, bool) {
        match self.free.last() {
            Some(place) => (*place, false),
            None => match u32::try_from(self.places.len()) {
                Ok(place) if place < self.max => (place, false),
                _ => (self.oldest, true),
            },
        }
    }

    /// The number that the next link gets.
    pub(crate) fn next_number(&self) -> u32 {
        let (place, _) = self.upcoming();
        match self.at(place) {
            Some(link) => link.number.wrapping_add(1 << self.bits) % NUMBERS,
            None => place,
        }
    }

    /// Opens a link; gives the number of the one that gave way.
    pub(crate) fn open(&mut self, keys: LinkKeys, from: SocketAddr, socket: u8) -> Option<u32> {
        let number = self.next_number();
        let (place, is_taken) = self.upcoming();
        let evicted = if is_taken { self.at(place).map(|link| link.number) } else { None };
        if is_taken {
            self.unlist(place);
        } else {
            self.free.pop();
        }
        let LinkKeys { to_acceptor, to_dialler } = keys;
        let link = Link {
            inward: to_acceptor,
            outward: to_dialler,
            sent: 0,
            window: Window::default(),
            number,
            older: NONE,
            newer: NONE,
            address: packed(from.ip()),
            port: from.port(),
            is_open: true,
            socket,
            strikes: 0,
        };
        match self.at_mut(place) {
            Some(old) => *old = link,
            None => self.places.push(link),
        }
        self.list(place);
        evicted
    }

    /// The link of this number.
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut Link> {
        let place = self.place(number);
        self.at_mut(place).filter(|link| link.is_open && link.number == number)
    }

    /// The link of this number, if it leads to this address.
    pub(crate) fn from(&self, number: u32, from: SocketAddr) -> Option<&Link> {
        let address = packed(from.ip());
        let link = self.at(self.place(number)).filter(|link| link.is_open && link.number == number);
        link.filter(|link| link.port == from.port() && link.address == address)
    }

    /// The link was heard: it is the last to give way.
    pub(crate) fn heard(&mut self, number: u32) {
        let place = self.place(number);
        if place != self.newest {
            self.unlist(place);
            self.list(place);
        }
    }

    /// Closes a link; whether it was open.
    pub(crate) fn close(&mut self, number: u32) -> bool {
        let Some(link) = self.get(number) else { return false };
        link.is_open = false;
        let place = self.place(number);
        self.unlist(place);
        self.free.push(place);
        true
    }

    const fn place(&self, number: u32) -> u32 {
        number & ((1 << self.bits) - 1)
    }

    fn at(&self, place: u32) -> Option<&Link> {
        self.places.get(usize::try_from(place).ok()?)
    }

    fn at_mut(&mut self, place: u32) -> Option<&mut Link> {
        self.places.get_mut(usize::try_from(place).ok()?)
    }

    fn unlist(&mut self, place: u32) {
        let Some(link) = self.at_mut(place) else { return };
        let (older, newer) =
            (core::mem::replace(&mut link.older, NONE), core::mem::replace(&mut link.newer, NONE));
        match self.at_mut(older) {
            Some(link) => link.newer = newer,
            None => self.oldest = newer,
        }
        match self.at_mut(newer) {
            Some(link) => link.older = older,
            None => self.newest = older,
        }
    }

    fn list(&mut self, place: u32) {
        let newest = core::mem::replace(&mut self.newest, place);
        match self.at_mut(newest) {
            Some(link) => link.newer = place,
            None => self.oldest = place,
        }
        if let Some(link) = self.at_mut(place) {
            link.older = newest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> LinkKeys {
        let key = |n: &[u8]| HashKey::derive("synod test table", n);
        LinkKeys { to_acceptor: key(b"in"), to_dialler: key(b"out") }
    }

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    fn open(table: &mut Table, port: u16) -> (u32, Option<u32>) {
        let number = table.next_number();
        let evicted = table.open(keys(), address(port), 0);
        (number, evicted)
    }

    #[test]
    fn the_longest_idle_gives_way_and_its_number_is_not_used_again() {
        let mut table = Table::new(3);
        let numbers: Vec<u32> = (1..=3).map(|port| open(&mut table, port).0).collect();
        assert_eq!(numbers, [0, 1, 2]);
        table.heard(0);
        table.heard(0);
        let (fourth, evicted) = open(&mut table, 4);
        assert_eq!((fourth, evicted), (5, Some(1)), "the place of 1, used for the second time");
        assert!(table.get(1).is_none() && table.get(0).is_some() && table.get(5).is_some());
        assert_eq!(open(&mut table, 5), (6, Some(2)));
        assert_eq!(open(&mut table, 6), (4, Some(0)));
        assert_eq!(table.len(), 3);
    }

    #[test]
    fn a_closed_link_leaves_its_place_and_keeps_no_order() {
        let mut table = Table::new(2);
        let (a, b) = (open(&mut table, 1).0, open(&mut table, 2).0);
        assert!(table.close(b) && !table.close(b) && table.get(b).is_none());
        assert_eq!(table.len(), 1);
        let (c, evicted) = open(&mut table, 3);
        assert_eq!((c, evicted), (b + 2, None));
        assert_eq!(open(&mut table, 4).1, Some(a));
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn a_link_answers_to_its_own_address_only() {
        let mut table = Table::new(2);
        let (number, _) = open(&mut table, 7);
        assert!(table.from(number, address(8)).is_none());
        let other = SocketAddr::from(([10, 0, 0, 2], 7));
        assert!(table.from(number, other).is_none());
        assert_eq!(table.from(number, address(7)).map(|link| link.address()), Some(address(7)));
        let mapped = "[::ffff:10.0.0.1]:7".parse().expect("an address");
        assert!(table.from(number, mapped).is_some(), "both spellings of one address");
    }

    #[test]
    fn numbers_wrap_below_two_to_the_31() {
        let mut table = Table::new(1);
        open(&mut table, 1);
        let mut last = NUMBERS - 1;
        table.places[0].number = last;
        for _ in 0..3 {
            let (number, _) = open(&mut table, 1);
            assert!(number < NUMBERS && number != last);
            last = number;
        }
        assert_eq!(last, 2);
    }
}
