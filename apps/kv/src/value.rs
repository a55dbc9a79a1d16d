//! The five types of values, each of which knows the length of its encoding at any time.
//!
//! Every change keeps the sum of encoded bytes, so the size of the state, of a leaf and of an entry are read, not
//! computed. A collection that became empty is no value: the store removes its key.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::{
    ranked::{Place, Ranked},
    score::Score,
};

/// Bytes that the length of one string or the count of one collection costs in the encoding.
pub(crate) const LENGTH_BYTES: u64 = 4;

/// Bytes that a score costs in the encoding.
const SCORE_BYTES: u64 = 8;

/// Spare capacity, in bytes, that a string may keep beyond twice its length.
const SPARE_MAX: usize = 64;

/// A value under a key.
#[derive(Debug)]
pub(crate) enum Value {
    Text(Vec<u8>),
    List(List),
    Set(Set),
    Fields(Fields),
    Sorted(Sorted),
}

impl Value {
    /// The type's name, as TYPE answers it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::List(_) => "list",
            Self::Set(_) => "set",
            Self::Fields(_) => "hash",
            Self::Sorted(_) => "zset",
        }
    }

    /// Length of the encoding, in bytes.
    pub(crate) fn weight(&self) -> u64 {
        LENGTH_BYTES
            + match self {
                Self::Text(text) => text.len() as u64,
                Self::List(list) => list.bytes,
                Self::Set(set) => set.bytes,
                Self::Fields(fields) => fields.bytes,
                Self::Sorted(sorted) => sorted.bytes,
            }
    }

    /// Number of elements, members or fields; a string has none.
    pub(crate) fn elements(&self) -> u64 {
        let count = match self {
            Self::Text(_) => 0,
            Self::List(list) => list.items.len(),
            Self::Set(set) => set.members.len(),
            Self::Fields(fields) => fields.fields.len(),
            Self::Sorted(sorted) => sorted.members.len(),
        };
        count as u64
    }

    /// Whether it is a collection without elements.
    pub(crate) fn is_empty_collection(&self) -> bool {
        !matches!(self, Self::Text(_)) && self.elements() == 0
    }

    /// Makes it the string `text`, in the memory of the string it was if there is one of a fitting size.
    pub(crate) fn become_text(&mut self, text: &[u8]) {
        if let Self::Text(old) = self
            && old.capacity() >= text.len()
            && old.capacity() <= 2 * text.len() + SPARE_MAX
        {
            old.clear();
            old.extend_from_slice(text);
            return;
        }
        *self = Self::Text(text.to_vec());
    }
}

fn cost(bytes: &[u8]) -> u64 {
    LENGTH_BYTES + bytes.len() as u64
}

/// Elements with two ends.
#[derive(Debug, Default)]
pub(crate) struct List {
    items: VecDeque<Bytes>,
    bytes: u64,
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Left,
    Right,
}

impl List {
    pub(crate) fn items(&self) -> &VecDeque<Bytes> {
        &self.items
    }

    pub(crate) fn push(&mut self, end: End, item: &[u8]) {
        self.bytes += cost(item);
        let item = Bytes::copy_from_slice(item);
        match end {
            End::Left => self.items.push_front(item),
            End::Right => self.items.push_back(item),
        }
    }

    pub(crate) fn pop(&mut self, end: End) -> Option<Bytes> {
        let item = match end {
            End::Left => self.items.pop_front(),
            End::Right => self.items.pop_back(),
        }?;
        self.bytes -= cost(&item);
        Some(item)
    }
}

/// Distinct members in byte order.
#[derive(Debug)]
pub(crate) struct Set {
    members: Ranked<Bytes>,
    bytes: u64,
}

impl Default for Set {
    fn default() -> Self {
        Self { members: Ranked::new(), bytes: 0 }
    }
}

impl Set {
    pub(crate) fn members(&self) -> &Ranked<Bytes> {
        &self.members
    }

    pub(crate) fn contains(&self, member: &[u8]) -> bool {
        self.find(member).is_ok()
    }

    /// Adds a member; whether it was new.
    pub(crate) fn add(&mut self, member: &[u8]) -> bool {
        let Err(place) = self.find(member) else { return false };
        self.members.insert(place, Bytes::copy_from_slice(member));
        self.bytes += cost(member);
        true
    }

    /// Removes a member; whether it was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let Ok(place) = self.find(member) else { return false };
        self.take(place);
        true
    }

    /// Removes the member of a rank below the length.
    pub(crate) fn remove_nth(&mut self, rank: usize) -> Option<Bytes> {
        let place = self.members.nth(rank)?;
        Some(self.take(place))
    }

    fn take(&mut self, place: Place) -> Bytes {
        let member = self.members.remove(place);
        self.bytes -= cost(&member);
        member
    }

    fn find(&self, member: &[u8]) -> Result<Place, Place> {
        self.members.find(|other| other.as_ref().cmp(member))
    }
}

/// Fields with values, in byte order of the fields.
#[derive(Debug)]
pub(crate) struct Fields {
    fields: Ranked<(Bytes, Bytes)>,
    bytes: u64,
}

impl Default for Fields {
    fn default() -> Self {
        Self { fields: Ranked::new(), bytes: 0 }
    }
}

impl Fields {
    pub(crate) fn fields(&self) -> &Ranked<(Bytes, Bytes)> {
        &self.fields
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&Bytes> {
        self.find(field).ok().map(|place| &self.fields.at(place).1)
    }

    /// Sets a field; whether it was new.
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        self.bytes += cost(value);
        match self.find(field) {
            Ok(place) => {
                let old = core::mem::replace(&mut self.fields.at_mut(place).1, Bytes::copy_from_slice(value));
                self.bytes -= cost(&old);
                false
            }
            Err(place) => {
                self.bytes += cost(field);
                let pair = (Bytes::copy_from_slice(field), Bytes::copy_from_slice(value));
                self.fields.insert(place, pair);
                true
            }
        }
    }

    /// Removes a field; whether it was there.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        let Ok(place) = self.find(field) else { return false };
        let (field, value) = self.fields.remove(place);
        self.bytes -= cost(&field) + cost(&value);
        true
    }

    fn find(&self, field: &[u8]) -> Result<Place, Place> {
        self.fields.find(|(other, _)| other.as_ref().cmp(field))
    }
}

/// Members with scores, found by member and by (score, member).
#[derive(Debug)]
pub(crate) struct Sorted {
    members: Ranked<(Bytes, Score)>,
    order: Ranked<(Score, Bytes)>,
    bytes: u64,
}

impl Default for Sorted {
    fn default() -> Self {
        Self { members: Ranked::new(), order: Ranked::new(), bytes: 0 }
    }
}

impl Sorted {
    /// Members in byte order.
    pub(crate) fn members(&self) -> &Ranked<(Bytes, Score)> {
        &self.members
    }

    /// Members in (score, member) order.
    pub(crate) fn order(&self) -> &Ranked<(Score, Bytes)> {
        &self.order
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<Score> {
        self.find(member).ok().map(|place| self.members.at(place).1)
    }

    /// Gives a member a score; the score it had.
    pub(crate) fn set(&mut self, member: &[u8], score: Score) -> Option<Score> {
        match self.find(member) {
            Ok(place) => {
                let (name, old) = self.members.at_mut(place);
                let (name, old) = (name.clone(), core::mem::replace(old, score));
                if old != score {
                    self.unorder(&name, old);
                    self.enter(score, name);
                }
                Some(old)
            }
            Err(place) => {
                let name = Bytes::copy_from_slice(member);
                self.bytes += cost(member) + SCORE_BYTES;
                self.members.insert(place, (name.clone(), score));
                self.enter(score, name);
                None
            }
        }
    }

    /// Removes a member; whether it was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let Ok(place) = self.find(member) else { return false };
        let (name, score) = self.members.remove(place);
        self.unorder(&name, score);
        self.bytes -= cost(&name) + SCORE_BYTES;
        true
    }

    fn enter(&mut self, score: Score, name: Bytes) {
        match self.place(&name, score) {
            Err(place) => self.order.insert(place, (score, name)),
            Ok(_) => unreachable!("a member stands once in the order"),
        }
    }

    fn unorder(&mut self, name: &Bytes, score: Score) {
        match self.place(name, score) {
            Ok(place) => drop(self.order.remove(place)),
            Err(_) => unreachable!("every member stands in the order"),
        }
    }

    fn place(&self, name: &Bytes, score: Score) -> Result<Place, Place> {
        self.order.find(|(other, member)| other.cmp(&score).then_with(|| member.cmp(name)))
    }

    fn find(&self, member: &[u8]) -> Result<Place, Place> {
        self.members.find(|(other, _)| other.as_ref().cmp(member))
    }
}
