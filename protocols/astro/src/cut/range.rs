//! Parts of the state behind a certified cut, each to be checked against its root record, so that any member can be asked.

use synod_crypto::{Hash, merkle};
use synod_ledger::{Node, RANGE_LEAVES, Standing, SumRange, Total};
use synod_wire::{List, wire};

use super::accounts::opened;
use super::root::{CutState, HOLDS_PER_RANGE, OpenHold, hold_range};
use super::words::RootRecord;

wire! {
    /// Which part of a state.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Piece {
        /// A range of the accounts of a ledger.
        0 = Accounts {
            /// Which ledger.
            ledger: u32,
            /// Which range.
            index: u32,
        },
        /// A range of the open holds.
        1 = Holds(u32),
    }

    /// A part of the state behind a numbered cut.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Served {
        /// The cut's number.
        pub number: u64,
        /// Which part.
        pub piece: Piece,
        /// The part.
        pub range: Range,
    }

    /// An account as it stood behind a cut.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct StoodAt {
        /// The account.
        pub standing: Standing,
        /// What its holds set aside.
        pub pending: Total,
    }

    /// A part of a state, with what shows it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Range {
        /// Accounts of a ledger.
        0 = Accounts {
            /// Lowest first.
            accounts: List<StoodAt, RANGE_LEAVES>,
            /// That they stand under the root.
            proof: SumRange,
        },
        /// Open holds.
        1 = Holds {
            /// Lowest first.
            holds: List<OpenHold, HOLDS_PER_RANGE>,
            /// Siblings from the range up.
            path: List<Hash, 32>,
        },
    }
}

/// All parts of a state.
pub(crate) fn pieces(record: &RootRecord) -> Vec<Piece> {
    let accounts = record.ledgers.iter().flat_map(|root| {
        (0..SumRange::of(root.count)).map(|index| Piece::Accounts { ledger: root.ledger, index })
    });
    accounts.chain((0..hold_ranges(record)).map(Piece::Holds)).collect()
}

fn hold_ranges(record: &RootRecord) -> u32 {
    u32::try_from(record.holds_open.div_ceil(HOLDS_PER_RANGE as u64)).unwrap_or(u32::MAX)
}

impl Range {
    /// Whether it is this part of the state under a root record.
    pub(crate) fn is(&self, piece: Piece, record: &RootRecord) -> bool {
        match (self, piece) {
            (Self::Accounts { accounts, proof }, Piece::Accounts { ledger, index }) => {
                let Some(root) = record.ledger(ledger).filter(|_| proof.index == index) else { return false };
                let node = |one: &StoodAt| -> Node {
                    let opened = opened(&one.standing, one.pending);
                    opened.leaf().node(opened.sums())
                };
                proof.shows(accounts.iter().map(node).collect(), &root.root, root.count)
            }
            (Self::Holds { holds, path }, Piece::Holds(index)) => {
                let count = hold_ranges(record);
                index < count && merkle::proves(&record.holds, count, index, hold_range(holds), path)
            }
            _ => false,
        }
    }
}

impl CutState {
    /// A part of the state, with what shows it; `None` where there is none.
    pub(crate) fn range(&self, piece: Piece) -> Option<Range> {
        match piece {
            Piece::Accounts { ledger, index } => {
                let (accounts, tree) = self.accounts.of_ledger(ledger)?;
                let proof = tree.range(index)?;
                let at = usize::try_from(index).ok()?;
                let accounts = accounts.chunks(RANGE_LEAVES).nth(at)?.iter();
                let accounts = accounts
                    .map(|(standing, pending)| StoodAt { standing: standing.clone(), pending: *pending });
                let accounts = List::try_from(accounts.collect::<Vec<_>>()).ok()?;
                Some(Range::Accounts { accounts, proof })
            }
            Piece::Holds(index) => {
                let holds = self.holds.chunks(HOLDS_PER_RANGE).nth(usize::try_from(index).ok()?)?;
                let path = List::try_from(self.hold_ranges.path(index)?).ok()?;
                Some(Range::Holds { holds: List::try_from(holds.to_vec()).ok()?, path })
            }
        }
    }
}
