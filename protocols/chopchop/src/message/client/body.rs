//! What follows type, version and flags. No body is followed by anything in its frame.

use synod_crypto::Hash;
use synod_wire::{Blob, Malformed, Reader, Why, Wire, Writer};

use super::{
    ClientMessage, DIGEST, Delivery, ExceptionProof, FIRST, Inclusion, SECOND, Signed, StateAnswer, Submit,
};
use crate::certificate::{AGGREGATE_BYTES, Aggregate, HeightCertificate, Legitimacy, Signers};
use crate::dedup::EXC_LEAF_BYTES;
use crate::fixed::Fixed;
use crate::message::COUNT_MAX;
use crate::tree::{EntryProof, TreeShape, path_len};

impl ClientMessage {
    pub(super) fn put_body(&self, out: &mut Writer) {
        match self {
            Self::Submit(submit) => submit.put(out),
            Self::Inclusion(inclusion) => inclusion.put(out),
            Self::MultiSig { id, root_commit, share } => {
                id.put(out);
                root_commit.put(out);
                share.put(out);
            }
            Self::Delivery(delivery) => delivery.put(out),
            Self::Ack { height } => height.put(out),
            Self::Nack { why, retry_ms } => {
                why.put(out);
                retry_ms.put(out);
            }
            Self::Query { nonce, id } => {
                nonce.put(out);
                id.put(out);
            }
            Self::State(state) => {
                state.next_k.put(out);
                state.tag.put(out);
                state.aggregate.put(out);
                state.height.write(out);
            }
            Self::SignUp(card) => card.write(out),
            Self::Signed(signed) => signed.put(out),
            Self::Challenge { nonce } => nonce.put(out),
            Self::Claim { id, signature } => {
                id.put(out);
                signature.put(out);
            }
        }
    }

    pub(super) fn take_body(kind: u8, flags: u16, input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::OutOfRange);
        Ok(match kind {
            1 => Self::Submit(Submit::take(flags, input)?),
            2 => Self::Inclusion(Inclusion::take(flags, input)?),
            3 => Self::MultiSig {
                id: Fixed::take(input)?,
                root_commit: Fixed::take(input)?,
                share: Box::new(Fixed::take(input)?),
            },
            4 => Self::Delivery(Box::new(Delivery::take(input)?)),
            5 => Self::Ack { height: Fixed::take(input)? },
            6 => Self::Nack { why: Fixed::take(input)?, retry_ms: Fixed::take(input)? },
            7 => Self::Query { nonce: Fixed::take(input)?, id: Fixed::take(input)? },
            8 => Self::State(Box::new(StateAnswer::take(input)?)),
            9 => Self::SignUp(Box::new(Wire::read(input)?)),
            10 => Self::Signed(Box::new(Signed::take(input)?)),
            11 => Self::Challenge { nonce: Fixed::take(input)? },
            12 => Self::Claim { id: Fixed::take(input)?, signature: Fixed::take(input)? },
            tag => return Err(Malformed { why: Why::UnknownTag(tag), ..refusal }),
        })
    }
}

/// Reads `count` digests, after it was checked that so many remain.
fn take_path(input: &mut Reader, count: usize) -> Result<Vec<Hash>, Malformed> {
    let bytes = count.checked_mul(DIGEST).ok_or_else(|| input.refuse(Why::Short))?;
    // At once: a path is most of what a client reads.
    let bytes = input.take(bytes)?;
    let (digests, _) = bytes.as_chunks::<DIGEST>();
    Ok(digests.iter().map(|digest| Hash(*digest)).collect())
}

impl Submit {
    fn put(&self, out: &mut Writer) {
        self.id.put(out);
        self.k0.put(out);
        u16::try_from(self.message.len()).unwrap_or(u16::MAX).put(out);
        out.bytes(&self.message);
        self.t.put(out);
        if let Some(legitimacy) = &self.legitimacy {
            legitimacy.write(out);
        }
    }

    fn take(flags: u16, input: &mut Reader) -> Result<Self, Malformed> {
        let (id, k0) = (Fixed::take(input)?, Fixed::take(input)?);
        let refusal = input.refuse(Why::OutOfRange);
        let length = u16::take(input)?;
        if length == 0 {
            return Err(refusal);
        }
        let message = Blob::try_from(input.take(usize::from(length))?).map_err(|_| refusal)?;
        let t = Fixed::take(input)?;
        let legitimacy = if flags & SECOND == 0 { None } else { Some(Legitimacy::read(input)?) };
        Ok(Self { id, k0, message, parity: flags & FIRST != 0, t, legitimacy })
    }
}

impl Inclusion {
    fn put(&self, out: &mut Writer) {
        self.root.put(out);
        self.k.put(out);
        self.shape.count.put(out);
        self.shape.msg_size.put(out);
        self.proof.index.put(out);
        out.bytes(&self.proof.neighbours);
        self.proof.path.iter().for_each(|digest| digest.put(out));
        if let Some(height) = &self.height {
            height.write(out);
        }
    }

    fn take(flags: u16, input: &mut Reader) -> Result<Self, Malformed> {
        let (root, k) = (Fixed::take(input)?, Fixed::take(input)?);
        let refusal = input.refuse(Why::OutOfRange);
        let shape = TreeShape { count: Fixed::take(input)?, msg_size: Fixed::take(input)? };
        let index = Fixed::take(input)?;
        let path_len = shape.path_len(index).filter(|_| shape.count <= COUNT_MAX).ok_or(refusal)?;
        let neighbours = input.take(shape.neighbour_bytes())?;
        let path = take_path(input, path_len as usize)?;
        let height = if flags & FIRST == 0 { None } else { Some(HeightCertificate::read(input)?) };
        let proof = EntryProof { index, neighbours, path };
        Ok(Self { root, k, shape, proof, height, closed: flags & SECOND != 0 })
    }
}

impl Delivery {
    fn put(&self, out: &mut Writer) {
        self.root_commit.put(out);
        self.height.put(out);
        self.digest.put(out);
        self.exceptions_root.put(out);
        self.exc_count.put(out);
        self.aggregate.put(out);
        if let Some(exception) = &self.exception {
            exception.leaf.put(out);
            exception.path.iter().for_each(|digest| digest.put(out));
        }
    }

    fn take(input: &mut Reader) -> Result<Self, Malformed> {
        let (root_commit, height) = (Fixed::take(input)?, Fixed::take(input)?);
        let (digest, exceptions_root) = (Fixed::take(input)?, Fixed::take(input)?);
        let exc_count: u32 = Fixed::take(input)?;
        let refusal = input.refuse(Why::Short);
        let beside = AGGREGATE_BYTES + if exc_count == 0 { 0 } else { EXC_LEAF_BYTES };
        let open = input.remaining().checked_sub(beside).ok_or(refusal)?;
        // A tree over exceptions is at most 12 levels high.
        let paths_max = DIGEST * path_len(0, COUNT_MAX.div_ceil(256)).unwrap_or(0) as usize;
        let width = match exc_count {
            0 => open,
            _ => Signers::width_of(open, DIGEST).ok_or(refusal)?,
        };
        let path_bytes = open - width;
        if path_bytes > paths_max {
            return Err(Malformed { why: Why::TooLong, ..refusal });
        }
        let aggregate = Aggregate::take(input, width + AGGREGATE_BYTES)?;
        let exception = match exc_count {
            0 => None,
            _ => Some(ExceptionProof {
                leaf: Fixed::take(input)?,
                path: take_path(input, path_bytes / DIGEST)?,
            }),
        };
        Ok(Self { root_commit, height, digest, exceptions_root, exc_count, aggregate, exception })
    }
}

impl StateAnswer {
    /// Both bitmaps are of one cluster, hence equally wide.
    fn take(input: &mut Reader) -> Result<Self, Malformed> {
        let (next_k, tag) = (Fixed::take(input)?, Fixed::take(input)?);
        let refusal = input.refuse(Why::Short);
        let widths = input.remaining().checked_sub(AGGREGATE_BYTES + HeightCertificate::FIXED_BYTES);
        let width = widths.filter(|widths| widths.is_multiple_of(2)).ok_or(refusal)? / 2;
        let aggregate = Aggregate::take(input, width + AGGREGATE_BYTES)?;
        Ok(Self { next_k, tag, aggregate, height: HeightCertificate::read(input)? })
    }
}

impl Signed {
    fn put(&self, out: &mut Writer) {
        self.height.put(out);
        self.digest.put(out);
        self.index.put(out);
        self.count.put(out);
        self.id.put(out);
        self.path.iter().for_each(|digest| digest.put(out));
        self.exc_count.put(out);
        self.aggregate.put(out);
    }

    fn take(input: &mut Reader) -> Result<Self, Malformed> {
        let (height, digest) = (Fixed::take(input)?, Fixed::take(input)?);
        let refusal = input.refuse(Why::OutOfRange);
        let (index, count, id) = (Fixed::take(input)?, Fixed::take(input)?, Fixed::take(input)?);
        let path_len = path_len(index, count).filter(|_| count <= COUNT_MAX).ok_or(refusal)?;
        let path = take_path(input, path_len as usize)?;
        let exc_count = Fixed::take(input)?;
        let rest = input.remaining();
        let aggregate = Aggregate::take(input, rest)?;
        Ok(Self { height, digest, index, count, id, path, exc_count, aggregate })
    }
}
