//! The stored scenarios of `tests/replays`: each failed once, and none may fail again.

use std::path::Path;

use synod_trial::replay::replay;
use synod_trial::run::Manner;

#[test]
fn no_former_failure_comes_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../replays");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder of replays is part of the tree")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "there is nothing to replay");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a replay is text");
        let report = replay(&text, Manner::default()).expect("a replay is a scenario");
        assert!(report.passed(), "{}: {}\n{}", file.display(), report.what, report.columns);
    }
}
