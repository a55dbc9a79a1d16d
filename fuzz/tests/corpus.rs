//! Replays the committed corpora. `SYNOD_BLESS=1` writes what a target's corpus begins with.

use synod_fuzz::{TARGETS, Target, check, corpus};

fn targets() -> impl Iterator<Item = &'static Target> {
    TARGETS.iter().copied().flatten()
}

#[test]
fn every_input_of_the_corpora_keeps_every_property() {
    let root = corpus::root();
    for target in targets() {
        if std::env::var_os("SYNOD_BLESS").is_some() {
            corpus::bless(&root, target).expect("the corpus is written");
        }
        let files = corpus::read(&root, target.name).expect("the corpus is read");
        assert!(files.len() >= 3, "{} has no corpus", target.name);
        let before = check::accepted();
        for (_, bytes) in &files {
            (target.run)(bytes);
        }
        assert!(check::accepted() > before, "{} accepts nothing of its corpus", target.name);
    }
}

#[test]
fn every_folder_of_the_corpora_is_of_a_target() {
    let folders = std::fs::read_dir(corpus::root()).expect("there are corpora");
    let mut count = 0;
    for folder in folders {
        let name = folder.expect("it is listed").file_name();
        let name = name.to_str().expect("a plain name");
        assert!(targets().any(|target| target.name == name), "{name} is no target");
        count += 1;
    }
    assert_eq!(count, targets().count());
}
