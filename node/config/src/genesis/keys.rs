//! The keys of `genesis.toml`.

use super::build::Protocol;
use super::chop::{ClusterKind, MessageClass};
use super::parameters::{Bodies, ClientAuth, Complaints, Filter, Rules, Scheme, Votes};
use super::pay::Profile;
use crate::table::{Key, Kind};

const KI: u64 = 1 << 10;
const MI: u64 = 1 << 20;

/// Every key of `genesis.toml`. Defaults are words: some depend on the members.
pub const GENESIS_KEYS: &[Key] = &[
    Key::new("format", Kind::Count(1, 1), "", "Format of the file; this release reads 1. Required."),
    Key::new("cluster.name", Kind::Name(32), "", "Name of the cluster. Required."),
    Key::new("cluster.protocol", Kind::Choice(Protocol::WORDS), "", "The ordering protocol. Required."),
    Key::new(
        "cluster.app",
        Kind::Choice(&["kv", "book", "payments", "auction", "pixels", "ledger"]),
        "kv, with chopchop payments, with astro ledger",
        "The application: kv or book with hotstuff, ledger with astro, the others with chopchop.",
    ),
    Key::new(
        "cluster.f",
        Kind::Count(0, (1 << 63) - 1),
        "derived",
        "Power that may be faulty: (P - 1) / 3 of the total stake P, rounded down. Checked if given.",
    ),
    Key::new(
        "cluster.epoch",
        Kind::Count(0, 0),
        "0",
        "Epoch the file describes; later ones are certified by the cluster.",
    ),
    Key::new(
        "cluster.drill",
        Kind::Flag,
        "false",
        "Whether faults may be injected and lab-only parameters used. Set by demo and up only.",
    ),
    Key::new(
        "cluster.kind",
        Kind::Choice(ClusterKind::WORDS),
        "service",
        "What the cluster is for, with chopchop. A node serves bench, whose clients' secrets a load generator knows, only with --i-am-a-benchmark.",
    ),
    Key::new(
        "cluster.directory",
        Kind::Hex(32),
        "none",
        "BLAKE3 digest of directory.bin beside this file: the clients that chopchop knows from the start, 80 bytes each (BLS key, Ed25519 key).",
    ),
    Key::new(
        "protocol.rules",
        Kind::Choice(Rules::WORDS),
        "chain2+order",
        "The rule pack. hs2, naive2 and paper need cluster.drill.",
    ),
    Key::new(
        "protocol.term_views",
        Kind::Count(1, 1_024),
        "32 with chain2 and chain2+order, else 1",
        "Views a leader keeps its turn. basic, hs2 and naive2 have terms of 1.",
    ),
    Key::new(
        "protocol.votes",
        Kind::Choice(Votes::WORDS),
        "broadcast up to 32 members, else leader",
        "Whom votes are sent to. leader with chain3 needs term_views of 4 or more.",
    ),
    Key::new(
        "protocol.complaints",
        Kind::Choice(Complaints::WORDS),
        "broadcast up to 32 members, else leader-first",
        "Whom complaints are sent to first; from the second expiry on, to all.",
    ),
    Key::new(
        "protocol.scheme",
        Kind::Choice(Scheme::WORDS),
        "ed25519 up to 40 members, else bls",
        "Signatures inside certificates. bls is refused: this release does not verify it, so above 40 members state ed25519.",
    ),
    Key::new(
        "protocol.reputation",
        Kind::Flag,
        "true from 4 members with chain2 and chain2+order, else false",
        "Whether leaders that failed sit out. Only with chain2 and chain2+order.",
    ),
    Key::new(
        "protocol.block_bytes",
        Kind::Size(4 * KI, 2 * MI),
        "1Mi",
        "Payload of a block; half a proposal frame at most.",
    ),
    Key::new(
        "protocol.block_items",
        Kind::Count(0, 64 * KI),
        "16384",
        "Items of a block; 0 is unlimited, for hs2, naive2 and paper.",
    ),
    Key::new(
        "protocol.filter",
        Kind::Choice(Filter::WORDS),
        "branch",
        "Which repeated items a proposer leaves out. Others than branch are for hs2, naive2 and paper.",
    ),
    Key::new(
        "protocol.bodies",
        Kind::Choice(Bodies::WORDS),
        "digest",
        "How payloads travel. Others than digest are refused: this release does not have them.",
    ),
    Key::new(
        "protocol.pool_items",
        Kind::Count(1, 1 << 24),
        "262144",
        "Items accepted and not yet in a block; at least block_items.",
    ),
    Key::new(
        "protocol.view_window",
        Kind::Count(8, 1_024),
        "64",
        "Views a member keeps messages for, around its own.",
    ),
    Key::new(
        "protocol.checkpoint_every",
        Kind::Count(16, 1 << 24),
        "65536, with chopchop 1024",
        "Positions between two certified checkpoints.",
    ),
    Key::new(
        "protocol.retain_blocks",
        Kind::Count(64, 64 * KI),
        "4096",
        "Blocks kept below the last stable checkpoint; at least view_window.",
    ),
    Key::new(
        "protocol.executor_lag_max",
        Kind::Count(1, 4_096),
        "64",
        "Blocks the executor may be behind before pipelining stops.",
    ),
    Key::new(
        "protocol.client_auth",
        Kind::Choice(ClientAuth::WORDS),
        "signed",
        "Whether clients sign frames or are trusted on their channel.",
    ),
    Key::new(
        "protocol.session_window",
        Kind::Count(64, 4_096),
        "1024",
        "Requests of a session that may be in flight; a power of two.",
    ),
    Key::new(
        "protocol.batch_max",
        Kind::Count(1, MI),
        "65536, with astro 4096",
        "Messages of a batch, with chopchop; entries of one, with astro, 16384 at most.",
    ),
    Key::new(
        "protocol.body_bytes_max",
        Kind::Count(1_264, 16 * MI - 4 * KI),
        "16773120",
        "Bytes of a batch's body, with chopchop: header and body fit a bulk frame of 16 MiB.",
    ),
    Key::new(
        "protocol.message_class",
        Kind::Choice(MessageClass::WORDS),
        "fixed",
        "Whether messages have exactly protocol.message_size bytes or up to as many, with chopchop.",
    ),
    Key::new(
        "protocol.message_size",
        Kind::Count(1, 65_535),
        "8",
        "Bytes of a message, with chopchop. The applications read messages of 8 bytes; others break their rules.",
    ),
    Key::new(
        "protocol.expiry_horizon",
        Kind::Count(4, 1 << 24),
        "65536",
        "Heights above the delivered one up to which a batch may expire, with chopchop.",
    ),
    Key::new(
        "protocol.grant",
        Kind::Count(0, (1 << 31) - 1),
        "1000000",
        "What each account holds when it is opened, with chopchop: payments and auction.",
    ),
    Key::new(
        "protocol.tokens",
        Kind::Count(1, 1 << 28),
        "65536",
        "Tokens of an auction, with chopchop: client i owns token i at the start.",
    ),
    Key::new(
        "protocol.profile",
        Kind::Choice(Profile::WORDS),
        "II-F",
        "How payments are broadcast and funded, with astro.",
    ),
    Key::new(
        "protocol.batch_bytes",
        Kind::Size(8 * KI, 2 * MI),
        "256Ki",
        "Bytes of a batch of payments, with astro.",
    ),
    Key::new(
        "protocol.window",
        Kind::Count(1, 64 * KI),
        "1024",
        "Entries of an account that may be unsettled, with astro.",
    ),
    Key::new(
        "protocol.lane_window",
        Kind::Count(1, 1_024),
        "64",
        "Batches of a representative that may be uncommitted, with astro.",
    ),
    Key::new(
        "protocol.retain_batches",
        Kind::Count(1, 64 * KI),
        "1024",
        "Committed batches of each representative kept for whoever is behind, with astro; at least lane_window.",
    ),
    Key::new(
        "protocol.founders",
        Kind::Count(0, 128),
        "0",
        "Members, the first ones, that begin, with astro: the others stand in reserve until operators let them join. 0: all, for good.",
    ),
    Key::new(
        "protocol.shards",
        Kind::Count(1, 128),
        "1",
        "Shards of the payments, with astro: each has as many members as any other, in the order of the members. Above 1 not with protocol.founders and protocol.cut_every.",
    ),
    Key::new(
        "protocol.cut_every",
        Kind::Span(0, 86_400 * 1_000_000_000),
        "0, and 30s of clusters that `up` and `init` make",
        "Time between two cuts, with astro: states that a quorum signs, which proofs of balances and statements are made of. 0: none. Not with protocol.founders.",
    ),
    Key::new("registrar.member", Kind::Name(63), "", "Member that issues money, with astro. Required."),
    Key::new(
        "registrar.ledger",
        Kind::Count(0, (1 << 32) - 1),
        "1",
        "The currency, or another unit, of that money.",
    ),
    Key::new(
        "registrar.cap",
        Kind::Count(1, (1 << 63) - 1),
        "",
        "The most that the member may issue, in the smallest unit. Required.",
    ),
    Key::new("member.name", Kind::Name(63), "", "Name of the member, unique. Required."),
    Key::new("member.addresses.peer", Kind::Address, "", "Where the other members connect. Required."),
    Key::new(
        "member.addresses.client",
        Kind::AddressOrOff,
        "",
        "Where binary clients connect; with chopchop its brokers, and required.",
    ),
    Key::new("member.addresses.http", Kind::AddressOrOff, "", "Where HTTP clients connect."),
    Key::new("member.addresses.resp", Kind::AddressOrOff, "", "Where RESP clients connect."),
    Key::new(
        "member.ed25519",
        Kind::Hex(32),
        "",
        "Public key: transport identity and signatures. Required, unique.",
    ),
    Key::new("member.x25519", Kind::Hex(32), "", "Public key of pairwise tags."),
    Key::new(
        "member.bls",
        Kind::Hex(48),
        "",
        "Public key of aggregate signatures, with member.pop. Required with chopchop, else kept but not used.",
    ),
    Key::new("member.pop", Kind::Hex(96), "", "Proof that the member holds the secret of member.bls."),
    Key::new("member.stake", Kind::Count(1, (1 << 63) - 1), "1", "Voting power; 1 with chopchop and astro."),
    Key::new(
        "broker.name",
        Kind::Name(63),
        "",
        "Name of a broker of chopchop, unlike any member's. Required.",
    ),
    Key::new(
        "broker.addresses.datagram",
        Kind::Address,
        "",
        "Where clients reach the broker (UDP). Required.",
    ),
    Key::new(
        "broker.ed25519",
        Kind::Hex(32),
        "",
        "Public key: the broker's identity towards servers and clients. Required, unique.",
    ),
    Key::new("operator.name", Kind::Name(63), "", "Name of a person or team. Required."),
    Key::new(
        "operator.ed25519",
        Kind::Hex(32),
        "",
        "Public key that signs membership changes. Required, unique.",
    ),
];
