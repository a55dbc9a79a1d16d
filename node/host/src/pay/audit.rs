//! An audit of a node's log by anybody who has the genesis.

use std::io::BufRead;

use synod_astro::audit::{Audit, ENTRIES_MAX, Findings};
use synod_broadcast::signed::Certificate;
use synod_config::{Genesis, Pay, SynError, code};
use synod_crypto::{Keys, Seed};

use super::log::{Frames, Unreadable};
use super::node::{caps, openings, view};

/// Records between two words about how far the audit is.
const STEP: u64 = 100_000;

/// Reads a log and checks all of it, without network; `done` hears of every 100,000 records.
///
/// # Errors
/// SYN-6002 for a file that is no whole log, SYN-6003 for one of another cluster, SYN-3002 for one with more than
/// 16,777,216 payments. What is wrong in a whole log is no error: [`Findings`] have it.
pub fn audit(
    name: &str,
    from: impl BufRead,
    genesis: &Genesis,
    done: &mut dyn FnMut(u64),
) -> Result<Findings, SynError> {
    if genesis.pay().is_some_and(Pay::has_views) {
        return Err(SynError::of(code::UNSUPPORTED, &[("verb", "an audit where members come and go")])
            .because("a log does not show who the members of later views were"));
    }
    let mut frames = Frames::open(from).map_err(|why| unreadable(name, &why))?;
    let (head, cluster) = (*frames.head(), genesis.id());
    if head.cluster != cluster || usize::from(head.shard) >= genesis.groups().len() {
        let error = SynError::of(code::EPOCH_UNKNOWN, &[("epoch", "of the log")]);
        return Err(error.because(format!(
            "{name} is of shard {} of cluster {}, and the genesis of {cluster}",
            head.shard, head.cluster
        )));
    }
    let view = view(genesis, head.shard)?;
    // Only public keys are used: the secret is one that nobody has.
    let keys = Keys::ed25519(&Seed::new([0; 32]), [0; 32]);
    let mut audit =
        Audit::<Certificate>::new(view, openings(genesis, head.shard)?, caps(genesis, head.shard)?);
    while let Some((record, item)) = frames.next_item().map_err(|why| unreadable(name, &why))? {
        if !audit.take(record, item, &keys) {
            let limit = format!("{ENTRIES_MAX} payments");
            let values = [("what", name), ("size", "more"), ("limit", &*limit)];
            return Err(SynError::of(code::TOO_LARGE, &values));
        }
        if record % STEP == 0 {
            done(record);
        }
    }
    Ok(audit.finish(&keys))
}

fn unreadable(name: &str, why: &Unreadable) -> SynError {
    SynError::with_message(code::CERTIFICATE_INVALID, &format!("{name}: {why}"))
}
