//! Who may use a listener: bearer tokens and passwords from files, and which listeners need one.
//!
//! Only the digest of a secret is kept, so no buffer or Debug output can show it, and digests are compared, so
//! the time of a comparison says nothing about the secret.

use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use synod_config::{Access, SynError, code};
use synod_crypto::Hash;

/// Longest token or password file, in bytes.
const SECRET_BYTES_MAX: u64 = 4 << 10;

/// The digest of a token or password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secret(Hash);

/// What a request showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The right secret, or none is needed.
    Right,
    /// No secret although one is needed.
    Missing,
    /// Another secret.
    Wrong,
}

impl Secret {
    /// Keeps the digest of `secret`.
    #[must_use]
    pub fn of(secret: &[u8]) -> Self {
        Self(Hash::of(secret))
    }

    /// Reads a secret file: one line, whose end does not count.
    ///
    /// # Errors
    /// SYN-1101 if the file cannot be read or is longer than 4 KiB, SYN-1104 if it is a link, no regular file or
    /// open to other users, SYN-1103 if it is empty.
    pub fn read(path: &Path) -> Result<Self, SynError> {
        Self::bytes(path).map(|secret| Self::of(&secret))
    }

    /// The same, as it stands there: for what is made under a secret and not compared with one.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, SynError> {
        let shown = path.display().to_string();
        let unreadable = |error: std::io::Error| {
            SynError::of(code::CONFIG_UNREADABLE, &[("file", shown.as_str())]).because(error)
        };
        let not_safe = |problem: &str| {
            SynError::of(code::KEY_FILE_UNSAFE, &[("file", shown.as_str()), ("problem", problem)])
        };
        if std::fs::symlink_metadata(path).map_err(unreadable)?.file_type().is_symlink() {
            return Err(not_safe("it is a symbolic link"));
        }
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(not_safe("it is not a regular file"));
        }
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(not_safe(&format!("its mode is {mode:04o}, not 0600")));
        }
        let mut bytes = Vec::new();
        file.take(SECRET_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > SECRET_BYTES_MAX {
            return Err(unreadable(std::io::Error::other("it is longer than 4096 bytes")));
        }
        let secret = bytes.trim_ascii_end();
        if secret.is_empty() {
            let values = [("file", shown.as_str()), ("key", "the secret"), ("problem", "empty")];
            return Err(SynError::of(code::BAD_VALUE, &values));
        }
        Ok(secret.to_vec())
    }

    /// The digest, for a state machine that compares by itself.
    #[must_use]
    pub fn digest(&self) -> Hash {
        self.0
    }

    /// Judges the value of an `Authorization` header against the secret that is needed, if any.
    #[must_use]
    pub fn judge(needed: Option<&Self>, authorization: Option<&[u8]>) -> Shown {
        let Some(needed) = needed else { return Shown::Right };
        let Some(given) = authorization else { return Shown::Missing };
        let Some((scheme, token)) = given.split_at_checked(7) else { return Shown::Wrong };
        let right = scheme.eq_ignore_ascii_case(b"bearer ") && Self::of(token.trim_ascii()) == *needed;
        if right { Shown::Right } else { Shown::Wrong }
    }
}

/// Refuses a plain listener of clients that other machines can reach: it would need TLS, which these listeners do
/// not have, whatever secret they ask for.
///
/// # Errors
/// SYN-1111 naming `key`, the configuration key of the listener.
pub(crate) fn loopback_only(address: SocketAddr, key: &str) -> Result<(), SynError> {
    guarded(address, None, (key, "TLS; put a proxy that ends TLS before it"))
}

/// Refuses a listener that other machines can reach and that asks for no secret.
///
/// # Errors
/// SYN-1111 naming the configuration key of the listener and the one that is missing.
pub(crate) fn guarded(
    address: SocketAddr,
    secret: Option<&Secret>,
    (key, missing): (&str, &str),
) -> Result<(), SynError> {
    if address.ip().is_loopback() || secret.is_some() {
        return Ok(());
    }
    let shown = address.to_string();
    Err(SynError::of(code::INSECURE_LISTENER, &[("key", key), ("address", &shown), ("missing", missing)]))
}

/// Refuses a configuration that asks client listeners for TLS.
///
/// # Errors
/// SYN-1003.
pub(crate) fn without_tls(access: &Access) -> Result<(), SynError> {
    match access.https_cert {
        Some(_) => Err(SynError::of(code::FEATURE_MISSING, &[("feature", "https")])),
        None => Ok(()),
    }
}

/// Reads the secret of `file`, a path relative to `directory`, if one is named.
///
/// # Errors
/// Those of [`Secret::read`].
pub(crate) fn named(file: Option<&PathBuf>, directory: &Path) -> Result<Option<Secret>, SynError> {
    file.map(|file| Secret::read(&directory.join(file))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    const TOKEN: &[u8] = b"0123456789abcdef";

    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("synod-access-{}-{number}", std::process::id()));
            std::fs::create_dir_all(&path).expect("the directory for temporary files is writable");
            Self(path)
        }

        fn file(&self, content: &[u8], mode: u32) -> PathBuf {
            let path = self.0.join("token");
            std::fs::write(&path, content).expect("the file is written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn a_secret_file_is_read_without_its_line_end() {
        let scratch = Scratch::new();
        let path = scratch.file(b"0123456789abcdef\n", 0o600);
        assert_eq!(Secret::read(&path), Ok(Secret::of(TOKEN)));
    }

    #[test]
    fn unsafe_empty_long_and_missing_files_are_refused_by_their_codes() {
        let scratch = Scratch::new();
        let refusal = |path: &Path| Secret::read(path).map_err(|error| error.code());
        assert_eq!(refusal(&scratch.0.join("absent")), Err(code::CONFIG_UNREADABLE));
        assert_eq!(refusal(&scratch.file(TOKEN, 0o640)), Err(code::KEY_FILE_UNSAFE));
        assert_eq!(refusal(&scratch.file(b" \n", 0o600)), Err(code::BAD_VALUE));
        let long = vec![b'a'; 4_097];
        assert_eq!(refusal(&scratch.file(&long, 0o600)), Err(code::CONFIG_UNREADABLE));
        assert!(refusal(&scratch.file(&long[..4_096], 0o600)).is_ok());
        let link = scratch.0.join("link");
        std::os::unix::fs::symlink(scratch.file(TOKEN, 0o600), &link).expect("the link is made");
        assert_eq!(refusal(&link), Err(code::KEY_FILE_UNSAFE));
    }

    #[test]
    fn only_the_right_bearer_token_is_right() {
        let secret = Secret::of(TOKEN);
        let judge = |header: Option<&str>| Secret::judge(Some(&secret), header.map(str::as_bytes));
        assert_eq!(judge(None), Shown::Missing);
        assert_eq!(judge(Some("Bearer 0123456789abcdef")), Shown::Right);
        assert_eq!(judge(Some("bearer 0123456789abcdef")), Shown::Right);
        for wrong in ["", "Bearer", "Bearer ", "Bearer 0123456789abcdeg", "Basic 0123456789abcdef"] {
            assert_eq!(judge(Some(wrong)), Shown::Wrong, "{wrong}");
        }
        assert_eq!(Secret::judge(None, None), Shown::Right);
    }

    #[test]
    fn a_configuration_with_tls_is_refused_and_files_are_found_beside_it() {
        let scratch = Scratch::new();
        let file = scratch.file(TOKEN, 0o600);
        let name = file.file_name().map(PathBuf::from);
        assert_eq!(named(name.as_ref(), &scratch.0), Ok(Some(Secret::of(TOKEN))));
        assert_eq!(named(None, &scratch.0), Ok(None));
        let access = |https_cert| Access {
            http_token_file: None,
            resp_password_file: None,
            https_key: None,
            https_cert,
        };
        assert_eq!(without_tls(&access(None)), Ok(()));
        let refusal = without_tls(&access(Some(file))).map_err(|error| error.code());
        assert_eq!(refusal, Err(code::FEATURE_MISSING));
    }

    #[test]
    fn a_listener_off_loopback_needs_a_secret() {
        let keys = ("listen.metrics", "metrics.token_file");
        let open: SocketAddr = "0.0.0.0:0".parse().expect("an address");
        let local: SocketAddr = "[::1]:0".parse().expect("an address");
        let refusal = guarded(open, None, keys).expect_err("it is reachable");
        assert_eq!(refusal.code(), code::INSECURE_LISTENER);
        assert!(guarded(open, Some(&Secret::of(TOKEN)), keys).is_ok());
        assert!(guarded(local, None, keys).is_ok());
    }
}
