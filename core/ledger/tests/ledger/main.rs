//! What the ledger promises, against books kept by hand.

mod borders;
mod entries;
mod order;
mod parts;
mod refusals;
mod shop;
mod totals;
mod tree;

use synod_ledger::{
    AccountId, Border, Code, Entry, EntryId, Flags, Hold, Kind, Leg, Node, Opened, Opening, Owner, Part, Run,
    Standing, SumLeaf, SumPath, Sums, Terms, Total, Units, UserData, Verdict,
};

synod_wire::conformance!(
    AccountId, Border, Code, Entry, EntryId, Flags, Hold, Kind, Leg, Node, Opened, Opening, Owner, Part, Run,
    Standing, SumLeaf, SumPath, Sums, Terms, Total, Units, UserData, Verdict,
);
