//! The stored scenarios of `tests/replays`: each failed once, and none may fail again; and those of
//! `tests/replays/plants`, which fail with their planted bug and pass without.

use std::path::{Path, PathBuf};

use synod_trial::replay::replay;
use synod_trial::run::Manner;

/// The scenarios of a folder below `tests`.
fn stored(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder of replays is part of the tree")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "there is nothing to replay");
    files
}

fn passes(file: &Path) {
    let text = std::fs::read_to_string(file).expect("a replay is text");
    let report = replay(&text, Manner::default()).expect("a replay is a scenario");
    assert!(report.passed(), "{}: {}\n{}", file.display(), report.what, report.columns);
}

#[test]
fn no_former_failure_comes_back() {
    stored("replays").iter().for_each(|file| passes(file));
}

#[test]
fn correct_code_is_silent_where_planted_bugs_are_found() {
    stored("replays/plants").iter().for_each(|file| passes(file));
}
