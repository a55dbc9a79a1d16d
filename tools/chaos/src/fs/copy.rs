//! Between a directory of the machine and a tree.

use super::change::Change;
use super::nodes::{Content, Directory, File, Meta};
use super::tree::{ROOT, Tree};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

fn os(error: fuser::Errno) -> io::Error {
    io::Error::from_raw_os_error(error.code())
}

/// The tree of a directory, all of it durable.
pub(super) fn load(directory: &Path) -> io::Result<Tree> {
    let mut tree = Tree::new();
    let root = meta(&fs::metadata(directory)?);
    tree.node_mut(ROOT).map_err(os)?.meta = root;
    fill(&mut tree, ROOT, directory)?;
    Ok(tree)
}

fn meta(found: &fs::Metadata) -> Meta {
    let permissions = u16::try_from(found.mode() & 0o7777).unwrap_or(0);
    Meta::new(permissions, found.uid(), found.gid())
}

fn fill(tree: &mut Tree, parent: u64, directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let found = entry.metadata()?;
        let (name, path) = (entry.file_name(), entry.path());
        if found.is_dir() {
            let content = Content::Directory(Directory::default());
            let node = tree.make(parent, &name, meta(&found), content).map_err(os)?;
            fill(tree, node, &path)?;
        } else if found.is_file() {
            let node = tree.make(parent, &name, meta(&found), Content::File(File::default())).map_err(os)?;
            pour(tree, node, &path)?;
        } else {
            let problem = format!("{} is neither a file nor a directory", path.display());
            return Err(io::Error::new(ErrorKind::Unsupported, problem));
        }
    }
    tree.sync_names(parent).map_err(os)?;
    Ok(())
}

/// Copies a file, leaving out what is zero.
fn pour(tree: &mut Tree, node: u64, path: &Path) -> io::Result<()> {
    const STEP: usize = 4_096;
    let bytes = fs::read(path)?;
    for (at, part) in (0_u64..).step_by(STEP).zip(bytes.chunks(STEP)) {
        if part.iter().any(|byte| *byte != 0) {
            tree.change(node, Change::Bytes { at, bytes: part.to_vec() }).map_err(os)?;
        }
    }
    tree.change(node, Change::Length(bytes.len() as u64)).map_err(os)?;
    tree.sync(node).map_err(os)?;
    Ok(())
}

/// Writes a tree into an existing directory.
pub(super) fn save(tree: &Tree, directory: &Path) -> io::Result<()> {
    spread(tree, ROOT, directory)
}

fn spread(tree: &Tree, parent: u64, directory: &Path) -> io::Result<()> {
    for (name, number) in tree.names(parent).map_err(os)? {
        let (node, path) = (tree.node(*number).map_err(os)?, directory.join(name));
        let mode = u32::from(node.meta.permissions);
        match &node.content {
            Content::Directory(_) => {
                if !path.is_dir() {
                    fs::DirBuilder::new().mode(mode).create(&path)?;
                }
                spread(tree, *number, &path)?;
            }
            Content::File(file) => {
                let mut options = fs::OpenOptions::new();
                let out = options.write(true).create(true).truncate(true).mode(mode).open(&path)?;
                let length = file.now.length();
                out.set_len(length)?;
                for (at, bytes) in file.now.pieces() {
                    std::os::unix::fs::FileExt::write_all_at(&out, bytes, at)?;
                }
                out.set_len(length)?;
            }
        }
    }
    Ok(())
}
