//! The log of a node as a file: [`MAGIC`], then records, each behind its length, and an end that says how many there are and what they
//! hash to, so that a log that was cut off is told from a whole one.

use core::fmt;
use std::io::{self, BufRead, ErrorKind, Read as _};

use synod_astro::audit::{Head, Item};
use synod_crypto::Hasher;
use synod_wire::{Bytes, Limits, Malformed, Wire as _};

/// How a log begins.
const MAGIC: &[u8; 8] = b"synodlog";
/// Longest record: a batch of so many digests and signatures as one has.
const RECORD_MAX: u32 = 4 << 20;

/// Why a file is no log, or not a whole one.
#[derive(Debug)]
#[non_exhaustive]
pub enum Unreadable {
    /// The disk.
    Io(io::Error),
    /// It does not begin like one.
    NoLog,
    /// It ends in the middle: behind so many records.
    Short(u64),
    /// The record of this number is not written as records are; the head is 0.
    Malformed(u64, Malformed),
    /// It is whole, and other than what was written.
    Changed,
    /// Something follows the end.
    Long,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NoLog => f.write_str("it is no log of a payment system"),
            Self::Short(records) => write!(f, "it is cut off behind record {records}"),
            Self::Malformed(record, why) => write!(f, "record {record} cannot be read: {why}"),
            Self::Changed => f.write_str("its end says that it was written with other records"),
            Self::Long => f.write_str("something follows its end"),
        }
    }
}

impl core::error::Error for Unreadable {}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Writes a log.
pub struct Write<W> {
    to: W,
    hasher: Hasher,
    records: u64,
}

impl<W: io::Write> Write<W> {
    /// Begins a log.
    ///
    /// # Errors
    /// Those of writing.
    pub fn begin(mut to: W, head: &Head) -> io::Result<Self> {
        to.write_all(MAGIC)?;
        let mut log = Self { to, hasher: hasher(), records: 0 };
        log.frame(&head.encode())?;
        Ok(log)
    }

    /// Writes a record, as its bytes.
    ///
    /// # Errors
    /// Those of writing.
    pub fn record(&mut self, encoded: &[u8]) -> io::Result<()> {
        self.records += 1;
        self.frame(encoded)
    }

    /// Writes the end; gives what was written to, and how many records it has.
    ///
    /// # Errors
    /// Those of writing.
    pub fn end(mut self) -> io::Result<(W, u64)> {
        let records = self.records;
        let digest = std::mem::replace(&mut self.hasher, hasher()).finish();
        self.frame(&Item::End { records, digest }.encode())?;
        self.to.flush()?;
        Ok((self.to, records))
    }

    fn frame(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= RECORD_MAX);
        let length = length.ok_or_else(|| io::Error::from(ErrorKind::FileTooLarge))?;
        self.hasher.add(bytes);
        self.to.write_all(&length.to_be_bytes())?;
        self.to.write_all(bytes)
    }
}

fn hasher() -> Hasher {
    Hasher::new("synod astro log")
}

/// Reads a log, one record after the other.
pub struct Frames<R> {
    from: R,
    hasher: Option<Hasher>,
    records: u64,
    head: Head,
}

impl<R: BufRead> Frames<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// As [`Unreadable`] says.
    pub fn open(mut from: R) -> Result<Self, Unreadable> {
        let mut magic = [0; 8];
        from.read_exact(&mut magic).map_err(|error| cut_off(error, Unreadable::NoLog))?;
        if &magic != MAGIC {
            return Err(Unreadable::NoLog);
        }
        let mut hasher = hasher();
        let bytes = frame(&mut from, 0)?;
        hasher.add(&bytes);
        let head = Head::decode(bytes, &limits()).map_err(|why| Unreadable::Malformed(0, why))?;
        Ok(Self { from, hasher: Some(hasher), records: 0, head })
    }

    /// Whose it is.
    #[must_use]
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// The next record with its number; `None` behind the last of a whole log.
    ///
    /// # Errors
    /// As [`Unreadable`] says.
    pub fn next_item(&mut self) -> Result<Option<(u64, Item)>, Unreadable> {
        let Some(hasher) = &mut self.hasher else { return Ok(None) };
        let number = self.records + 1;
        let bytes = frame(&mut self.from, self.records)?;
        let item =
            Item::decode(bytes.clone(), &limits()).map_err(|why| Unreadable::Malformed(number, why))?;
        if let Item::End { records, digest } = item {
            let found = self.hasher.take().map(|hasher| hasher.finish());
            if (records, Some(digest)) != (self.records, found) {
                return Err(Unreadable::Changed);
            }
            return if self.from.fill_buf()?.is_empty() { Ok(None) } else { Err(Unreadable::Long) };
        }
        hasher.add(&bytes);
        self.records = number;
        Ok(Some((number, item)))
    }
}

/// The bytes of the next frame, behind so many records.
fn frame(from: &mut impl BufRead, records: u64) -> Result<Bytes, Unreadable> {
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(|error| cut_off(error, Unreadable::Short(records)))?;
    let length = u32::from_be_bytes(length);
    if length > RECORD_MAX {
        return Err(Unreadable::Short(records));
    }
    // Not more is reserved than there is.
    let mut bytes = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut bytes)?;
    if u32::try_from(bytes.len()).is_ok_and(|read| read == length) {
        Ok(bytes.into())
    } else {
        Err(Unreadable::Short(records))
    }
}

fn cut_off(error: io::Error, short: Unreadable) -> Unreadable {
    if error.kind() == ErrorKind::UnexpectedEof { short } else { Unreadable::Io(error) }
}

const fn limits() -> Limits {
    Limits { frame_max: RECORD_MAX }
}
