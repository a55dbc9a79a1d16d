//! The dependency table of the architecture, section 9, as data.
//!
//! A crate that is not here needs a decision record first; so does a new place for one that is.

/// A third-party crate that may be used.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    /// Name in the registry.
    pub name: &'static str,
    /// Lowest version; the only one when `exact`.
    pub floor: &'static str,
    /// True when the requirement must be `=floor`.
    pub exact: bool,
    /// Layers (`core`) and crates (`core/wire`) that may use it in production code.
    pub places: &'static [&'static str],
    /// True when other crates may use it in tests.
    pub dev: bool,
}

const fn at(name: &'static str, floor: &'static str, places: &'static [&'static str]) -> Allowed {
    Allowed { name, floor, exact: false, places, dev: false }
}

const fn dev(name: &'static str, floor: &'static str, places: &'static [&'static str]) -> Allowed {
    Allowed { name, floor, exact: false, places, dev: true }
}

const ALL: &[&str] = &["core", "protocols", "runtimes", "apps", "node", "tools", "tests", "fuzz"];
const HASHING: &[&str] = &["core/crypto", "core/machine"];
const NODE_TOOLS: &[&str] = &["node", "tools", "tests"];
const OBSERVED: &[&str] = &["runtimes", "node", "tools", "tests"];
const SOCKETS: &[&str] = &["runtimes/net", "node/gateway", "tools", "tests"];
const TOOLS: &[&str] = &["tools", "tests"];
const GATEWAY: &[&str] = &["node/gateway"];
const GRPC: &[&str] = &["node/gateway", "node/adapters"];
const MODELS: &[&str] = &["tools/trial", "tests"];

/// Every third-party crate, in the order of section 9.
pub const TABLE: &[Allowed] = &[
    Allowed { name: "commonware-codec", floor: "2026.10.0", exact: true, places: &["core/wire"], dev: false },
    at("bytes", "1.11.1", ALL),
    at("ed25519-zebra", "5.0", &["core/crypto"]),
    at("blst", "0.3.17", &["core/crypto"]),
    at("blake3", "1.8.7", HASHING),
    at("subtle", "2.6", HASHING),
    at("zeroize", "1.9", HASHING),
    at("xxhash-rust", "0.8.19", HASHING),
    at("rand_chacha", "0.10", HASHING),
    at("crc32c", "0.6.9", &["runtimes/journal", "runtimes/shm"]),
    at("zerocopy", "0.8.63", &["runtimes/journal", "runtimes/shm"]),
    at("nix", "0.30", &["runtimes/net"]),
    at("rustix", "1.1", &["runtimes"]),
    at("tokio", "1.54", SOCKETS),
    at("rustls", "0.23.46", SOCKETS),
    at("aws-lc-rs", "1.19", SOCKETS),
    at("redb", "4.4", &["runtimes/store"]),
    at("thiserror", "2", &["runtimes", "node"]),
    at("tracing", "0.1", OBSERVED),
    at("tracing-subscriber", "0.3.20", OBSERVED),
    at("prometheus-client", "0.25.2", OBSERVED),
    at("hdrhistogram", "7.6", OBSERVED),
    at("axum", "0.8.9", GATEWAY),
    at("futures-util", "0.3.31", GATEWAY),
    at("rcgen", "0.14", GATEWAY),
    at("rust-embed", "8", GATEWAY),
    at("tonic", "0.14.9", GRPC),
    at("prost", "0.14.4", GRPC),
    at("serde", "1", NODE_TOOLS),
    at("toml", "1", NODE_TOOLS),
    at("serde_json", "1", NODE_TOOLS),
    at("strsim", "0.11", NODE_TOOLS),
    at("clap", "4.6.7", TOOLS),
    at("clap_complete", "4.6", TOOLS),
    at("clap_mangen", "0.3", TOOLS),
    at("indicatif", "0.18.6", TOOLS),
    at("ratatui", "0.30.2", TOOLS),
    at("anyhow", "1", TOOLS),
    at("plotters", "0.3.7", &["tools/lab"]),
    at("curve25519-dalek", "5", &["tools/load"]),
    at("sha2", "0.11", &["core/crypto"]),
    dev("proptest", "1.12", &["tests"]),
    dev("arbitrary", "1.5", &["fuzz", "tools/trial", "tests"]),
    dev("stateright", "0.31", MODELS),
    dev("loom", "0.7", &["tests"]),
    dev("turmoil", "0.7.2", &["tests"]),
    dev("criterion", "0.8", &["tests"]),
    dev("gungraun", "0.20", &["tests"]),
    dev("trycmd", "0", &["tests"]),
    dev("snapbox", "0", &["tests"]),
    dev("cap", "0.1", &["tests", "fuzz"]),
    dev("fuser", "0.18", &["tools/chaos", "tests"]),
];

/// Places beyond section 9: (crate, place). Reasons in docs/adr/0012-dependency-places.md.
pub const WIDENED: &[(&str, &str)] = &[
    ("blake3", "core/wire"),
    ("curve25519-dalek", "core/crypto"),
    ("blake3", "runtimes/journal"),
    ("blake3", "runtimes/sim"),
    ("rand_chacha", "runtimes/sim"),
    ("tokio", "node/host"),
    ("rustls", "node/host"),
    ("aws-lc-rs", "node/host"),
    ("rustix", "node/config"),
    ("rustix", "tools/cli"),
    ("rustix", "tools/chaos"),
    ("plotters", "tools/cli"),
    ("zeroize", "node/config"),
];

/// Crates of baselines, each in one version: (crate, version). No crate of the workspace may use them by this table, and
/// baselines no others but those of [`TABLE`] that tools may use. Reasons in docs/adr/0033-baselines-stand-apart.md.
pub const BASELINES: &[(&str, &str)] = &[
    ("minbft", "1.0.3"),
    ("usig", "0.11.0"),
    ("shared-ids", "0.11.0"),
    ("bincode", "1.3.3"),
    ("hmac", "0.12.1"),
    ("sha2", "0.10.9"),
    ("serde_bytes", "0.11.19"),
];

/// Crates that must not be in `Cargo.lock`.
pub const DENIED: &[&str] = &[
    "ring",
    "openssl",
    "native-tls",
    "ed25519-dalek",
    "bincode",
    "postcard",
    "rkyv",
    "borsh",
    "serde_yaml",
    "rustls-pemfile",
    "redis-protocol",
    "rocksdb",
    "fjall",
    "sled",
    "libp2p",
    "quinn",
    "madsim",
    "async-std",
    "smol",
];

/// Denied crates that the lock file lists although nothing compiles them: (crate, who names it).
///
/// The resolver records an optional crate as soon as a weak feature (`ring?/alloc`) mentions it. The
/// features that would switch it on are in [`FEATURES_OFF`].
pub const LISTED_ONLY: &[(&str, &str)] = &[("ring", "rustls-webpki")];

/// Lowest versions in `Cargo.lock`, also of crates we do not name ourselves.
pub const LOCK_FLOORS: &[(&str, &str)] = &[
    ("rustls-webpki", "0.103.13"),
    ("aws-lc-sys", "0.39"),
    ("curve25519-dalek", "5"),
    ("crossbeam-channel", "0.5.15"),
    ("memmap2", "0.9.11"),
    ("bytes", "1.11.1"),
    ("tracing-subscriber", "0.3.20"),
    ("prometheus-client", "0.25.2"),
    ("h2", "0.4.16"),
];

/// Crates of which `Cargo.lock` holds one version.
pub const SINGLE: &[&str] = &["curve25519-dalek", "rustls", "blake3"];

/// Cargo features that must stay off: (crate, feature).
pub const FEATURES_OFF: &[(&str, &str)] =
    &[("blake3", "rayon"), ("blake3", "mmap"), ("plotters", "ttf"), ("rustls", "ring"), ("rcgen", "ring")];

/// Tells whether `version` is at least `floor`; missing parts count as zero.
pub fn at_least(version: &str, floor: &str) -> bool {
    parts(version) >= parts(floor)
}

fn parts(version: &str) -> [u64; 3] {
    let plain = version.trim_start_matches(['=', '^', '~', '>', ' ']);
    let plain = plain.split(['-', '+', ',']).next().unwrap_or_default();
    let mut numbers = plain.split('.').map(|part| part.trim().parse().unwrap_or(0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::{ALL, TABLE, WIDENED, at_least};

    #[test]
    fn versions_compare_by_number() {
        assert!(at_least("1.11.1", "1.11.1"));
        assert!(at_least("1.12", "1.11.1"));
        assert!(at_least("=2026.10.0", "2026.10.0"));
        assert!(!at_least("1.9", "1.11.1"));
        assert!(!at_least("0.103.9", "0.103.13"));
        assert!(at_least("1.0.0-rc.1", "1"));
    }

    #[test]
    fn names_are_unique_and_places_are_layers_or_crates_in_them() {
        for (i, row) in TABLE.iter().enumerate() {
            assert!(TABLE[i + 1..].iter().all(|other| other.name != row.name), "{}", row.name);
            for place in row.places {
                let layer = place.split('/').next().unwrap_or_default();
                assert!(ALL.contains(&layer), "{place}");
            }
        }
        for (name, _) in WIDENED {
            assert!(TABLE.iter().any(|row| row.name == *name), "{name}");
        }
    }
}
