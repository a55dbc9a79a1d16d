//! Batches that are uploaded to be counted and not to be witnessed: of any directory, without signatures that hold.

use super::cooldown::Cooldown;
use super::operations::Operations;
use crate::chop::batches::Unfit;
use synod_chopchop::batch::{Batch, Plan, Seal, Sealed};
use synod_chopchop::config::Cluster;
use synod_chopchop::ids::{IdCodec, encode, encode_as};
use synod_chopchop::statement::BlsSignatureBytes;
use synod_machine::Rng;
use synod_quorum::NodeId;

/// How ids are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// In as many bits as the largest one of the directory needs.
    Packed,
    /// By the smallest codec, as brokers do.
    Smallest,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bare {
    /// Messages of a batch.
    pub count: u32,
    /// Ids of the directory.
    pub space: u32,
    /// How ids are written.
    pub ids: Ids,
    /// What messages ask for.
    pub operations: Operations,
}

impl Bare {
    /// A batch of uniform ids with this number and expiry. Its signature is none.
    ///
    /// # Errors
    /// [`Unfit`] when there is no such batch.
    pub fn seal(&self, cluster: &Cluster, (number, expiry): (u64, u64)) -> Result<Sealed, Unfit> {
        let mut rng = Rng::new(number, NodeId(self.count), 4);
        let ids = Cooldown::new(self.space).draw(self.count, &mut rng).ok_or(Unfit::Space)?;
        let entries = self.operations.entries(&ids, (number, number % 2 == 1), &mut rng);
        let plan = Plan {
            broker: 0,
            msg_size: self.operations.size(),
            epoch: cluster.epoch(),
            k: number,
            expiry,
            directory: self.space,
        };
        let none = Some(BlsSignatureBytes([0xff; 96]));
        let mut sealed = Seal::new(plan, entries).seal(cluster.domains(), none).map_err(Unfit::Seal)?;
        if self.ids == Ids::Packed {
            pack(&mut sealed, &ids)?;
        }
        Ok(sealed)
    }
}

/// Writes the ids of a batch anew, in whole bits of the same number.
fn pack(sealed: &mut Sealed, ids: &[u32]) -> Result<(), Unfit> {
    let directory = sealed.header.directory;
    let bits = u32::BITS - directory.saturating_sub(1).leading_zeros();
    let codec = IdCodec::Packed(u8::try_from(bits.max(1)).unwrap_or(32));
    let unfit = |fault| Unfit::Seal(synod_chopchop::batch::Unsealable::Ids(fault));
    let old = encode(ids, directory).map_err(unfit)?.bytes.len().next_multiple_of(8);
    let mut body = encode_as(codec, ids, directory).map_err(unfit)?;
    body.resize(body.len().next_multiple_of(8), 0);
    body.extend_from_slice(sealed.body.get(old..).unwrap_or_default());
    sealed.header.codec = codec;
    sealed.header.body_len = u32::try_from(body.len()).unwrap_or(u32::MAX);
    sealed.body = body.into();
    Batch::open(sealed).map(drop).map_err(Unfit::Intake)
}

#[cfg(test)]
mod tests {
    use super::{Bare, Ids};
    use crate::chop::broker::Operations;
    use crate::chop::cluster;
    use synod_chopchop::batch::Batch;

    #[test]
    fn both_forms_hold_the_same_and_packed_ids_have_the_published_size() {
        let (cluster, count, space) = (cluster(), 1_000, 257_000_000);
        let of = |ids| {
            let bare = Bare { count, space, ids, operations: Operations::Bytes(8) };
            let sealed = bare.seal(&cluster, (3, 50)).expect("sound");
            sealed.header.intake(&cluster.intake(1)).expect("servers take it in");
            sealed
        };
        let (packed, smallest) = (of(Ids::Packed), of(Ids::Smallest));
        let columns =
            |sealed| Batch::open(sealed).expect("well formed").columns().ids().collect::<Vec<u32>>();
        assert_eq!(columns(&packed), columns(&smallest));
        assert_eq!(packed.body.len(), 3_504 + 8_000 + 128, "28 bits an id, 8 bytes, a bit");
        assert!(smallest.body.len() < packed.body.len());
    }
}
