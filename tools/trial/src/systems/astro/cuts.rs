//! What cuts of a run say: members that tell the truth have one root behind each cut, no money is made behind one, and no root can be
//! shown with less than its accounts are owed. A-S5 at cuts.

use std::collections::BTreeMap;

use synod_astro::{Balance, CutSign, Proof, RootRecord, Shown};
use synod_crypto::Hash;
use synod_ledger::{Node, Opened, SumPath, Sums, Total};

use crate::oracle::{Verdict, breach};

/// Roots by the number of their cut.
#[derive(Clone, Debug, Default)]
pub struct Cutting {
    /// What members who tell the truth signed of cuts whose proposer does, with the first of them.
    signed: BTreeMap<u64, (u32, Hash)>,
    certified: BTreeMap<u64, Hash>,
    /// The last proof of each member.
    proofs: BTreeMap<u32, Proof>,
}

impl Cutting {
    /// A member that tells the truth signed the state behind a cut of one that does.
    pub(super) fn sign(&mut self, node: u32, sign: &CutSign) -> Verdict {
        let (first, root) = *self.signed.entry(sign.number).or_insert((node, sign.root));
        if root == sign.root {
            return Ok(());
        }
        let what = format!("members {first} and {node} sign two states behind cut {}", sign.number);
        breach("A-S5", what)
    }

    /// A cut is certified at a member; whether it is the first time.
    pub(super) fn certify(&mut self, record: &RootRecord) -> Result<bool, crate::oracle::Breach> {
        for ledger in &record.ledgers {
            let sums = ledger.root.sums;
            if (sums.credits, sums.liabilities) != (sums.debits, sums.issued) {
                breach(
                    "A-S5",
                    format!("money is made in ledger {} behind cut {}", ledger.ledger, record.number),
                )?;
            }
        }
        match self.certified.insert(record.number, record.digest()) {
            Some(root) if root != record.digest() => {
                breach("A-S5", format!("two states are certified behind cut {}", record.number))?;
                Ok(false)
            }
            known => Ok(known.is_none()),
        }
    }

    /// A member proves how an account stands. Two of one cut are taken for a way to show both owners a total that is too low.
    pub(super) fn prove(&mut self, node: u32, proof: &Proof) -> Verdict {
        if let Some(other) =
            self.proofs.insert(node, proof.clone()).filter(|other| other.record == proof.record)
        {
            let two = [&other.shown, &proof.shown].map(|shown| match shown {
                Shown::Balance(balance) => Some(&**balance),
                Shown::Absence { .. } | Shown::Liabilities => None,
            });
            if let [Some(one), Some(other)] = two
                && hides(one, other)
            {
                return breach(
                    "A-S5",
                    "one root shows less than two accounts are owed to both of them".to_owned(),
                );
            }
        }
        Ok(())
    }
}

/// Whether a node over two neighbours can leave out what the other one was paid.
fn hides(one: &Balance, other: &Balance) -> bool {
    if one.path.index ^ 1 != other.path.index {
        return false;
    }
    let most = |one: Total, other: Total| one.max(other);
    let (a, b) = (one.opened.sums(), other.opened.sums());
    let top = Sums {
        credits: most(a.credits, b.credits),
        debits: most(a.debits, b.debits),
        pending: most(a.pending, b.pending),
        liabilities: most(a.liabilities, b.liabilities),
        issued: most(a.issued, b.issued),
    };
    if a.checked_add(&b) == Some(top) {
        return false;
    }
    let shown = |mine: &Opened, index: u32, hidden: &Opened| {
        let sums = mine.sums();
        let rest = Sums {
            credits: top.credits.checked_sub(sums.credits)?,
            debits: top.debits.checked_sub(sums.debits)?,
            pending: top.pending.checked_sub(sums.pending)?,
            liabilities: top.liabilities.checked_sub(sums.liabilities)?,
            issued: top.issued.checked_sub(sums.issued)?,
        };
        let sibling = Node { sums: rest, ..hidden.leaf().node(hidden.sums()) };
        let path = SumPath { index: index & 1, siblings: vec![sibling].try_into().ok()? };
        path.root(&mine.leaf(), sums)
    };
    let first = shown(&one.opened, one.path.index, &other.opened);
    first.is_some() && first == shown(&other.opened, other.path.index, &one.opened)
}
