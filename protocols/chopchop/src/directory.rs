//! The directory: which keys each client has (paper 2.2).
//!
//! Cards are appended in the order in which they are listed and delivered, so every correct server has the same ids.
//! Members stand in chunks of 512; a [`View`] shares the chunks, so that a job holds one while the server appends.
//! Keys never change or leave.
//!
//! *Bounds.* 80 bytes per client and 24 bytes of index, and at most 2^32 - 1 clients. Appending copies at most one
//! chunk of 40 KiB that a view still holds.

mod assigned;
#[cfg(test)]
mod tests;

use core::ops::Bound;
use std::collections::BTreeSet;
use std::sync::Arc;

use synod_crypto::{Hash, PublicKey};
use synod_machine::planted;
use synod_wire::Wire;

use crate::Domains;
use crate::card::Card;
use crate::fixed::fixed;
use crate::statement::BlsKeyBytes;
use crate::tree::root;

pub use assigned::{Assigned, NO_ID};

/// Clients of a chunk.
pub const CHUNK_MEMBERS: usize = 512;
/// Most clients: the last id is 2^32 - 2.
pub const LENGTH_MAX: u32 = u32::MAX;
/// Bytes of a member in a chunk.
const MEMBER_BYTES: usize = 80;

fixed! {
    /// The keys of one client, as the directory keeps them: possession was checked once and is not kept.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Member {
        /// The BLS key.
        pub bls: BlsKeyBytes,
        /// The Ed25519 key.
        pub ed: PublicKey,
    }
}

impl From<&Card> for Member {
    fn from(card: &Card) -> Self {
        Self { bls: *card.bls(), ed: *card.ed() }
    }
}

/// Members of up to [`CHUNK_MEMBERS`] ids in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberChunk {
    members: Vec<Member>,
}

impl MemberChunk {
    /// The members, in order of their ids.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The bytes of a checkpoint and of CARDS: 80 per member.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.members.iter().flat_map(|member| member.encode()).collect()
    }

    /// Reads what [`MemberChunk::encode`] wrote; `None` when it is no chunk or empty.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let members = bytes.chunks_exact(MEMBER_BYTES);
        if bytes.is_empty() || !members.remainder().is_empty() || members.len() > CHUNK_MEMBERS {
            return None;
        }
        let member = |bytes: &[u8]| {
            let (bls, ed) = bytes.split_first_chunk::<48>()?;
            Some(Member { bls: BlsKeyBytes(*bls), ed: PublicKey(*ed.first_chunk::<32>()?) })
        };
        Some(Self { members: members.map(member).collect::<Option<_>>()? })
    }

    fn hash(&self, domains: &Domains) -> Hash {
        domains.dir_leaf.hash(&self.encode())
    }
}

/// The directory as it was at one length; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct View {
    chunks: Vec<Arc<MemberChunk>>,
    length: u32,
}

/// `entries` in shared chunks, again and again until there are `length`; `None` when a chunk would be cut in the middle.
pub(crate) fn repeating<T, C>(entries: &[T], length: u32, chunk: impl Fn(&[T]) -> C) -> Option<Vec<Arc<C>>> {
    let wanted = length as usize;
    let fits = wanted <= entries.len()
        || (!entries.is_empty()
            && entries.len().is_multiple_of(CHUNK_MEMBERS)
            && wanted.is_multiple_of(CHUNK_MEMBERS));
    let once = entries.get(..wanted).unwrap_or(entries).chunks(CHUNK_MEMBERS);
    let chunks: Vec<Arc<C>> = once.map(|entries| Arc::new(chunk(entries))).collect();
    fits.then(|| chunks.iter().cycle().take(wanted.div_ceil(CHUNK_MEMBERS)).cloned().collect())
}

impl View {
    /// A view of `length` clients, whose keys are those of `members` again and again; `None` when `length` is neither at
    /// most their number nor, like their number, a multiple of [`CHUNK_MEMBERS`]. For load generators: no directory that
    /// cards make has a key twice, and 257 million ids take no more memory than their pointers.
    #[must_use]
    pub fn repeating(members: &[Member], length: u32) -> Option<Self> {
        let chunks = repeating(members, length, |members| MemberChunk { members: members.to_vec() })?;
        Some(Self { chunks, length })
    }

    /// Number of clients.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.length
    }

    /// Whether there is no client.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The keys of client `id`; `None` beyond the last.
    #[must_use]
    pub fn member(&self, id: u32) -> Option<&Member> {
        let at = usize::try_from(id).ok()?;
        self.chunks.get(at / CHUNK_MEMBERS)?.members.get(at % CHUNK_MEMBERS).filter(|_| id < self.length)
    }

    /// The chunks, in order of ids.
    #[must_use]
    pub fn chunks(&self) -> &[Arc<MemberChunk>] {
        &self.chunks
    }

    /// The root by which servers report a prefix: over the hashes of the chunks, and the length.
    #[must_use]
    pub fn root(&self, domains: &Domains) -> Hash {
        let leaves = self.chunks.iter().flat_map(|chunk| chunk.hash(domains).0).collect();
        let top = root(&domains.dir_node, leaves);
        domains.dir_node.hash_parts(&[&self.length.to_le_bytes(), &top.0])
    }
}

/// What kind of key an index entry is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Which {
    Bls,
    Ed,
}

impl Which {
    fn key(self, member: &Member) -> &[u8] {
        match self {
            Self::Bls => &member.bls.0,
            Self::Ed => &member.ed.0,
        }
    }
}

/// The ids under the first eight bytes of a key: 12 bytes each. Entries that share them are told apart by the key.
#[derive(Clone, Debug, Default)]
struct Index(BTreeSet<([u8; 8], [u8; 4])>);

impl Index {
    /// Of all keys of one kind at once, which for a million is a tenth of the work of entering one after another; nothing when a key
    /// stands twice.
    fn of(view: &View, which: Which) -> Option<Self> {
        let members = view.chunks.iter().flat_map(|chunk| &chunk.members);
        let entry = |(id, member): (u32, &Member)| (prefix(which.key(member)), id.to_be_bytes());
        let mut all: Vec<([u8; 8], [u8; 4])> = (0..view.length).zip(members).map(entry).collect();
        all.sort_unstable();
        for same in all.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
            let mut members: Vec<&Member> =
                same.iter().filter_map(|(_, id)| view.member(u32::from_be_bytes(*id))).collect();
            members.sort_unstable_by_key(|member| which.key(member));
            if members.windows(2).any(|two| which.key(two[0]) == which.key(two[1])) {
                return None;
            }
        }
        Some(Self(all.into_iter().collect()))
    }

    fn insert(&mut self, key: &[u8], id: u32) {
        self.0.insert((prefix(key), id.to_be_bytes()));
    }

    fn ids(&self, key: &[u8]) -> impl Iterator<Item = u32> + '_ {
        let prefix = prefix(key);
        let bounds = (Bound::Included((prefix, [0; 4])), Bound::Included((prefix, [0xff; 4])));
        self.0.range(bounds).map(|(_, id)| u32::from_be_bytes(*id))
    }
}

fn prefix(key: &[u8]) -> [u8; 8] {
    key.first_chunk::<8>().copied().unwrap_or_default()
}

/// The directory of a server or a broker.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    view: View,
    bls: Index,
    ed: Index,
}

impl Directory {
    /// A directory of these chunks; `None` when one but the last is not full, the last is empty, or a key stands twice.
    #[must_use]
    pub fn restore(chunks: Vec<Arc<MemberChunk>>) -> Option<Self> {
        let last = chunks.len().checked_sub(1);
        let full = |(at, chunk): (usize, &Arc<MemberChunk>)| {
            chunk.members.len() == CHUNK_MEMBERS || (Some(at) == last && !chunk.members.is_empty())
        };
        if !chunks.iter().enumerate().all(full) {
            return None;
        }
        let length = chunks.iter().map(|chunk| chunk.members.len()).sum::<usize>();
        let view = View { length: u32::try_from(length).ok()?, chunks };
        let [bls, ed] = [Which::Bls, Which::Ed].map(|which| Index::of(&view, which));
        Some(Self { bls: bls?, ed: ed?, view })
    }

    /// The directory as it is now.
    #[must_use]
    pub fn view(&self) -> View {
        self.view.clone()
    }

    /// Number of clients.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.view.length
    }

    /// Whether there is no client.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// The id whose card has both keys.
    #[must_use]
    pub fn id_of(&self, member: &Member) -> Option<u32> {
        let bls = self.find(Which::Bls, member)?;
        (self.find(Which::Ed, member) == Some(bls)).then_some(bls)
    }

    fn find(&self, which: Which, member: &Member) -> Option<u32> {
        let is = |id: &u32| {
            self.view.member(*id).is_some_and(|known| match which {
                Which::Bls => known.bls == member.bls,
                Which::Ed => known.ed == member.ed,
            })
        };
        match which {
            Which::Bls => self.bls.ids(&member.bls.0).find(is),
            Which::Ed => self.ed.ids(&member.ed.0).find(is),
        }
    }

    fn enter(&mut self, member: &Member, id: u32) {
        self.bls.insert(&member.bls.0, id);
        self.ed.insert(&member.ed.0, id);
    }

    /// Takes one member in: the id it has now, and whether it is new. With neither key known it is appended; with both
    /// known of one member it is that one; else, and when the directory is full, it has no id.
    pub fn admit(&mut self, member: &Member) -> (Option<u32>, bool) {
        match (self.find(Which::Bls, member), self.find(Which::Ed, member)) {
            (None, found) if self.view.length < LENGTH_MAX && (found.is_none() || planted!(C27)) => {
                let id = self.view.length;
                self.append(member.clone());
                (Some(id), true)
            }
            (Some(bls), Some(ed)) if bls == ed => (Some(bls), false),
            (None | Some(_), None | Some(_)) => (None, false),
        }
    }

    fn append(&mut self, member: Member) {
        let id = self.view.length;
        self.enter(&member, id);
        let last = self.view.chunks.last_mut().filter(|chunk| chunk.members.len() < CHUNK_MEMBERS);
        match last {
            Some(chunk) => Arc::make_mut(chunk).members.push(member),
            None => self.view.chunks.push(Arc::new(MemberChunk { members: vec![member] })),
        }
        self.view.length = id + 1;
    }

    /// Delivers the cards of a sign-up batch, in listed order.
    pub fn deliver(&mut self, cards: &[Card]) -> Assigned {
        let admitted: Vec<(Option<u32>, bool)> = cards.iter().map(|card| self.admit(&card.into())).collect();
        Assigned::new(cards, &admitted)
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.view.length) * (MEMBER_BYTES as u64 + 2 * 12)
    }
}
