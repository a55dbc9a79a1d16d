//! A checkout in memory: paths, texts, sources with their test regions, manifests.
//!
//! Why in memory: rules then work the same on the checkout and on a sample of two files in a test.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use crate::finding::Finding;
use crate::items;
use crate::manifest::Manifest;
use crate::scan::Source;

/// Largest text file that is read, in bytes.
pub const TEXT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Directories that hold test crates or test files; everything below them is test code.
const TEST_DIRS: &[&str] = &["tests", "benches", "fuzz"];

/// A Rust source file.
#[derive(Clone, Debug)]
pub struct Rust {
    /// The views of the file.
    pub source: Source,
    /// Extents (start, end) of test code.
    pub tests: Vec<(usize, usize)>,
}

impl Rust {
    /// Tells whether an offset lies in test code.
    pub fn is_test(&self, offset: usize) -> bool {
        self.tests.iter().any(|(start, end)| (*start..*end).contains(&offset))
    }

    /// Gives the code view with test code blanked.
    pub fn production(&self) -> String {
        let mut out = String::with_capacity(self.source.code.len());
        for (at, c) in self.source.code.char_indices() {
            if c == '\n' || !self.is_test(at) {
                out.push(c);
            } else {
                out.extend(std::iter::repeat_n(' ', c.len_utf8()));
            }
        }
        out
    }
}

/// A checkout, or a sample of one.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Every file, also those that are not read.
    pub paths: BTreeSet<String>,
    /// Every directory that holds a file.
    pub dirs: BTreeSet<String>,
    /// Text files by path: sources, documents, manifests, scripts.
    pub texts: BTreeMap<String, String>,
    /// Rust sources by path.
    pub sources: BTreeMap<String, Rust>,
    /// Crate manifests, the workspace's own excepted.
    pub manifests: Vec<Manifest>,
    /// Files that could not be understood.
    pub broken: Vec<Finding>,
}

impl Tree {
    /// Reads a checkout, without build output and version control.
    ///
    /// # Errors
    /// A directory or a text file cannot be read.
    pub fn load(root: &Path) -> io::Result<Self> {
        let mut paths = Vec::new();
        walk(root, "", &mut paths)?;
        let mut tree = Self::default();
        let mut texts = BTreeMap::new();
        for path in paths {
            if is_text(&path) {
                let file = root.join(&path);
                if file.metadata()?.len() > TEXT_BYTES_MAX {
                    tree.broken.push(Finding::refuse("tree", &path, 0, "larger than 4 MiB"));
                } else {
                    let bytes = std::fs::read(&file)?;
                    texts.insert(path.clone(), String::from_utf8_lossy(&bytes).into_owned());
                }
            }
            tree.paths.insert(path);
        }
        tree.texts = texts;
        Ok(tree.digested())
    }

    /// Builds a sample from (path, text) pairs.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.paths.insert((*path).to_owned());
            tree.texts.insert((*path).to_owned(), (*text).to_owned());
        }
        tree.digested()
    }

    /// Gives the directory of the crate that owns a path, if any.
    pub fn crate_of(&self, path: &str) -> Option<&Manifest> {
        let owns = |m: &&Manifest| path.starts_with(&m.dir) && path[m.dir.len()..].starts_with('/');
        self.manifests.iter().filter(owns).max_by_key(|m| m.dir.len())
    }

    fn digested(mut self) -> Self {
        for path in &self.paths {
            let parents = path.match_indices('/').map(|(at, _)| path[..at].to_owned());
            self.dirs.extend(parents);
        }
        for (path, text) in &self.texts {
            if path.ends_with(".rs") {
                self.sources.insert(path.clone(), Rust { source: Source::new(text), tests: Vec::new() });
            }
            if path.ends_with("/Cargo.toml") {
                match Manifest::parse(path, text) {
                    Ok(manifest) => self.manifests.push(manifest),
                    Err(why) => self.broken.push(Finding::refuse("tree", path, 0, why)),
                }
            }
        }
        self.mark_tests();
        self
    }

    /// Marks test code, following `#[cfg(test)] mod x;` into the files it names.
    fn mark_tests(&mut self) {
        let mut whole: Vec<String> = Vec::new();
        for (path, rust) in &mut self.sources {
            let tests = items::tests(&rust.source);
            let by_name = path.ends_with("/tests.rs") || path.ends_with("_tests.rs");
            if tests.whole || by_name || path.split('/').any(|part| TEST_DIRS.contains(&part)) {
                rust.tests = vec![(0, rust.source.text.len())];
            } else {
                rust.tests = tests.extents;
            }
            let base = module_base(path);
            whole.extend(tests.modules.iter().map(|name| format!("{base}/{name}")));
        }
        for (path, rust) in &mut self.sources {
            let inside = |m: &String| {
                path.strip_prefix(m.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            };
            if whole.iter().any(inside) {
                rust.tests = vec![(0, rust.source.text.len())];
            }
        }
    }
}

/// Gives the directory in which the modules declared by a file lie.
fn module_base(path: &str) -> String {
    let stem = path.trim_end_matches(".rs");
    let (dir, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    if matches!(name, "lib" | "main" | "mod") { dir.to_owned() } else { stem.to_owned() }
}

fn is_text(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let known = ["rs", "md", "toml", "lock", "sh", "py", "yml", "yaml", "service", "proto"];
    path.starts_with(".ci/") || name.rsplit_once('.').is_some_and(|(_, end)| known.contains(&end))
}

fn walk(root: &Path, inner: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(inner))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if inner.is_empty() { name.clone() } else { format!("{inner}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && !skipped(inner, &name) {
            walk(root, &path, paths)?;
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

/// Leaves out version control, build output and what lies beside the project.
fn skipped(inner: &str, name: &str) -> bool {
    let output = name == "target" || name.starts_with("target-") || name == "shared";
    let baseline = inner.strip_prefix("baselines/").is_some_and(|dir| !dir.contains('/'));
    name == ".git" || ((inner.is_empty() || baseline) && output) || name == "node_modules"
}

#[cfg(test)]
mod tests {
    use super::Tree;

    #[test]
    fn a_test_module_in_its_own_file_is_test_code() {
        let tree = Tree::of(&[
            ("core/a/src/lib.rs", "#[cfg(test)]\nmod far;\nmod near;\n"),
            ("core/a/src/far.rs", "fn a() {}\n"),
            ("core/a/src/far/deep.rs", "fn a() {}\n"),
            ("core/a/src/near.rs", "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\n"),
            ("core/a/tests/all.rs", "fn a() {}\n"),
        ]);
        let test_at = |path: &str, at| tree.sources[path].is_test(at);
        assert!(test_at("core/a/src/far.rs", 3));
        assert!(test_at("core/a/src/far/deep.rs", 3));
        assert!(test_at("core/a/tests/all.rs", 3));
        assert!(!test_at("core/a/src/near.rs", 3));
        assert!(test_at("core/a/src/near.rs", 40));
        assert!(!tree.sources["core/a/src/near.rs"].production().contains("fn b"));
        assert!(tree.sources["core/a/src/near.rs"].production().contains("fn a"));
    }

    #[test]
    fn a_manifest_that_does_not_parse_is_reported() {
        let tree = Tree::of(&[("core/a/Cargo.toml", "[package")]);
        assert_eq!(tree.broken.len(), 1);
        assert!(tree.manifests.is_empty());
    }

    #[test]
    fn a_path_belongs_to_the_nearest_crate() {
        let toml = "[package]\nname = \"synod-a\"\n";
        let tree = Tree::of(&[("core/a/Cargo.toml", toml), ("core/ab/src/lib.rs", "")]);
        assert!(tree.crate_of("core/a/src/lib.rs").is_some());
        assert!(tree.crate_of("core/ab/src/lib.rs").is_none());
        assert!(tree.dirs.contains("core/ab/src"));
    }
}
