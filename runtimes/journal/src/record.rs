//! One record: a 56-byte header, a body and padding to 8 bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | length of the body |
//! | 4, 5 | kind, lane |
//! | 6 | flags: 1 = also in the lane's slot |
//! | 7 | zero |
//! | 8..12 | group: number of the sync within the segment |
//! | 12..16 | epoch: how often the journal had been opened |
//! | 16..24 | lsn |
//! | 24..32 | durable: highest lsn known synced when written |
//! | 32..36 | CRC32C over bytes 0..32, so that a header is readable without its body |
//! | 36..40 | CRC32C over bytes 0..36, the chain and the body |
//! | 40..56 | chain: BLAKE3 over the previous chain, bytes 0..36 and the body |
//!
//! The checksum covers the chain, so a chain torn by a crash is not mistaken for a broken one.
//!
//! Both checksums start from the segment's [`Seed`], which peers cannot guess: neither a peer's payload
//! nor a record of another segment can pass for a record of this one. Numbers are little-endian. Decoding
//! is total: any bytes give an answer, nothing is allocated.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::as_conversions
)]

use synod_machine::planted;

/// Bytes of a record before its body.
pub const HEADER_BYTES: usize = 56;

/// Largest body, in bytes; a blob's body is its 32-byte name and its bytes.
pub const BODY_MAX: usize = 16 << 20;

const SLOTTED: u8 = 1;

/// What a record does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A promise.
    Record,
    /// A content-addressed blob: its name, then its bytes.
    Blob,
    /// Releases the blob named by the body.
    Erase,
    /// States that everything up to its `durable` is synced; with an 8-byte body it also closes the
    /// segment and names the next one.
    Mark,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Kind::Record => 1,
            Kind::Blob => 2,
            Kind::Erase => 3,
            Kind::Mark => 4,
        }
    }

    fn read(code: u8) -> Option<Self> {
        match code {
            1 => Some(Kind::Record),
            2 => Some(Kind::Blob),
            3 => Some(Kind::Erase),
            4 => Some(Kind::Mark),
            _ => None,
        }
    }
}

/// What a segment's checksums start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u32);

impl Seed {
    /// The seed of segment `number`, which continues the log behind `previous`.
    pub fn of(previous: Chain, number: u64) -> Self {
        Seed(crc32c::crc32c_append(crc32c::crc32c(&previous.0), &number.to_le_bytes()))
    }
}

/// The running hash of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chain(pub [u8; 16]);

impl Chain {
    fn next(self, header: &[u8], body: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0).update(header);
        for part in body {
            hasher.update(part);
        }
        let mut chain = [0; 16];
        for (to, from) in chain.iter_mut().zip(hasher.finalize().as_bytes()) {
            *to = *from;
        }
        Chain(chain)
    }
}

/// The fields of a header that are not derived from the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What the record does.
    pub kind: Kind,
    /// Whose it is; 0 for marks.
    pub lane: u8,
    /// Whether the lane's slot holds it too.
    pub slotted: bool,
    /// Number of the sync within the segment.
    pub group: u32,
    /// How often the journal had been opened.
    pub epoch: u32,
    /// Its position; a mark repeats or raises the position before it.
    pub lsn: u64,
    /// Highest lsn known synced when it was written.
    pub durable: u64,
}

/// A record whose checksums hold; its chain is not yet compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    /// The header.
    pub head: Head,
    /// The body, without padding.
    pub body: &'a [u8],
    /// The chain value written with it.
    pub chain: Chain,
    /// Bytes it takes on disk.
    pub size: usize,
    header: &'a [u8],
}

impl Found<'_> {
    /// Whether its chain continues `previous`.
    pub fn follows(&self, previous: Chain) -> bool {
        previous.next(self.header, &[self.body]) == self.chain
    }
}

/// What stands at a place of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A record with valid checksums.
    Record(Found<'a>),
    /// Valid checksums over a kind or flag this release does not know.
    Unknown,
    /// A valid header whose body is not the one written with it.
    Broken {
        /// The group the header names.
        group: u32,
    },
    /// No record.
    Nothing,
}

/// Bytes a record with a body of `body` bytes takes on disk.
pub fn size(body: usize) -> usize {
    HEADER_BYTES.saturating_add(body).next_multiple_of(8)
}

/// Appends a record to `out` and returns its chain value. The body is the concatenation of its parts,
/// at most [`BODY_MAX`] bytes together.
pub fn encode(out: &mut Vec<u8>, seed: Seed, previous: Chain, head: &Head, body: [&[u8]; 2]) -> Chain {
    let length: usize = body.iter().map(|part| part.len()).fold(0, usize::saturating_add);
    assert!(length <= BODY_MAX, "a record's body is at most {BODY_MAX} bytes");
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    let flags = if head.slotted { SLOTTED } else { 0 };
    header.extend([head.kind.code(), head.lane, flags, 0]);
    header.extend(head.group.to_le_bytes());
    header.extend(head.epoch.to_le_bytes());
    header.extend(head.lsn.to_le_bytes());
    header.extend(head.durable.to_le_bytes());
    header.extend(crc32c::crc32c_append(seed.0, &header).to_le_bytes());
    let chain = previous.next(&header, &body);
    let mut sum = crc32c::crc32c_append(crc32c::crc32c_append(seed.0, &header), &chain.0);
    for part in body {
        sum = crc32c::crc32c_append(sum, part);
    }
    out.extend(&header);
    out.extend(sum.to_le_bytes());
    out.extend(chain.0);
    for part in body {
        out.extend(part);
    }
    let padding = size(length).saturating_sub(HEADER_BYTES).saturating_sub(length);
    out.extend(std::iter::repeat_n(0u8, padding));
    chain
}

/// Reads what stands at the beginning of `bytes`.
pub fn decode(seed: Seed, bytes: &[u8]) -> Decoded<'_> {
    parse(seed, bytes).unwrap_or(Decoded::Nothing)
}

fn parse(seed: Seed, bytes: &[u8]) -> Option<Decoded<'_>> {
    // Almost every place that holds no record holds zeros: this is the cheap way out.
    if *bytes.get(4)? == 0 {
        return None;
    }
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let sum = field(header, 32).map(u32::from_le_bytes)?;
    if crc32c::crc32c_append(seed.0, header.get(..32)?) != sum {
        return None;
    }
    let length = usize::try_from(u32::from_le_bytes(field(header, 0)?)).ok()?;
    let [kind, lane, flags, zero] = field(header, 4)?;
    let group = u32::from_le_bytes(field(header, 8)?);
    if length > BODY_MAX {
        return Some(Decoded::Unknown);
    }
    let Some((body, padding)) = rest.split_at_checked(length) else {
        return Some(Decoded::Broken { group });
    };
    let padding = padding.get(..size(length).checked_sub(HEADER_BYTES)?.checked_sub(length)?);
    let fields = header.get(..36)?;
    let chain = Chain(field(header, 40)?);
    let sum = crc32c::crc32c_append(crc32c::crc32c_append(seed.0, fields), &chain.0);
    let whole = crc32c::crc32c_append(sum, body);
    let sum_holds = planted!(G1) || whole == u32::from_le_bytes(field(header, 36)?);
    if !sum_holds || padding.is_none_or(|padding| padding.iter().any(|byte| *byte != 0)) {
        return Some(Decoded::Broken { group });
    }
    let Some(kind) = Kind::read(kind) else { return Some(Decoded::Unknown) };
    if flags & !SLOTTED != 0 || zero != 0 {
        return Some(Decoded::Unknown);
    }
    let head = Head {
        kind,
        lane,
        slotted: flags & SLOTTED != 0,
        group,
        epoch: u32::from_le_bytes(field(header, 12)?),
        lsn: u64::from_le_bytes(field(header, 16)?),
        durable: u64::from_le_bytes(field(header, 24)?),
    };
    let found = Found { head, body, chain, size: size(length), header: fields };
    Some(Decoded::Record(found))
}

/// The `N` bytes from `at` on.
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
