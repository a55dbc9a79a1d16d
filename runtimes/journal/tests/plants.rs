//! The planted bugs of the journal are found by the soak's oracle from fresh seeds, and correct code is
//! silent on the same seeds.
#![cfg(synod_plant)]

use std::panic::catch_unwind;

mod rig;
use rig::life::Life;

/// The first seed below 500 on which the oracle fires.
fn found() -> Option<u64> {
    (1000..1500).find(|seed| catch_unwind(|| Life::new(*seed).run(12)).is_err())
}

#[test]
fn each_planted_bug_is_found_and_nothing_else_is() {
    synod_machine::planted::activate("");
    assert_eq!(found(), None, "correct code is silent");
    for plant in ["G1", "G3", "G4", "H10"] {
        synod_machine::planted::activate(plant);
        assert!(found().is_some(), "{plant} is not found");
    }
    synod_machine::planted::activate("");
}
