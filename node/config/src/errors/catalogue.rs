//! The catalogue joined with the fault lists of the protocols a program hosts.

use super::{Code, ERRORS, Entry};
use std::collections::BTreeMap;

/// Every row a program knows: [`ERRORS`] and the fault lists of its protocols.
#[derive(Clone, Debug)]
pub struct Catalogue {
    rows: BTreeMap<Code, &'static Entry>,
}

impl Catalogue {
    /// Joins [`ERRORS`] with the given lists. A code that stands twice is a mistake of the program and is
    /// returned, because one of the two meanings would be lost.
    ///
    /// # Errors
    /// The first code that two rows claim.
    pub fn joined(lists: &[&'static [Entry]]) -> Result<Self, Code> {
        let mut rows = BTreeMap::new();
        for entry in ERRORS.iter().chain(lists.iter().flat_map(|list| list.iter())) {
            if rows.insert(entry.code, entry).is_some() {
                return Err(entry.code);
            }
        }
        Ok(Self { rows })
    }

    /// The row of a code.
    #[must_use]
    pub fn explain(&self, code: Code) -> Option<&'static Entry> {
        self.rows.get(&code).copied()
    }

    /// All rows in ascending order of their codes.
    pub fn rows(&self) -> impl Iterator<Item = &'static Entry> {
        self.rows.values().copied()
    }
}
