//! `synod logs`: what the nodes of a deployment wrote.

use crate::cluster::unwritable;
use crate::deployment::{directory_of, log_file, node_names};
use crate::exit::Done;
use crate::session::{Session, usage};
use clap::Args;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;
use synod_config::{Exit, SynError};

/// Bytes from the end of a log that are shown at first.
const TAIL_BYTES: u64 = 64 << 10;
/// Pause between two looks at a log that is followed.
const LOOK: Duration = Duration::from_millis(200);

/// Prints the end of the logs of one node or of all, each line behind the name of its node.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod logs n0")]
pub(crate) struct Arguments {
    /// Name of the node; without it, all.
    node: Option<String>,
    /// Goes on with what is written from then on, until interrupted.
    #[arg(short, long)]
    follow: bool,
    /// The directory of the deployment; by default that of the context.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// A log and how far it was printed.
struct Reader {
    name: String,
    path: PathBuf,
    at: u64,
    /// The beginning of a line that is not complete yet.
    partial: Vec<u8>,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let directory = directory_of(session, self.dir.as_deref())?;
        let mut names = node_names(&directory)?;
        if let Some(wanted) = &self.node {
            if !names.contains(wanted) {
                return Err(
                    usage(&format!("{wanted:?} is no node")).because(format!("one of {}", names.join(", ")))
                );
            }
            names.retain(|name| name == wanted);
        }
        let mut readers: Vec<Reader> = names.into_iter().map(|name| Reader::new(&directory, name)).collect();
        loop {
            for reader in &mut readers {
                session.output.raw(&reader.read()?)?;
            }
            if !self.follow {
                return Ok(Exit::Success);
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Reader {
    fn new(directory: &Path, name: String) -> Self {
        let path = log_file(directory, &name);
        let length = path.metadata().map_or(0, |meta| meta.len());
        Self { name, path, at: length.saturating_sub(TAIL_BYTES), partial: Vec::new() }
    }

    /// The complete lines written since the last call.
    fn read(&mut self) -> Result<String, SynError> {
        let Ok(mut file) = File::open(&self.path) else { return Ok(String::new()) };
        let mut text = String::new();
        let mut part = vec![0; 64 << 10];
        file.seek(SeekFrom::Start(self.at)).map_err(|error| unwritable(&self.path, &error))?;
        loop {
            let count = file.read(&mut part).map_err(|error| unwritable(&self.path, &error))?;
            let read = part.get(..count).unwrap_or_default();
            if read.is_empty() {
                return Ok(text);
            }
            self.at = self.at.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
            for piece in read.split_inclusive(|byte| *byte == b'\n') {
                self.partial.extend_from_slice(piece);
                if piece.ends_with(b"\n") {
                    text.push_str(&self.name);
                    text.push(' ');
                    text.push_str(&String::from_utf8_lossy(&self.partial));
                    self.partial.clear();
                }
            }
        }
    }
}
