//! The header of a batch, and the checks that need nothing else (checks I).

use synod_crypto::Hash;
use synod_quorum::Epoch;
use synod_wire::{Draw, Drawn, Limits, Malformed, Reader, Why, Wire, Writer};

use super::check::BatchFault;
use crate::Domains;
use crate::columns::Shape;
use crate::fixed::Fixed;
use crate::ids::{IdCodec, IdShape};
use crate::statement::BlsSignatureBytes;
use crate::tree::{TreeShape, root_commit};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 192;

const MAGIC: [u8; 4] = *b"CCB1";
const VERSION: u16 = 1;

const AGGREGATE: u16 = 1;
const VARIABLE: u16 = 2;
const STRAGGLERS: u16 = 4;
const VOIDS: u16 = 8;

/// What a batch says about itself.
///
/// Flags are no field: they say which counts are above zero, whether the size is variable and whether there is an
/// aggregate, and decoding refuses flags that say anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The broker's number in genesis, or `u32::MAX`; not trusted.
    pub broker: u32,
    /// Bytes of each message; 0 when variable.
    pub msg_size: u16,
    /// How the ids are written.
    pub codec: IdCodec,
    /// Number of entries, above 0.
    pub count: u32,
    /// Entries with a signature of their own.
    pub stragglers: u32,
    /// Entries without any valid signature.
    pub voids: u32,
    /// The epoch it may be witnessed in.
    pub epoch: Epoch,
    /// The sequence number of all signers.
    pub k: u64,
    /// Height from which it may not be accepted any more.
    pub expiry: u64,
    /// Length of the directory that the ids need, above 0.
    pub directory: u32,
    /// Bytes of the body.
    pub body_len: u32,
    /// Root of the entry tree.
    pub root: Hash,
    /// The multi-signature; there is one exactly when some entry is neither straggler nor void.
    pub aggregate: Option<BlsSignatureBytes>,
}

/// What a server holds against a header that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intake {
    /// The server's epoch.
    pub epoch: Epoch,
    /// Batches delivered, genesis included (H).
    pub height: u64,
    /// How far above H an expiry may lie (W).
    pub horizon: u64,
    /// Most entries of a batch.
    pub batch_max: u32,
    /// Most bytes of a body.
    pub body_bytes_max: u32,
}

impl Intake {
    /// Whether a batch of this expiry may still, and already, be taken.
    ///
    /// # Errors
    /// [`BatchFault::Expired`], [`BatchFault::TooFar`].
    pub const fn expiry(&self, expiry: u64) -> Result<(), BatchFault> {
        if expiry <= self.height {
            return Err(BatchFault::Expired);
        }
        if expiry > self.height.saturating_add(self.horizon) {
            return Err(BatchFault::TooFar);
        }
        Ok(())
    }
}

impl Header {
    /// The layout of the body.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        Shape {
            ids: IdShape { codec: self.codec, count: self.count, directory: self.directory },
            msg_size: self.msg_size,
            stragglers: self.stragglers,
            voids: self.voids,
        }
    }

    /// The shape of the entry tree.
    #[must_use]
    pub const fn tree_shape(&self) -> TreeShape {
        TreeShape { count: self.count, msg_size: self.msg_size }
    }

    /// What the signers signed.
    #[must_use]
    pub fn root_commit(&self, domains: &Domains) -> Hash {
        root_commit(domains, self.k, &self.tree_shape(), &self.root)
    }

    /// Entries that are neither straggler nor void.
    #[must_use]
    pub const fn signers(&self) -> u32 {
        self.count.saturating_sub(self.stragglers).saturating_sub(self.voids)
    }

    const fn flags(&self) -> u16 {
        let mut flags = 0;
        if self.aggregate.is_some() {
            flags |= AGGREGATE;
        }
        if self.msg_size == 0 {
            flags |= VARIABLE;
        }
        if self.stragglers > 0 {
            flags |= STRAGGLERS;
        }
        if self.voids > 0 {
            flags |= VOIDS;
        }
        flags
    }

    /// The 192 bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        self.encode().first_chunk::<HEADER_BYTES>().copied().unwrap_or([0; HEADER_BYTES])
    }

    /// Reads 192 bytes: magic, version, flags, counts and reserved bytes must agree.
    ///
    /// # Errors
    /// [`BatchFault`] names the first rule that is broken.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, BatchFault> {
        let bytes = bytes.to_vec().into();
        let mut input = Reader::new(&bytes, &Limits::default()).map_err(|_| BatchFault::Magic)?;
        let magic = input.array().map_err(|_| BatchFault::Magic)?;
        Self::take_fields(magic, &mut input).map_err(|_| BatchFault::Magic)?
    }

    /// Reads what follows the magic.
    pub(crate) fn take_after(magic: [u8; 4], input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::NotCanonical);
        Self::take_fields(magic, input)?.map_err(|_| refusal)
    }

    /// The outer error is a short input, the inner one a broken rule.
    fn take_fields(magic: [u8; 4], input: &mut Reader) -> Result<Result<Self, BatchFault>, Malformed> {
        let (version, flags) = (u16::take(input)?, u16::take(input)?);
        let (broker, msg_size) = (u32::take(input)?, u16::take(input)?);
        let codec = IdCodec::of(u8::take(input)?, u8::take(input)?);
        let (count, stragglers, voids) = (u32::take(input)?, u32::take(input)?, u32::take(input)?);
        let (epoch, k, expiry) = (Epoch::take(input)?, u64::take(input)?, u64::take(input)?);
        let (directory, body_len, zero) = (u64::take(input)?, u32::take(input)?, u32::take(input)?);
        let (root, aggregate) = (Hash::take(input)?, BlsSignatureBytes::take(input)?);
        let codec = match (magic, version, codec) {
            (MAGIC, VERSION, Ok(codec)) => codec,
            (MAGIC, VERSION, Err(fault)) => return Ok(Err(BatchFault::Ids(fault))),
            (MAGIC, ..) => return Ok(Err(BatchFault::Version)),
            _ => return Ok(Err(BatchFault::Magic)),
        };
        let Some(directory) = u32::try_from(directory).ok().filter(|length| *length > 0) else {
            return Ok(Err(BatchFault::Directory));
        };
        let signed = flags & AGGREGATE != 0;
        if !signed && aggregate != BlsSignatureBytes::ZERO {
            return Ok(Err(BatchFault::MisplacedAggregate));
        }
        let header = Self {
            broker,
            msg_size,
            codec,
            count,
            stragglers,
            voids,
            epoch,
            k,
            expiry,
            directory,
            body_len,
            root,
            aggregate: signed.then_some(aggregate),
        };
        Ok(header.check_form(flags, zero).map(|()| header))
    }

    fn check_form(&self, flags: u16, zero: u32) -> Result<(), BatchFault> {
        if zero != 0 {
            return Err(BatchFault::Reserved);
        }
        if self.count == 0 || u64::from(self.stragglers) + u64::from(self.voids) > u64::from(self.count) {
            return Err(BatchFault::Counts);
        }
        if (self.signers() > 0) != self.aggregate.is_some() || flags != self.flags() {
            return Err(BatchFault::Flags);
        }
        Ok(())
    }

    /// Checks I: epoch, cap, length of the body, expiry. The credit of the broker is the store's business.
    ///
    /// # Errors
    /// [`BatchFault`] names the first rule that is broken.
    pub fn intake(&self, against: &Intake) -> Result<(), BatchFault> {
        if self.epoch != against.epoch {
            return Err(BatchFault::Epoch);
        }
        if self.count > against.batch_max {
            return Err(BatchFault::Counts);
        }
        let (least, most) = self.shape().body_bounds();
        let fits = (least..=most).contains(&u64::from(self.body_len));
        if !fits || self.body_len > against.body_bytes_max {
            return Err(BatchFault::BodyLength);
        }
        against.expiry(self.expiry)
    }
}

impl Wire for Header {
    fn write(&self, out: &mut Writer) {
        out.bytes(&MAGIC);
        VERSION.put(out);
        self.flags().put(out);
        self.broker.put(out);
        self.msg_size.put(out);
        out.byte(self.codec.number());
        out.byte(self.codec.bits());
        self.count.put(out);
        self.stragglers.put(out);
        self.voids.put(out);
        self.epoch.put(out);
        self.k.put(out);
        self.expiry.put(out);
        u64::from(self.directory).put(out);
        self.body_len.put(out);
        0_u32.put(out);
        self.root.put(out);
        self.aggregate.unwrap_or(BlsSignatureBytes::ZERO).put(out);
    }
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let magic = input.array()?;
        Self::take_after(magic, input)
    }
    fn size_hint(&self) -> usize {
        HEADER_BYTES
    }
}

impl Draw for Header {
    fn draw(from: &mut Drawn) -> Self {
        super::Sealed::draw(from).header
    }
}
