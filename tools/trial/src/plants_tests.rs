//! The registry resolves, and builds without plants refuse.

use super::*;

const STORED: &str = include_str!("../../../tests/plants.toml");

fn plant(system: &str) -> Plant {
    let text = |text: &str| text.to_owned();
    Plant { id: text("H1"), bug: text("b"), system: text(system), checker: text("H-S9"), open: None }
}

#[test]
fn the_registry_is_read_and_unknown_fields_are_refused() {
    let text = "[[plant]]\nid = \"H1\"\nbug = \"b\"\nsystem = \"-\"\nchecker = \"H-S9\"\n";
    let plants = registry(text).expect("this is a registry");
    assert!(plants.len() == 1 && plants[0].is_starred());
    assert!(registry("[[plant]]\nid = \"H1\"\nbag = \"b\"\n").is_err());
    assert!(registry(&text.replace("\"-\"", "\"chain4\"")).is_err(), "every system is known");
    let outside = registry(&text.replace("\"-\"", "\"identities\"")).expect("this is a registry");
    assert!(
        outside[0].is_outside() && Ground::of(&outside[0]).is_err(),
        "the simulator does not look for it"
    );
}

#[test]
fn a_system_is_packs_blocks_or_the_journal() {
    let systems = |system: &str| Ground::of(&plant(system)).map(|ground| ground.systems);
    assert_eq!(systems("basic, chain3"), Ok(vec!["hotstuff/basic".to_owned(), "hotstuff/chain3".to_owned()]));
    assert_eq!(systems("-").map(|all| all.len()), Ok(4));
    assert_eq!(systems("journal"), Ok(vec!["journal".to_owned()]));
    assert!(systems("paper").is_err() && systems("").is_err(), "lab packs are not judged");
    let blocks = Ground::of(&plant("blocks")).expect("this is a system");
    assert_eq!((blocks.systems.len(), blocks.options.disk), (4, Some(Disk::Blocks)));
    let over = Ground::of(&plant("over basic,chain3")).expect("this is a system");
    assert_eq!((over.systems.len(), over.options.over_budget, blocks.options.over_budget), (2, true, false));
}

#[test]
fn every_stored_plant_resolves_and_no_starred_one_is_open() {
    let plants = registry(STORED).expect("the stored registry is one");
    assert!(plants.len() > 30);
    let starred: Vec<&Plant> = plants.iter().filter(|plant| plant.is_starred()).collect();
    assert_eq!(starred.len(), STARRED.len());
    assert!(starred.iter().all(|plant| plant.open.is_none()));
}

#[test]
fn a_missed_plant_is_told_unless_the_registry_calls_it_open() {
    let report = |id: &str, seeds: u64, found: bool, open: &str| PlantReport {
        id: id.to_owned(),
        starred: STARRED.contains(&id),
        found,
        seeds,
        open: open.to_owned(),
        ..PlantReport::default()
    };
    let per = vec![
        report("H1", 3, true, ""),
        report("H2", 500, false, ""),
        report("H9", 7, true, ""),
        report("H14", 500, false, "why"),
    ];
    let sum = summed(per, Replays::default());
    assert_eq!((sum.planted, sum.found, sum.missed), (4, 2, vec!["H2".to_owned()]));
    assert_eq!(sum.starred, Starred { planted: 2, found: 1 });
    assert_eq!(sum.seeds, SeedsReport { p50: 7, max: 7 });
}

#[test]
fn no_two_searches_begin_at_one_seed() {
    let seeds: std::collections::BTreeSet<u64> = (0..50).map(|at| drawn(&format!("H{at}"))).collect();
    assert!(seeds.len() == 50 && seeds.iter().all(|seed| *seed < 1 << 48));
}

#[test]
#[cfg(not(synod_plant))]
fn a_build_without_plants_refuses_to_look() {
    assert!(find(&plant("-"), &Search { from: Some(1), seeds: 1, ..Search::default() }).is_err());
    assert!(!is_plant_build() && mark().is_none());
}
