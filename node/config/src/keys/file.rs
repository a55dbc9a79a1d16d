//! The private key file.

use super::from_hex;
use crate::choice::choices;
use crate::errors::{SynError, code};
use crate::files::{self, failed, shown};
use crate::table::bad_value;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use std::fmt;
use std::fs::File;
use std::path::Path;
use synod_crypto::bls::BlsSecret;
use synod_crypto::{HashKey, Keys, PublicKey, Seed};
use zeroize::{Zeroize as _, Zeroizing};

/// Longest key file in bytes.
const FILE_BYTES_MAX: usize = 256;
/// First word of the line; the number is the format.
const MAGIC: &str = "synod-key-1";

choices! {
    /// What a secret is for.
    KeyKind {
        /// Signatures and transport identity.
        Ed25519 = "ed25519",
        /// Pairwise tags.
        X25519 = "x25519",
        /// Aggregate signatures.
        Bls = "bls",
    }
}

/// The Ed25519 secret of a node, an operator or a client. Wiped when dropped; printing shows the public key.
pub struct NodeKey {
    seed: Seed,
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({:?})", self.public())
    }
}

impl NodeKey {
    /// Wraps a secret: one drawn from a seed (simulation, demo) or read elsewhere.
    #[must_use]
    pub fn from_seed(seed: Seed) -> Self {
        Self { seed }
    }

    /// Draws a secret from the operating system.
    ///
    /// # Errors
    /// SYN-9001 if the system gives no randomness.
    pub fn generate() -> Result<Self, SynError> {
        Ok(Self { seed: Seed::new(*random()?) })
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.seed.public()
    }

    /// The secret, for the transport's own key.
    #[must_use]
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// What jobs sign with. Draws a fresh batch secret.
    ///
    /// # Errors
    /// SYN-9001 if the system gives no randomness.
    pub fn to_keys(&self) -> Result<Keys, SynError> {
        Ok(Keys::ed25519(&self.seed, *random()?))
    }

    /// The same with a secret for multi-signatures, which is derived from this one: a key file holds both.
    ///
    /// # Errors
    /// SYN-9001 if the system gives no randomness.
    pub fn to_bls_keys(&self) -> Result<Keys, SynError> {
        Ok(self.to_keys()?.with_bls(self.bls()))
    }

    /// The secret for multi-signatures that belongs to this key. One way: it tells nothing of the seed.
    #[must_use]
    pub fn bls(&self) -> BlsSecret {
        let mut derived = HashKey::derive("synod bls secret 1", self.seed.expose()).hash(&[]).0;
        let seed = Seed::new(derived);
        derived.zeroize();
        BlsSecret::new(&seed)
    }

    /// The public key for multi-signatures and the proof that this key's holder has its secret, as a genesis states them.
    ///
    /// # Errors
    /// SYN-9001 if the system gives no randomness.
    pub fn bls_card(&self) -> Result<([u8; 48], [u8; 96]), SynError> {
        let pop = self.to_bls_keys()?.possess_key().expect("these keys have such a secret");
        Ok((self.bls().public().to_bytes(), pop))
    }

    /// Reads the key file at `path`.
    ///
    /// # Errors
    /// SYN-1101 if it cannot be read, SYN-1104 if it is a link, no regular file, not of mode 0600 or of another
    /// user, SYN-1103 if its content is not an ed25519 key.
    pub fn read(path: &Path) -> Result<Self, SynError> {
        Self::read_as(path, |content| parse(content, KeyKind::Ed25519))
    }

    /// Reads a secret that was made elsewhere: Ed25519 in PKCS #8, unencrypted, in PEM, at most 256 bytes.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub fn read_pkcs8(path: &Path) -> Result<Self, SynError> {
        Self::read_as(path, super::pkcs8::parse)
    }

    fn read_as(
        path: &Path,
        parse: impl Fn(&[u8]) -> Result<Zeroizing<[u8; 32]>, &'static str>,
    ) -> Result<Self, SynError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let descriptor = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| {
            if error == rustix::io::Errno::LOOP {
                return unsafe_file(path, "it is a symbolic link");
            }
            failed(code::CONFIG_UNREADABLE, path, error)
        })?;
        let stat =
            rustix::fs::fstat(&descriptor).map_err(|error| failed(code::CONFIG_UNREADABLE, path, error))?;
        if let Some(problem) = unsafe_because(&stat, rustix::process::geteuid().as_raw()) {
            return Err(unsafe_file(path, &problem));
        }
        let mut file = File::from(descriptor);
        let content = files::read_bounded(&mut file, FILE_BYTES_MAX)
            .map_err(|error| failed(code::CONFIG_UNREADABLE, path, error))?;
        let mut secret = parse(&content).map_err(|why| bad_value(&shown(path), "the key", why))?;
        let seed = Seed::new(*secret);
        secret.zeroize();
        Ok(Self { seed })
    }

    /// Writes the key file with mode 0600; nothing is overwritten.
    ///
    /// # Errors
    /// SYN-1109 if something stands at the path, SYN-1101 if the system refuses.
    pub fn write_new(&self, path: &Path) -> Result<(), SynError> {
        let mut line = Zeroizing::new(String::with_capacity(FILE_BYTES_MAX));
        line.push_str(MAGIC);
        line.push(' ');
        line.push_str(KeyKind::Ed25519.as_str());
        line.push(' ');
        for byte in self.seed.expose() {
            for nibble in [byte >> 4, byte & 15] {
                line.push(char::from_digit(u32::from(nibble), 16).expect("a nibble is one hex digit"));
            }
        }
        line.push('\n');
        files::write_new(path, line.as_bytes(), Mode::RUSR | Mode::WUSR)
    }
}

/// Keys that check and sign nothing: their secret stands for nobody.
///
/// # Errors
/// SYN-9001 if the system gives no randomness.
pub(crate) fn checker() -> Result<Keys, SynError> {
    Ok(Keys::ed25519(&Seed::new([0; 32]), *random()?))
}

/// 32 bytes of the operating system's randomness.
fn random() -> Result<Zeroizing<[u8; 32]>, SynError> {
    let mut bytes = Zeroizing::new([0; 32]);
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(SynError::of(code::BUG, &[("bundle", "the cause below")]).because(error));
            }
        }
    }
    Ok(bytes)
}

fn unsafe_file(path: &Path, problem: &str) -> SynError {
    SynError::of(code::KEY_FILE_UNSAFE, &[("file", &shown(path)), ("problem", problem)])
}

/// Why a file of this kind, mode and owner may not hold a secret of `user`.
pub(super) fn unsafe_because(stat: &Stat, user: u32) -> Option<String> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let mode = Mode::from_raw_mode(stat.st_mode).bits() & 0o7777;
    if kind != FileType::RegularFile {
        return Some(format!("it is not a regular file but {kind:?}"));
    }
    if stat.st_uid != user {
        return Some(format!("it belongs to user {}, this process runs as {user}", stat.st_uid));
    }
    (mode != 0o600).then(|| format!("its mode is {mode:04o}, not 0600"))
}

/// The secret in a key file's content. Messages never quote the content.
pub(super) fn parse(content: &[u8], wanted: KeyKind) -> Result<Zeroizing<[u8; 32]>, &'static str> {
    let text = std::str::from_utf8(content).map_err(|_| "not text")?;
    let line = text.strip_suffix('\n').unwrap_or(text);
    let mut words = line.split(' ');
    let (magic, kind, hex) = (words.next(), words.next(), words.next());
    if magic != Some(MAGIC) {
        return Err("not in format synod-key-1");
    }
    if words.next().is_some() || hex.is_none() {
        return Err("not one line of three words");
    }
    match kind.and_then(KeyKind::parse) {
        Some(kind) if kind == wanted => {}
        Some(_) => return Err("of another kind than ed25519"),
        None => return Err("of an unknown kind"),
    }
    let hex = hex.unwrap_or_default();
    if hex.len() != 64 {
        return Err("not 64 hex digits long");
    }
    from_hex(hex).map(Zeroizing::new).ok_or("not written in lower-case hex digits")
}
