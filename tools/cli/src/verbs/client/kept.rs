//! What a later process needs to ask for a request again: key, number and bytes, in a file of mode 0600 under the
//! request's id.
//!
//! *Bounds.* [`KEPT_MAX`] files; the oldest go.

use crate::cluster::unwritable;
use crate::exit::bug;
use crate::session::{absolute, home};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use synod_config::{Context, SynError, code};
use synod_config::{hex, unhex};
use synod_crypto::Seed;
use synod_host::{Identity, RequestId};

/// Longest request: what fits one client frame.
pub(super) const BODY_MAX: usize = 767 << 10;
/// Most requests kept.
const KEPT_MAX: usize = 256;
const SCHEMA: &str = "synod-request/1";

/// One request as it is kept.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    schema: String,
    genesis: PathBuf,
    key: String,
    number: u64,
    body: String,
}

fn directory() -> Result<PathBuf, SynError> {
    Ok(home("XDG_STATE_HOME", ".local/state", "the directory of requests")?.join("requests"))
}

/// What is wrong with a kept request.
fn damaged(what: &str) -> SynError {
    SynError::of(code::CONFIG_UNREADABLE, &[("file", "a kept request")]).because(what)
}

impl Kept {
    /// A request to the cluster of `context`.
    pub(super) fn new(context: &Context, identity: Identity, body: Vec<u8>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            genesis: context.genesis.clone(),
            key: hex(identity.key.expose()),
            number: identity.number,
            body: hex(&body),
        }
    }

    pub(super) fn genesis(&self) -> &Path {
        &self.genesis
    }

    pub(super) fn body(&self) -> Result<Vec<u8>, SynError> {
        unhex(&self.body).ok_or_else(|| damaged("its bytes are no hex digits"))
    }

    /// Who asked, without the session.
    pub(super) fn identity(&self) -> Result<Identity, SynError> {
        let key = unhex(&self.key).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let key = key.ok_or_else(|| damaged("its key is not 32 bytes"))?;
        Ok(Identity { key: Seed::new(key), number: self.number, resume: None, first: 1 })
    }

    /// Keeps it under its id.
    ///
    /// # Errors
    /// SYN-1101 if the system refuses.
    pub(super) fn keep(mut self, id: RequestId) -> Result<(), SynError> {
        self.genesis = absolute(&self.genesis)?;
        let directory = directory()?;
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map_err(|error| unwritable(&directory, &error))?;
        let path = directory.join(id.to_string());
        let text = serde_json::to_string(&self).map_err(|error| bug("request", &error))?;
        let opened = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&path);
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| unwritable(&path, &error))?;
        forget_oldest(&directory);
        Ok(())
    }

    /// The request of this id.
    ///
    /// # Errors
    /// SYN-3014 if it is not kept here; SYN-1101, SYN-1110 for a file that cannot be read.
    pub(super) fn find(id: &str) -> Result<Self, SynError> {
        let plain =
            id.starts_with("r1-") && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let unknown = || {
            SynError::of(code::SESSION_UNKNOWN, &[("session", id)])
                .because("no request of this id was submitted by this user on this machine")
        };
        if !plain {
            return Err(crate::session::usage(&format!("{id:?} is no request id")));
        }
        let path = directory()?.join(id);
        let unreadable = |why: &dyn std::fmt::Display| damaged(&why.to_string()).because(path.display());
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(unknown()),
            read => read.map_err(|error| unreadable(&error))?,
        };
        let kept: Self = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
        if kept.schema != SCHEMA {
            let shown = path.display().to_string();
            let values = [("file", &*shown), ("found", &*kept.schema), ("known", SCHEMA)];
            return Err(SynError::of(code::FORMAT_NEWER, &values));
        }
        Ok(kept)
    }
}

/// Ids of what is kept, oldest first.
fn dated(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut dated: Vec<_> =
        entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    dated.sort();
    dated.into_iter().map(|(_, path)| path).collect()
}

/// The id of the newest request.
///
/// # Errors
/// SYN-1001 if none is kept.
pub(super) fn newest() -> Result<String, SynError> {
    let newest = dated(&directory()?).pop();
    let name = newest.as_deref().and_then(Path::file_name).and_then(|name| name.to_str().map(str::to_owned));
    name.ok_or_else(|| crate::session::usage("no request is kept here; `synod client submit` makes one"))
}

/// Removes what goes beyond the bound; a file that cannot be removed is tried again next time.
fn forget_oldest(directory: &Path) {
    let kept = dated(directory);
    let excess = kept.len().saturating_sub(KEPT_MAX);
    for path in kept.into_iter().take(excess) {
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_are_kept() {
        let directory = std::env::temp_dir().join(format!("synod-kept-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        for number in 0..KEPT_MAX + 5 {
            let file = std::fs::File::create(directory.join(format!("r{number}"))).expect("a file");
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(number as u64);
            file.set_modified(at).expect("it is ours");
        }
        forget_oldest(&directory);
        let left = |number: usize| directory.join(format!("r{number}")).exists();
        assert!(!left(4) && left(5) && left(KEPT_MAX + 4));
        std::fs::remove_dir_all(&directory).expect("it is ours");
    }

    #[test]
    fn an_id_that_could_leave_the_directory_is_refused() {
        for id in ["../x", "r1-/etc", "r1-..", ""] {
            assert_eq!(Kept::find(id).map(drop).map_err(|error| error.code()), Err(code::BAD_USAGE), "{id}");
        }
    }
}
