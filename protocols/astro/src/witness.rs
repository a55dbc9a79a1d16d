//! What members say to each other of owners' signatures, so that not all need check all (specification, section 4.5).
//!
//! A witness checks the signatures of a batch and says whether all of them are good, under which keys. f + 1 members, one of whom is
//! correct, make the others rely on them: the representative, which admitted what it broadcasts, and f witnesses. Whether a
//! signature is good is no opinion, so a witness that says what is not so is convicted by its word beside the batch: [`FalseWitness`].

use synod_crypto::{Claim, Hash, Keys, PublicKey, Signature, Statement};
use synod_machine::broadcast::{Context, ITEMS_MAX, Lot, PAYLOAD_MAX, View};
use synod_quorum::NodeId;
use synod_wire::{Blob, List, wire};

use crate::batch::{Auth, Opened, over};
use crate::config::Profile;
use crate::job::check;
use crate::together::{Points, Signer};

/// Whether every member checks every owner's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Verify {
    /// Every member does.
    #[default]
    All,
    /// Each batch has witnesses who do, and the others take their word.
    Witness {
        /// Witnesses beyond the f that are needed beside the representative: so many may be silent and nobody waits.
        margin: u8,
    },
}

wire! {
    /// What a witness signs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Looked {
        /// The shard and view of the signer.
        pub context: Context,
        /// Which batch.
        pub lot: Lot,
        /// Its digest.
        pub digest: Hash,
        /// Over the keys under which signatures were checked, in the order of the entries.
        pub keys: Hash,
        /// Whether all of them are good.
        pub is_good: bool,
    }

    /// A witness's word.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Witnessed {
        /// Which batch.
        pub lot: Lot,
        /// Its digest.
        pub digest: Hash,
        /// See [`Looked::keys`].
        pub keys: Hash,
        /// Whether all signatures are good.
        pub is_good: bool,
        /// Whose word.
        pub member: u8,
        /// Over [`Looked`].
        pub signature: Signature,
    }

    /// A word that is not so, with what shows it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FalseWitness {
        /// The word.
        pub word: Witnessed,
        /// The keys that it names.
        pub keys: List<Option<Signer>, ITEMS_MAX>,
        /// The batch.
        pub payload: Blob<{ PAYLOAD_MAX as usize }>,
    }
}

impl Statement for Looked {
    const PROTOCOL: u8 = 3;
    const VERSION: u8 = 1;

    fn kind(&self) -> u16 {
        48
    }
}

impl Looked {
    /// What stands for the keys under which signatures are checked.
    #[must_use]
    pub fn over_keys(keys: &[Option<Signer>]) -> Hash {
        over("synod astro owners", keys)
    }
}

/// A word's claim; `None` of somebody who may not say it.
pub(crate) fn claim(view: &View, from: NodeId, word: &Witnessed) -> Option<Claim<Looked>> {
    let Witnessed { lot, digest, keys, is_good, member, signature } = *word;
    let statement = Looked { context: view.context, lot, digest, keys, is_good };
    (from == NodeId(u32::from(member))).then(|| view.claim(from, statement, signature)).flatten()
}

/// Says whether these signatures are good.
pub(crate) fn bear(
    (view, me): (&View, NodeId),
    opened: &Opened,
    (wanted, good): (&[Option<Signer>], &[Option<PublicKey>]),
    keys: &Keys,
) -> Witnessed {
    let (lot, digest) = (opened.lot(), opened.digest);
    let (of, is_good) = (Looked::over_keys(wanted), are_good(opened, good));
    let statement = Looked { context: view.context, lot, digest, keys: of, is_good };
    let signature = keys.sign(view.scope(), me, statement).signature;
    let member = me.member().expect("a replica is a member");
    Witnessed { lot, digest, keys: of, is_good, member, signature }
}

/// Whether each entry that its owner signed is signed well.
fn are_good(opened: &Opened, good: &[Option<PublicKey>]) -> bool {
    let mut lines = opened.batch.lines.iter().zip(good);
    lines.all(|(line, key)| key.is_some() || line.auth == Auth::Institution)
}

impl FalseWitness {
    /// Whether it convicts the member whose word it is, of a payment system of this profile.
    #[must_use]
    pub fn proves(&self, profile: Profile, view: &View, keys: &Keys) -> bool {
        let Self { word, keys: wanted, payload } = self;
        let said = claim(view, NodeId(u32::from(word.member)), word);
        let is_said = said.is_some_and(|claim| claim.verify(keys).is_ok());
        let Some(opened) = Opened::read_as(profile, payload.bytes()) else { return false };
        let is_of_it = opened.digest == word.digest && opened.lot() == word.lot;
        let is_under = wanted.len() == opened.batch.lines.len() && Looked::over_keys(wanted) == word.keys;
        if !(is_said && is_of_it && is_under) {
            return false;
        }
        let good = check(&opened, view, (wanted, &Points::new()), keys);
        are_good(&opened, &good) != word.is_good
    }
}
