//! The key family of benchmarks, its members as a directory, and the cluster that they write to.

use super::ed25519::EdFamily;
use synod_chopchop::config::{Cluster, Rules};
use synod_chopchop::directory::{Member, View};
use synod_chopchop::keybook::KeyBook;
use synod_chopchop::statement::BlsKeyBytes;
use synod_crypto::bls::{BenchFamily, BlsMembers, BlsPublicKey, BlsSecret};
use synod_crypto::{Hash, Keys, Seed};
use synod_quorum::{Epoch, Member as Voter, Model, Quorums, Roster};

/// Number of servers of [`cluster`].
pub(super) const SERVERS: u8 = 4;

/// Keys of any number of members, out of 32 bytes.
pub struct KeyFamily {
    /// The keys for multi-signatures.
    pub bls: BenchFamily,
    /// The keys for single signatures.
    pub ed: EdFamily,
}

impl KeyFamily {
    /// The family of a seed; equal seeds give equal families.
    #[must_use]
    pub fn new(seed: &Seed) -> Self {
        Self { bls: BenchFamily::new(seed), ed: EdFamily::new(seed) }
    }

    /// Makes a directory of `length` ids that `members` of the family stand behind, again and again; 3 us per member.
    /// `None` when `length` is neither at most `members` nor, like it, a multiple of 512.
    #[must_use]
    pub fn members(self, members: u32, length: u32) -> Option<Members> {
        let members = members.min(length);
        let bls = self.bls.keys(0, members);
        let ed = self.ed.keys(0, members);
        let entry = |(bls, ed): (&BlsPublicKey, _)| Member { bls: BlsKeyBytes(bls.to_bytes()), ed };
        let entries: Vec<Member> = bls.iter().zip(ed).map(entry).collect();
        let (view, keys) = (View::repeating(&entries, length)?, KeyBook::repeating(&bls, length)?);
        Some(Members { family: self, members, view, keys })
    }
}

/// The members of a family, as servers know them.
pub struct Members {
    pub(super) family: KeyFamily,
    members: u32,
    /// The directory.
    pub view: View,
    /// The same keys as points.
    pub keys: KeyBook,
}

impl Members {
    /// Number of ids.
    #[must_use]
    pub const fn length(&self) -> u32 {
        self.view.len()
    }

    /// The member of the family behind an id.
    pub(super) const fn behind(&self, id: u32) -> u32 {
        match id.checked_rem(self.members) {
            Some(member) => member,
            None => 0,
        }
    }
}

/// The keys of a server of [`cluster`].
pub(super) fn server_keys(server: u8) -> Keys {
    let seed = Seed::new([server.saturating_add(1); 32]);
    Keys::ed25519(&seed, [2; 32]).with_bls(BlsSecret::new(&seed))
}

/// A cluster of four servers whose keys anybody can have; no server of it runs.
///
/// # Panics
/// Never: its servers have distinct keys, and four are enough.
#[must_use]
pub fn cluster() -> Cluster {
    let keys: Vec<Keys> = (0..SERVERS).map(server_keys).collect();
    let bls = keys.iter().filter_map(Keys::bls_public).collect();
    let voters = keys.iter().map(|keys| Voter { key: keys.public(), power: 1 }).collect();
    let roster = Roster::new(Epoch(0), voters).expect("four servers with distinct keys");
    let quorums = Quorums::new(Model::Byzantine, u32::from(SERVERS)).expect("four servers are enough");
    let bls = BlsMembers::new(bls).expect("distinct keys");
    let rules = Rules { batch_max: 1 << 20, ..Rules::default() };
    Cluster::new(Hash::of(b"synod bench chop"), roster, bls, quorums, rules).expect("sound rules")
}

#[cfg(test)]
mod tests {
    use super::KeyFamily;
    use synod_crypto::{Keys, Seed};

    #[test]
    fn a_directory_has_the_keys_of_its_members_in_both_forms() {
        let family = || KeyFamily::new(&Seed::new([9; 32]));
        let members = family().members(512, 1_536).expect("whole chunks");
        assert_eq!((members.length(), members.behind(511), members.behind(1_030)), (1_536, 511, 6));
        let reader = Keys::ed25519(&Seed::new([1; 32]), [2; 32]);
        for id in [0, 5, 511, 512, 1_535] {
            let entry = members.view.member(id).expect("below the length");
            let key = members.keys.key(id);
            assert_eq!(key, Some(family().bls.secret(members.behind(id)).public()), "id {id}");
            assert_eq!(reader.bls().vouched_key(&entry.bls.0).ok(), key, "bytes are the point's");
            assert_eq!(family().ed.keys(members.behind(id), 1), [entry.ed]);
        }
        assert!(members.keys.key(1_536).is_none() && members.view.member(1_536).is_none());
        assert!(family().members(500, 700).is_none(), "a chunk would be cut");
        assert_eq!(family().members(500, 300).map(|members| members.length()), Some(300));
    }
}
