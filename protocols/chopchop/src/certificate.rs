//! Certificates as they travel: a statement, a bitmap of its signers, one aggregate.
//!
//! f + 1 equal statements of servers, under one BLS signature, because they are copied to every client. The bitmap has
//! a byte per eight members of the cluster and is always the last or the only thing of open length in a message, so that
//! no length is sent: `Signers::width_of` gives it back. Whether the width is the cluster's and the signature holds
//! is checked where the cluster and the keys are known.

use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Draw, Drawn, Malformed, Reader, Why, Wire, Writer};

use crate::fixed::Fixed;
use crate::statement::{BlsSignatureBytes, Delivered, Height};

/// Widest bitmap, in bytes: 128 members.
pub(crate) const WIDTH_MAX: usize = 16;
/// Bytes of an aggregate.
pub(crate) const AGGREGATE_BYTES: usize = 96;

/// Some members of a cluster of a known size: bit i of byte i / 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signers {
    set: NodeSet,
    width: u8,
}

impl Signers {
    /// The members in `set` of a cluster of `members`; `None` when one is not of the cluster, or it is empty or too
    /// large.
    #[must_use]
    pub fn new(set: NodeSet, members: u32) -> Option<Self> {
        let width = u8::try_from(members.div_ceil(8)).ok().filter(|w| (1..=16).contains(w))?;
        set.within(NodeSet::first(members)).then_some(Self { set, width })
    }

    /// The members.
    #[must_use]
    pub const fn set(&self) -> NodeSet {
        self.set
    }

    /// Whether this is a bitmap of a cluster of `members`, all of whose bits name members.
    #[must_use]
    pub fn fits(&self, members: u32) -> bool {
        u32::from(self.width) == members.div_ceil(8) && self.set.within(NodeSet::first(members))
    }

    /// Bytes of the bitmap.
    pub(crate) const fn width(&self) -> usize {
        self.width as usize
    }

    /// The width of a bitmap that stands in `bytes` bytes beside things of `unit` bytes each; `unit` is at least 32.
    pub(crate) const fn width_of(bytes: usize, unit: usize) -> Option<usize> {
        match bytes.checked_sub(1) {
            Some(before) if before % unit < WIDTH_MAX => Some(before % unit + 1),
            _ => None,
        }
    }

    pub(crate) fn put(&self, out: &mut Writer) {
        // Every delivery carries a bitmap: only the bits that leave are looked at, not all that a set may have.
        for byte in 0..u32::from(self.width) {
            let bits = (0..8).filter(|bit| self.set.contains(NodeId(8 * byte + bit)));
            out.byte(bits.fold(0, |byte, bit| byte | 1 << bit));
        }
    }

    pub(crate) fn take(input: &mut Reader, width: usize) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::OutOfRange);
        let narrow = u8::try_from(width).ok().filter(|width| (1..=16).contains(width)).ok_or(refusal)?;
        let bytes = input.take(width)?;
        let ids = crate::bits::Ones::new(&bytes).map(|at| NodeId(crate::bits::low(at)));
        Ok(Self { set: ids.collect(), width: narrow })
    }
}

impl Draw for Signers {
    fn draw(from: &mut Drawn) -> Self {
        let members = 1 + u32::try_from(from.below(128)).unwrap_or(0);
        let set = NodeSet::draw(from).and(NodeSet::first(members));
        Self::new(set, members).unwrap_or_else(|| unreachable!("the set was cut to the members"))
    }
}

/// Who signed, and the aggregate of what they signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// The signers.
    pub signers: Signers,
    /// The sum of their signatures.
    pub signature: BlsSignatureBytes,
}

impl Aggregate {
    pub(crate) fn put(&self, out: &mut Writer) {
        self.signers.put(out);
        self.signature.put(out);
    }

    /// Reads an aggregate that stands in `bytes` bytes.
    pub(crate) fn take(input: &mut Reader, bytes: usize) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::Short);
        let width = bytes.checked_sub(AGGREGATE_BYTES).filter(|width| *width > 0).ok_or(refusal)?;
        let signers = Signers::take(input, width)?;
        Ok(Self { signers, signature: Fixed::take(input)? })
    }
}

impl Draw for Aggregate {
    fn draw(from: &mut Drawn) -> Self {
        Self { signers: Draw::draw(from), signature: Draw::draw(from) }
    }
}

/// Defines certificates: a statement and its aggregate, read to the end of what they stand in.
macro_rules! certificates {
    ($($(#[$doc:meta])* $name:ident of $statement:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            /// What f + 1 servers signed.
            pub statement: $statement,
            /// By whom.
            pub aggregate: Aggregate,
        }

        impl Wire for $name {
            fn write(&self, out: &mut Writer) {
                self.statement.put(out);
                self.aggregate.put(out);
            }
            fn read(input: &mut Reader) -> Result<Self, Malformed> {
                let statement = Fixed::take(input)?;
                let rest = input.remaining();
                Ok(Self { statement, aggregate: Aggregate::take(input, rest)? })
            }
        }

        impl Draw for $name {
            fn draw(from: &mut Drawn) -> Self {
                Self { statement: Draw::draw(from), aggregate: Draw::draw(from) }
            }
        }
    )*};
}

certificates! {
    /// Says that this many batches were delivered.
    HeightCertificate of Height;
    /// Says that a batch was delivered with these exceptions.
    DeliveryCertificate of Delivered;
}

impl HeightCertificate {
    /// Bytes beside the bitmap.
    pub(crate) const FIXED_BYTES: usize = 8 + AGGREGATE_BYTES;
}

/// Why a number is legitimate: a certificate of a height above it. The tag is the kind of its statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Legitimacy {
    /// Of a delivery.
    Delivered(DeliveryCertificate),
    /// Of a height.
    Height(HeightCertificate),
}

impl Legitimacy {
    /// The number of batches it shows delivered.
    #[must_use]
    pub const fn height(&self) -> u64 {
        match self {
            Self::Delivered(certificate) => certificate.statement.height,
            Self::Height(certificate) => certificate.statement.height,
        }
    }
}

impl Wire for Legitimacy {
    fn write(&self, out: &mut Writer) {
        match self {
            Self::Delivered(certificate) => {
                out.byte(6);
                certificate.write(out);
            }
            Self::Height(certificate) => {
                out.byte(7);
                certificate.write(out);
            }
        }
    }
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::OutOfRange);
        match u8::take(input)? {
            6 => DeliveryCertificate::read(input).map(Self::Delivered),
            7 => HeightCertificate::read(input).map(Self::Height),
            tag => Err(Malformed { why: Why::UnknownTag(tag), ..refusal }),
        }
    }
}

impl Draw for Legitimacy {
    fn draw(from: &mut Drawn) -> Self {
        if bool::draw(from) { Self::Delivered(Draw::draw(from)) } else { Self::Height(Draw::draw(from)) }
    }
}

#[cfg(test)]
mod tests {
    use super::Signers;
    use synod_quorum::{NodeId, NodeSet};

    #[test]
    fn a_bitmap_is_of_the_cluster_it_was_made_for() {
        let set = NodeSet::only(NodeId(2)).with(NodeId(8));
        let signers = Signers::new(set, 9).expect("two of nine");
        assert!(signers.fits(9) && signers.fits(16));
        assert!(!signers.fits(8) && !signers.fits(17), "another width");
        assert!(Signers::new(set, 8).is_none() && Signers::new(set, 0).is_none());
        assert!(Signers::new(set, 129).is_none());
    }

    #[test]
    fn widths_are_told_from_units_beside_them() {
        for width in 1..=16 {
            for units in 0..20 {
                assert_eq!(Signers::width_of(width + 32 * units, 32), Some(width));
            }
        }
        assert_eq!(Signers::width_of(0, 32), None);
        assert_eq!(Signers::width_of(17, 32), None);
        assert_eq!(Signers::width_of(32, 32), None);
    }
}
