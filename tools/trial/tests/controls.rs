//! Every control of every model fails, and correct code is silent for as long as it is looked at.
#![cfg(synod_plant)]

use std::time::Duration;

use synod_trial::models::explore::{MODELS, Plan, explore};

#[test]
fn every_control_fails() {
    for model in MODELS {
        let plan = Plan { time: Duration::from_secs(2), ..Plan::GATE };
        let report = explore(model, &plan, &mut |_| {}).expect("the model exists");
        assert_eq!(report.violations, 0, "correct code is silent");
        assert_eq!(report.controls_failed, Some(report.controls.len() as u64), "{:?}", report.controls);
    }
}
