//! Long random lives: appends, blobs, syncs, rotations, compactions, and a crash at a random operation
//! with a random fate for each unsynced write, or a disk that fails. After every crash the journal must
//! hold what J-S1 allows.

mod rig;
use rig::life::Life;

#[test]
fn no_crash_of_a_long_life_loses_what_was_synced() {
    let (mut crashes, mut compactions, mut rotations) = (0, 0, 0);
    for seed in 0..400 {
        let mut life = Life::new(seed);
        life.run(12);
        crashes += life.crashes;
        compactions += life.compactions;
        rotations += life.rotations;
    }
    assert!(crashes > 3000, "{crashes} crashes are too few to mean anything");
    assert!(compactions > 1000, "{compactions} compactions are too few to mean anything");
    assert!(rotations > 1000, "{rotations} rotations are too few to mean anything");
}
