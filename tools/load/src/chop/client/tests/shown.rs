//! What members are shown of one tree is checked together.

use synod_chopchop::columns::Entry;
use synod_chopchop::message::{ClientMessage, Inclusion};

use super::{Batch, Hand, begun, crowd};
use crate::chop::client::machine::Input;

#[test]
fn members_of_one_batch_compute_each_digest_once_and_refuse_each_forged_sibling() {
    let mut hand = Hand::new(crowd(200, Some(0)));
    hand.input(Input::Broadcast(1));
    let said = begun(&mut hand);
    let batch = Batch::close(&hand.crowd.cluster, 0, &said);
    batch.show(&mut hand, &said, false);
    assert_eq!(hand.said().len(), 200, "everybody signs");
    // The first climbs alone; then a hash for the leaf of each, and one for each node above 50 leaves.
    let hashed = hand.machine.roots.hashed();
    assert!((199..=199 + 50).contains(&hashed), "{hashed}");
    let entry = |at: u32| {
        let (_, _, of) = said.get(at as usize)?;
        Some(Entry { id: of.id, message: &of.message, parity: of.parity })
    };
    let (shape, root) = (*batch.tree.shape(), batch.tree.root());
    let proof = batch.tree.prove(77, entry).expect("an entry");
    for level in 0..proof.path.len() {
        let mut proof = proof.clone();
        proof.path[level].0[7] ^= 4;
        let inclusion = Inclusion { root, k: 0, shape, proof, height: None, closed: false };
        hand.tell(0, 77, ClientMessage::Inclusion(inclusion));
    }
    let stats = hand.stats();
    assert_eq!((stats.inclusions, stats.false_inclusions), (200, 6));
}
