//! Conformance: a hash over many drawn encodings per type, so that a format cannot move unnoticed.
//!
//! Each crate with wire or record types keeps a `conformance.toml` of lines `"Type" = "hash"` and a test that
//! calls [`check`]. Regenerating is a deliberate act (`SYNOD_BLESS=1`), a change of its own.

use std::collections::BTreeMap;

use crate::{Draw, Drawn, Limits, Wire};

/// Encodings that one hash covers in the quick gate.
pub const ENCODINGS: u32 = 1_024;

/// One type under conformance: its name and the hash of its drawn encodings.
pub struct Entry {
    /// The type's name, unique in its crate.
    pub name: &'static str,
    /// BLAKE3 over the drawn encodings, in hexadecimal.
    pub hash: String,
}

/// Draws [`ENCODINGS`] values of `T`, checks that each survives a round trip to the same bytes, and hashes the
/// encodings.
///
/// # Panics
/// When a drawn value does not decode from its own encoding, or re-encodes differently: the type is not
/// canonical.
#[must_use]
pub fn entry<T: Wire + Draw>(name: &'static str) -> Entry {
    let mut from = Drawn::new(seed(name));
    let mut hasher = blake3::Hasher::new();
    for _ in 0..ENCODINGS {
        let bytes = T::draw(&mut from).encode();
        match T::decode(bytes.clone(), &Limits::default()) {
            Ok(again) => assert_eq!(again.encode(), bytes, "{name}: decode then encode changed the bytes"),
            Err(error) => unreachable!("{name}: a drawn value does not decode: {error}"),
        }
        hasher.update(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
        hasher.update(&bytes);
    }
    Entry { name, hash: hasher.finalize().to_hex().as_str()[..32].to_owned() }
}

/// Compares `entries` with the text of a `conformance.toml`; the differences, one line each.
#[must_use]
pub fn check(stored: &str, entries: &[Entry]) -> Vec<String> {
    let stored: BTreeMap<&str, &str> = stored.lines().filter_map(line).collect();
    let mut findings = Vec::new();
    for entry in entries {
        match stored.get(entry.name) {
            None => findings.push(format!("{}: no stored hash", entry.name)),
            Some(hash) if *hash != entry.hash => findings.push(format!("{}: the format moved", entry.name)),
            Some(_) => {}
        }
    }
    for name in stored.keys() {
        if !entries.iter().any(|entry| entry.name == *name) {
            findings.push(format!("{name}: stored but no longer drawn"));
        }
    }
    findings
}

/// The text of a `conformance.toml` with these entries.
#[must_use]
pub fn render(entries: &[Entry]) -> String {
    let mut lines: Vec<String> = entries.iter().map(|e| format!("\"{}\" = \"{}\"", e.name, e.hash)).collect();
    lines.sort();
    lines.join("\n") + "\n"
}

fn line(text: &str) -> Option<(&str, &str)> {
    let (name, hash) = text.split_once('=')?;
    Some((name.trim().trim_matches('"'), hash.trim().trim_matches('"')))
}

fn seed(name: &str) -> u64 {
    let hash = blake3::hash(name.as_bytes());
    let (first, _) = hash.as_bytes().split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    u64::from_le_bytes(*first)
}

/// Compares `entries` with the `conformance.toml` in `folder`; with `SYNOD_BLESS` set, rewrites it first.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "test harness: the stored hashes are a file of the crate")]
pub fn compare(folder: &str, entries: &[Entry]) -> Vec<String> {
    let path = std::path::Path::new(folder).join("conformance.toml");
    if std::env::var_os("SYNOD_BLESS").is_some()
        && let Err(error) = std::fs::write(&path, render(entries))
    {
        return vec![format!("{}: {error}", path.display())];
    }
    check(&std::fs::read_to_string(&path).unwrap_or_default(), entries)
}

/// Lists types and checks them against the crate's `conformance.toml`; with `SYNOD_BLESS` set rewrites it.
#[macro_export]
macro_rules! conformance {
    ($($type:ty),* $(,)?) => {
        #[test]
        fn formats_have_not_moved() {
            let entries = [ $( $crate::conformance::entry::<$type>(stringify!($type)) ),* ];
            let findings = $crate::conformance::compare(env!("CARGO_MANIFEST_DIR"), &entries);
            assert!(findings.is_empty(), "{findings:#?}");
        }
    };
}
