//! What this machine does without a cluster, measured in the same run: the figures to compare with.

use super::Plan;
use super::run::{Load, measure};
use crate::session::Session;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// How long disk and stream are measured.
const SPAN: Duration = Duration::from_millis(500);
/// Bytes of one append.
const APPEND_BYTES: usize = 4 << 10;

/// Three figures, or why one is missing.
pub(crate) struct Baseline {
    fdatasync_per_s: Result<u64, String>,
    tls_loopback_bytes_s: Result<u64, String>,
    unreplicated_per_s: Result<u64, String>,
}

impl Baseline {
    /// Measures one after the other, on a machine that this run leaves idle meanwhile.
    pub(crate) fn take(session: &Session, plan: &Plan) -> Self {
        session.watched("measuring the disk, a stream and one member alone");
        let tls = synod_net::loopback_bytes_per_s(SPAN).map_err(|error| error.to_string());
        let alone = measure(session, &plan.alone(), Load::Alone);
        Self {
            fdatasync_per_s: syncs().map_err(|error| error.to_string()),
            tls_loopback_bytes_s: tls,
            unreplicated_per_s: alone
                .map_err(|error| error.message().to_owned())
                .map(|found| found.measured.completed / plan.alone().span.as_secs().max(1)),
        }
    }

    /// The figures by their keys.
    pub(crate) fn figures(&self) -> [(&'static str, Result<u64, String>); 3] {
        [
            ("fdatasync_per_s", self.fdatasync_per_s.clone()),
            ("tls_loopback_bytes_s", self.tls_loopback_bytes_s.clone()),
            ("unreplicated_per_s", self.unreplicated_per_s.clone()),
        ]
    }
}

/// Appends with `fdatasync` per second, one after the other, to a file beside the directories of clusters.
fn syncs() -> std::io::Result<u64> {
    let path = std::env::temp_dir().join(format!("synod-bench-append-{}", std::process::id()));
    let mut file = std::fs::File::options().write(true).create_new(true).open(&path)?;
    // Without a name nothing is left behind, however this process ends.
    std::fs::remove_file(&path)?;
    let part = vec![0x5a; APPEND_BYTES];
    let begun = Instant::now();
    let mut count = 0_u64;
    while begun.elapsed() < SPAN {
        file.write_all(&part)?;
        file.sync_data()?;
        count += 1;
    }
    let nanos = begun.elapsed().as_nanos().max(1);
    Ok(u64::try_from(u128::from(count) * 1_000_000_000 / nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    #[test]
    fn appends_are_counted_and_leave_no_file() {
        assert!(super::syncs().expect("the directory for temporary files is writable") > 0);
        let name = format!("synod-bench-append-{}", std::process::id());
        assert!(!std::env::temp_dir().join(name).exists());
    }
}
