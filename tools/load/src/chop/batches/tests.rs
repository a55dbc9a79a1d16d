//! Generated batches are what servers witness, and forged ones are not.

use super::{BatchPlan, Batches, Forged, Unfit};
use crate::chop::{IdDraw, KeyFamily, Members, Witness, cluster};
use synod_chopchop::batch::{Batch, Refusal};
use synod_crypto::Seed;

fn members(members: u32, length: u32) -> Members {
    KeyFamily::new(&Seed::new([2; 32])).members(members, length).expect("whole chunks")
}

fn plan(ids: IdDraw, distilled: u16) -> BatchPlan {
    BatchPlan { ids, count: 100, msg_size: 8, distilled }
}

#[test]
fn every_mix_of_signers_and_stragglers_is_witnessed() {
    let (members, cluster) = (members(512, 1_024), cluster());
    let witness = Witness::new(&cluster, &members);
    for (ids, distilled, stragglers) in [
        (IdDraw::Uniform, 1_000, 0),
        (IdDraw::Uniform, 0, 100),
        (IdDraw::Cohort(10), 500, 50),
        (IdDraw::Block, 994, 1),
    ] {
        let mut batches = Batches::new(&members, &cluster, plan(ids, distilled)).expect("enough ids");
        for k in 1..=3 {
            let sealed = batches.draw().expect("a sound plan");
            assert_eq!((sealed.header.k, sealed.header.stragglers), (k, stragglers), "{ids} {distilled}");
            assert_eq!(sealed.header.aggregate.is_some(), distilled > 0);
            assert_eq!(witness.check(&sealed), Ok(()), "{ids} {distilled}: batch {k}");
        }
    }
}

#[test]
fn sizes_of_messages_and_ids_beyond_the_members_make_no_difference() {
    let (members, cluster) = (members(512, 5_120), cluster());
    let witness = Witness::new(&cluster, &members);
    for msg_size in [1, 9, 30, 300] {
        let plan = BatchPlan { msg_size, count: 700, ..plan(IdDraw::Uniform, 900) };
        let sealed = Batches::new(&members, &cluster, plan).and_then(|mut batches| batches.draw());
        let sealed = sealed.expect("a sound plan");
        let batch = Batch::open(&sealed).expect("well formed");
        assert!(batch.columns().ids().any(|id| id > 4_000), "ids of the whole space");
        assert_eq!(witness.check(&sealed), Ok(()), "{msg_size} bytes");
    }
}

#[test]
fn a_wrong_message_is_refused_by_root_or_by_signature() {
    let (members, cluster) = (members(512, 512), cluster());
    let witness = Witness::new(&cluster, &members);
    for (distilled, why) in [(1_000, Refusal::Aggregate), (0, Refusal::Straggler)] {
        let mut batches = Batches::new(&members, &cluster, plan(IdDraw::Uniform, distilled)).expect("ids");
        let genuine = batches.draw().expect("a sound plan");
        for index in [0, 42, 99] {
            let forged = Forged::of(&cluster, &genuine, index).expect("an entry");
            assert_eq!(witness.check(&forged.rerooted), Err(why), "entry {index}, {distilled}");
            assert_eq!(witness.check(&forged.swapped), Err(Refusal::Root), "entry {index}, {distilled}");
            assert_eq!(forged.resigned.is_some(), distilled < 1_000);
        }
        assert!(Forged::of(&cluster, &genuine, 100).is_none(), "there is no such entry");
        assert_eq!(witness.check(&genuine), Ok(()));
    }
}

#[test]
fn a_wrong_signature_of_one_straggler_is_refused_though_every_message_is_genuine() {
    let (members, cluster) = (members(512, 512), cluster());
    let witness = Witness::new(&cluster, &members);
    for distilled in [0, 500, 990] {
        let mut batches = Batches::new(&members, &cluster, plan(IdDraw::Uniform, distilled)).expect("ids");
        let genuine = batches.draw().expect("a sound plan");
        for index in [0, 42, 99] {
            let forged = Forged::of(&cluster, &genuine, index).and_then(|forged| forged.resigned);
            let forged = forged.expect("a straggler");
            assert_eq!(forged.header.root, genuine.header.root);
            assert_eq!(witness.check(&forged), Err(Refusal::Straggler), "entry {index}, {distilled}");
        }
    }
}

#[test]
fn plans_that_mean_no_batch_are_refused() {
    let (members, cluster) = (members(512, 512), cluster());
    let too_many = BatchPlan { count: 513, ..plan(IdDraw::Uniform, 1_000) };
    assert_eq!(Batches::new(&members, &cluster, too_many).map(|_| ()), Err(Unfit::Space));
    let too_long = BatchPlan { count: 300, msg_size: 60_000, ..plan(IdDraw::Uniform, 1_000) };
    let mut batches = Batches::new(&members, &cluster, too_long).expect("enough ids");
    assert!(matches!(batches.draw(), Err(Unfit::Intake(_))), "more than a body may hold");
    let rounded = |distilled| BatchPlan { distilled, ..plan(IdDraw::Uniform, 0) }.stragglers();
    assert_eq!([rounded(1_000), rounded(996), rounded(994), rounded(0)], [0, 0, 1, 100]);
}
