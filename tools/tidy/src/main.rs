//! Prints what `synod-tidy` finds in a checkout: `synod-tidy [ROOT]`, the current directory by default.
//!
//! Exit code 0 without refusals, 1 with some, 2 when the checkout cannot be read.

use std::path::PathBuf;
use std::process::ExitCode;

use synod_tidy::{Level, Tree, check};

fn main() -> ExitCode {
    let root = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let tree = match Tree::load(&root) {
        Ok(tree) => tree,
        Err(why) => {
            eprintln!("cannot read {}: {why}", root.display());
            return ExitCode::from(2);
        }
    };
    if tree.manifests.is_empty() {
        eprintln!("no crate below {}: run it at the root of the checkout", root.display());
        return ExitCode::from(2);
    }
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    let refused = findings.iter().filter(|f| f.level == Level::Refuse).count();
    let (crates, sources) = (tree.manifests.len(), tree.sources.len());
    println!("{crates} crates, {sources} sources: {refused} refused, {} warnings", findings.len() - refused);
    if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
