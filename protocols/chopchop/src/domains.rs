//! The keys of every hash: one per purpose and cluster.
//!
//! `H_c(x)` is BLAKE3 keyed with a key derived from the purpose c and the cluster, so that no digest of one purpose or
//! cluster is one of another.

use synod_crypto::{Hash, HashKey};

macro_rules! domains {
    ($( $(#[$doc:meta])* $field:ident = $name:literal; )*) => {
        /// The hash keys of one cluster.
        #[derive(Clone, Debug)]
        pub struct Domains { $( $(#[$doc])* pub $field: HashKey, )* }

        impl Domains {
            /// Derives every key for `cluster`, the digest of the genesis. Done once per process.
            #[must_use]
            pub fn of(cluster: &Hash) -> Self {
                Self { $( $field: HashKey::derive(concat!("synod chopchop v1 ", $name), &cluster.0), )* }
            }
        }
    };
}

domains! {
    /// Digest D of a batch: over its header and the hash of its body.
    head = "head";
    /// A message, as SUBMIT signs it.
    msg = "msg";
    /// Leaves of the entry tree.
    leaf = "leaf";
    /// Inner nodes of the entry tree.
    node = "node";
    /// What clients sign: root, k, count and size together.
    commit = "commit";
    /// Leaves of the exceptions vector.
    exc_leaf = "exc_leaf";
    /// Inner nodes over the exceptions vector.
    exc_node = "exc_node";
    /// Leaves of the ids that a sign-up batch assigned.
    ids_leaf = "ids_leaf";
    /// Inner nodes over assigned ids.
    ids_node = "ids_node";
    /// Chunks of the directory.
    dir_leaf = "dir_leaf";
    /// Inner nodes over the directory's chunks, and its root.
    dir_node = "dir_node";
    /// Root of a checkpoint.
    state = "state";
}

#[cfg(test)]
mod tests {
    use super::Domains;
    use synod_crypto::Hash;

    #[test]
    fn no_two_purposes_and_no_two_clusters_share_a_digest() {
        let of = |cluster: &Hash| {
            let d = Domains::of(cluster);
            [&d.head, &d.msg, &d.leaf, &d.node, &d.commit, &d.exc_leaf, &d.exc_node, &d.ids_leaf, &d.ids_node]
                .into_iter()
                .chain([&d.dir_leaf, &d.dir_node, &d.state])
                .map(|key| key.hash(b"x"))
                .collect::<Vec<_>>()
        };
        let mut all = of(&Hash::of(b"a"));
        all.extend(of(&Hash::of(b"b")));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!((all.len(), count), (24, 24));
    }
}
