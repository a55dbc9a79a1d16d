//! Two entries that the owner of an account signed for one place, as they are shown.

use super::receipts;
use crate::output::Report;
use crate::proof::{Proof, invalid};
use serde_json::{Value, json};
use synod_config::{Genesis, SynError, hex};
use synod_host::pay::{self, TWO_ENTRIES, TwoEntries};

/// Columns of an entry.
const ENTRY: [&str; 6] = ["digest", "kind", "id", "to", "amount", "code"];

/// Checks what shows two entries.
///
/// # Errors
/// SYN-2101 for another cluster, SYN-6002 for what proves nothing.
pub(crate) fn two_entries(proof: &Proof, genesis: &Genesis) -> Result<TwoEntries, SynError> {
    receipts::is_of(proof, genesis)?;
    if proof.kind != TWO_ENTRIES {
        return Err(invalid(&format!("it is a proof of kind {:?}", proof.kind)));
    }
    pay::check_two(proof.bytes()?, genesis)
}

/// Says what two entries prove.
pub(crate) fn shown_two(two: &TwoEntries, genesis: &Genesis) -> Report {
    let place = two.place();
    let row = |entry: &pay::Entry| -> Vec<Value> {
        let known = pay::known(entry);
        vec![
            json!(pay::digest(entry).to_string()),
            json!(known.kind),
            json!(known.id.to_string()),
            json!(known.to.map(|to| to.to_string())),
            json!(known.amount.map(|amount| amount.to_string())),
            json!(known.code),
        ]
    };
    Report::new("synod-verify/1")
        .field("kind", TWO_ENTRIES)
        .field("cluster", genesis.cluster().name.clone())
        .field("epoch", genesis.roster().epoch().0)
        .field("proved", "the holder of this key signed two entries for one place")
        .field("account", place.spender.to_string())
        .field("n", place.n.to_string())
        .field("ed25519", hex(&two.key.0))
        .list("entries", &ENTRY, vec![row(&two.one.entry), row(&two.other.entry)])
}
