//! What the ledger promises, against books kept by hand.

mod borders;
mod entries;
mod order;
mod parts;
mod past;
mod refusals;
mod shop;
mod totals;
mod tree;

use synod_ledger::{
    AccountId, Applied, Border, Code, Entry, EntryId, Flags, Hold, Kind, Leg, Node, Opened, Opening,
    Overwrote, Owner, Part, Run, Standing, SumLeaf, SumPath, SumRange, Sums, Terms, Total, Units, UserData,
    Verdict,
};

synod_wire::conformance!(
    AccountId, Applied, Border, Code, Entry, EntryId, Flags, Hold, Kind, Leg, Node, Opened, Opening,
    Overwrote, Owner, Part, Run, Standing, SumLeaf, SumPath, SumRange, Sums, Terms, Total, Units, UserData,
    Verdict,
);
