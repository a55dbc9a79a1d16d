//! The 39 keys of `node.toml`.

use super::config::{Format, Level, Poll, Simd, Sync};
use crate::errors::SynError;
use crate::table::{Key, Kind, nearest, unknown_key};

const MS: u64 = 1_000_000;
const KI: u64 = 1 << 10;
const MI: u64 = 1 << 20;
const GI: u64 = 1 << 30;

/// Every key of `node.toml`, by section. Defaults are the values that are read when no layer says otherwise.
pub const KEYS: &[Key] = &[
    Key::new("node.name", Kind::Name(63), "", "The member of the genesis that this node is. Required."),
    Key::new("node.data_dir", Kind::Path, "data", "Directory of the journal, the state and the snapshots."),
    Key::new(
        "node.key_file",
        Kind::Path,
        "keys/node.key",
        "This node's private key; mode 0600, own user, no link.",
    ),
    Key::new("node.genesis", Kind::Path, "genesis.toml", "The file all members share."),
    Key::new("listen.peer", Kind::Address, "127.0.0.1:7100", "Where the other members connect."),
    Key::new("listen.client", Kind::AddressOrOff, "127.0.0.1:7101", "Binary client protocol."),
    Key::new(
        "listen.http",
        Kind::AddressOrOff,
        "127.0.0.1:7102",
        "HTTP and WebSocket. Off loopback it needs access.http_token_file, access.https_cert and access.https_key.",
    ),
    Key::new(
        "listen.resp",
        Kind::AddressOrOff,
        "127.0.0.1:7104",
        "RESP (Redis protocol). Off loopback it needs access.resp_password_file, access.https_cert and access.https_key.",
    ),
    Key::new(
        "listen.metrics",
        Kind::AddressOrOff,
        "127.0.0.1:7105",
        "Metrics and health. Off loopback it needs metrics.token_file.",
    ),
    Key::new(
        "listen.admin",
        Kind::PathOrNone,
        "admin.sock",
        "Unix socket for operators on this machine, mode 0600.",
    ),
    Key::new(
        "listen.grpc",
        Kind::AddressOrOff,
        "",
        "gRPC, where the program was built with it. Guarded like listen.http.",
    ),
    Key::new("listen.link", Kind::AddressOrOff, "", "Connections of linked clusters."),
    Key::new("listen.memory", Kind::AddressOrOff, "", "Memory node."),
    Key::new("listen.datagram", Kind::AddressOrOff, "", "Client datagrams (UDP)."),
    Key::new(
        "protocol.batch_max",
        Kind::Count(1, 1 << 20),
        "16384",
        "Items this node puts into one block at most; not above protocol.block_items of the genesis. Left out, it is the smaller of both.",
    ),
    Key::new(
        "protocol.batch_wait",
        Kind::Span(0, 50 * MS),
        "1ms",
        "How long a leader with an unfilled block waits for more items.",
    ),
    Key::new(
        "protocol.timeout_base",
        Kind::Span(10 * MS, 600_000 * MS),
        "100ms",
        "Time a view gets before this node complains; grows by the factor 1.5 while views fail.",
    ),
    Key::new(
        "protocol.timeout_max",
        Kind::Span(10 * MS, 600_000 * MS),
        "10s",
        "Bound of that growth; not below protocol.timeout_base.",
    ),
    Key::new(
        "storage.sync",
        Kind::Choice(Sync::WORDS),
        "group",
        "When the journal is synced: one sync per group of turns; one per turn; written but never synced; not written at all. The UNSAFE modes lose promises in a crash.",
    ),
    Key::new(
        "storage.retain_bytes",
        Kind::Size(128 * MI, 1 << 50),
        "2Gi",
        "Journal and blobs kept for peers that are behind.",
    ),
    Key::new(
        "storage.disk_reserve_bytes",
        Kind::Size(0, 1 << 50),
        "256Mi",
        "Free space below which the node takes no new requests.",
    ),
    Key::new(
        "limits.frame_max",
        Kind::Size(64 * KI, 16 * MI),
        "16Mi",
        "Largest frame on any queue; at least twice protocol.block_bytes of the genesis.",
    ),
    Key::new(
        "limits.inflight_per_client",
        Kind::Count(1, 65_536),
        "64",
        "Requests of one client that may wait for an outcome.",
    ),
    Key::new("limits.clients_max", Kind::Count(1, 1 << 20), "1024", "Client connections at a time."),
    Key::new(
        "limits.mempool_bytes",
        Kind::Size(MI, 64 * GI),
        "64Mi",
        "Requests accepted and not yet in a block; at least limits.request_max.",
    ),
    Key::new("limits.jobs_max", Kind::Count(1, 1 << 20), "1024", "Outstanding jobs of one machine."),
    Key::new(
        "limits.request_max",
        Kind::Size(KI, 8 * MI),
        "768Ki",
        "Largest request; not above limits.frame_max nor protocol.block_bytes of the genesis.",
    ),
    Key::new(
        "limits.gateway_bytes",
        Kind::Size(MI, 64 * GI),
        "128Mi",
        "Memory of all gateway connections; at least limits.request_max.",
    ),
    Key::new(
        "runtime.jobs",
        Kind::Count(0, 256),
        "1",
        "Threads for signatures and hashes; 0 runs them between events.",
    ),
    Key::new(
        "runtime.poll",
        Kind::Choice(Poll::WORDS),
        "yield",
        "What a shared-memory poller does when it found nothing.",
    ),
    Key::new("runtime.pin", Kind::Flag, "false", "Whether each thread stays on one core."),
    Key::new(
        "runtime.simd",
        Kind::Choice(Simd::WORDS),
        "auto",
        "Whether vector kernels are used where the processor has them.",
    ),
    Key::new("metrics.token_file", Kind::PathOrNone, "", "Bearer token for metrics and health off loopback."),
    Key::new("access.http_token_file", Kind::PathOrNone, "", "Bearer token for HTTP."),
    Key::new("access.resp_password_file", Kind::PathOrNone, "", "Password for RESP AUTH."),
    Key::new("access.https_cert", Kind::PathOrNone, "", "Certificate chain in PEM; with access.https_key."),
    Key::new("access.https_key", Kind::PathOrNone, "", "Private key of that certificate in PEM; mode 0600."),
    Key::new(
        "log.level",
        Kind::Choice(Level::WORDS),
        "info",
        "Least severe messages written to standard error.",
    ),
    Key::new("log.format", Kind::Choice(Format::WORDS), "text", "Form of a log line."),
];

/// The page of `synod config explain KEY`.
///
/// # Errors
/// SYN-1102 with the nearest name.
pub fn explain_key(name: &str) -> Result<String, SynError> {
    let all = || {
        KEYS.iter()
            .map(|key| ("node.toml", key))
            .chain(crate::GENESIS_KEYS.iter().map(|key| ("genesis.toml", key)))
    };
    let mut page = String::new();
    for (file, key) in all().filter(|(_, key)| key.name == name) {
        let default = if key.default.is_empty() { "none" } else { key.default };
        page.push_str(&format!(
            "{} ({file})\nmeaning: {}\nrange: {}\ndefault: {default}\n",
            key.name,
            key.meaning,
            key.range()
        ));
    }
    if page.is_empty() {
        let bounded: String = name.chars().take(64).collect();
        return Err(unknown_key("config explain", name, nearest(&bounded, KEYS)));
    }
    Ok(page)
}
