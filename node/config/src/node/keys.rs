//! The keys of `node.toml`: those of every node, then those of Chop Chop's servers and brokers.

use super::chopchop::Verify;
use super::config::{Format, HugePages, Level, Poll, Simd, Sync};
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
        "listen.memcached",
        Kind::AddressOrOff,
        "",
        "Memcached text, of a cluster with app memcached. On loopback alone.",
    ),
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
    Key::new(
        "runtime.huge_pages",
        Kind::Choice(HugePages::WORDS),
        "auto",
        "Whether a server of chopchop starts itself with huge pages; not if GLIBC_TUNABLES is set.",
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
    Key::new(
        "chop.lanes",
        Kind::Count(1, 128),
        "16",
        "Ranges of client ids that are deduplicated side by side; it changes no result.",
    ),
    Key::new(
        "chop.quota_bytes",
        Kind::Size(16 * MI, 64 * GI),
        "256Mi",
        "Bytes of bodies that each broker of the genesis may have at this server before they are ordered.",
    ),
    Key::new("chop.quota_batches", Kind::Count(1, 65_536), "4096", "Number of such batches."),
    Key::new(
        "chop.quota_work",
        Kind::Count(100, 1 << 30),
        "25000",
        "Checks a second that such a broker may cost: 1 a straggler or void, 100 a batch below 4,096 messages, 60 a card; what does not hold costs more.",
    ),
    Key::new(
        "chop.others_max",
        Kind::Count(0, 1_024),
        "64",
        "Brokers beside those of the genesis that are served at a time, with small quotas.",
    ),
    Key::new(
        "broker.verify",
        Kind::Choice(Verify::WORDS),
        "eager",
        "When a broker checks signatures of submissions. lazy is refused: this release does not build it.",
    ),
    Key::new(
        "broker.window_min",
        Kind::Span(MS, 60_000 * MS),
        "10ms",
        "Shortest time in which submissions gather; not above broker.window_max.",
    ),
    Key::new("broker.window_max", Kind::Span(MS, 60_000 * MS), "1s", "Longest such time."),
    Key::new(
        "broker.pipeline_max",
        Kind::Count(1, 16),
        "4",
        "Batches closed and not yet certified above which a window stays open to its end.",
    ),
    Key::new(
        "broker.distil_min",
        Kind::Count(1, 1 << 20),
        "128",
        "Messages below which a batch is not offered for multi-signing.",
    ),
    Key::new(
        "broker.distil_max",
        Kind::Span(20 * MS, 60_000 * MS),
        "1s",
        "Longest wait for multi-signatures.",
    ),
    Key::new(
        "broker.keep",
        Kind::Span(MS, 3_600_000 * MS),
        "60s",
        "How long a delivered batch is kept for clients that ask again.",
    ),
    Key::new("broker.keep_bytes", Kind::Size(0, 64 * GI), "256Mi", "How many bytes of them."),
    Key::new("broker.links_max", Kind::Count(1, 1 << 20), "1048576", "Datagram links of clients at a time."),
    Key::new(
        "broker.read_keys_max",
        Kind::Count(0, 1 << 24),
        "1048576",
        "Clients whose Ed25519 keys are kept read, 216 bytes each.",
    ),
    Key::new(
        "broker.links_per_second",
        Kind::Count(1, 1 << 24),
        "4096",
        "Such links accepted a second. Each costs a key exchange and a signature.",
    ),
    Key::new("broker.sockets", Kind::Count(1, 64), "2", "UDP sockets that share the broker's port."),
    Key::new(
        "webhook.address",
        Kind::AddressOrOff,
        "",
        "Who is told what settles at this node of a payment system, by POSTs of the rows of /v1/changes. It needs webhook.secret_file.",
    ),
    Key::new("webhook.path", Kind::Path, "/", "The path of these requests."),
    Key::new(
        "webhook.secret_file",
        Kind::PathOrNone,
        "",
        "Secret under which they are signed (HMAC-SHA256); mode 0600, own user, no link.",
    ),
    Key::new(
        "webhook.plain",
        Kind::Flag,
        "false",
        "Whether webhook.address may be on another machine: requests are not encrypted.",
    ),
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
