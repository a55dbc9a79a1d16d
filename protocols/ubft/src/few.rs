//! An ordered map of a few entries, in one piece of memory: a replica keeps several for each slot, and a tree has room for eleven where one
//! has an entry or three.
//!
//! *Bounds.* None of its own: whoever keeps one says how many entries it may have. Finding one looks at all that come before it.

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Few<K, V> {
    /// Ascending.
    entries: Vec<(K, V)>,
}

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<K: Copy + Ord, V> Few<K, V> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Without its entries, and with their memory.
    pub(crate) fn cleared(mut self) -> Self {
        self.entries.clear();
        self
    }

    pub(crate) const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Where a key is, or would be.
    fn place(&self, key: K) -> Result<usize, usize> {
        let at = self.entries.iter().position(|(other, _)| *other >= key).unwrap_or(self.entries.len());
        if self.entries.get(at).is_some_and(|(other, _)| *other == key) { Ok(at) } else { Err(at) }
    }

    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.place(key).ok().and_then(|at| self.entries.get(at)).map(|(_, value)| value)
    }

    pub(crate) fn contains(&self, key: K) -> bool {
        self.place(key).is_ok()
    }

    /// Puts a value in; what it had there before.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(key) {
            Ok(at) => self.entries.get_mut(at).map(|(_, place)| core::mem::replace(place, value)),
            Err(at) => {
                self.entries.insert(at, (key, value));
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        self.place(key).ok().map(|at| self.entries.remove(at).1)
    }

    /// All of it, by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.entries.iter().map(|(key, value)| (*key, value))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = K> {
        self.entries.iter().map(|(key, _)| *key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.iter().map(|(_, value)| value)
    }
}

impl<K: Copy + Ord> Few<K, crate::batch::View> {
    /// Keeps the later of two views.
    pub(crate) fn raise(&mut self, key: K, view: crate::batch::View) {
        let last = self.get(key).copied();
        if last.is_none_or(|last| last < view) {
            self.insert(key, view);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Few;
    use std::collections::BTreeMap;

    /// Every short list of puts and removals does what a tree does with it.
    #[test]
    fn a_few_entries_are_a_tree_of_them() {
        const KEYS: u32 = 4;
        // A digit for each step: below KEYS a put, from there on a removal.
        for list in 0..(2 * KEYS).pow(5) {
            let (mut few, mut tree) = (Few::new(), BTreeMap::new());
            let mut rest = list;
            for step in 0..5 {
                let (digit, key) = (rest % (2 * KEYS), rest % KEYS);
                rest /= 2 * KEYS;
                if digit < KEYS {
                    assert_eq!(few.insert(key, step), tree.insert(key, step));
                } else {
                    assert_eq!(few.remove(key), tree.remove(&key));
                }
                assert_eq!(few.len(), tree.len());
                assert!(few.iter().eq(tree.iter().map(|(key, value)| (*key, value))), "list {list}");
                assert!(few.keys().eq(tree.keys().copied()) && few.values().eq(tree.values()));
                assert!((0..KEYS).all(|key| few.get(key) == tree.get(&key)));
                assert!((0..KEYS).all(|key| few.contains(key) == tree.contains_key(&key)));
            }
            assert_eq!(few.cleared(), Few::new());
        }
    }
}
