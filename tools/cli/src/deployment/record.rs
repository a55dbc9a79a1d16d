//! `deployment.json`: which processes a deployment consists of. It exists while the deployment is up.

use super::process::Running;
use crate::session::{Session, usage};
use rustix::fs::Mode;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use synod_config::{SynError, code};

const FILE: &str = "deployment.json";
const SCHEMA: &str = "synod-deployment/1";

/// The processes of a deployment and how it is to be taken down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    schema: String,
    /// The context that was selected for it.
    pub(crate) context: String,
    /// Whether its directory goes with it.
    pub(crate) ephemeral: bool,
    /// Its processes, one per node.
    pub(crate) nodes: Vec<Running>,
    /// The process whose end is the end of the nodes; `None` for one that was detached.
    #[serde(default)]
    pub(crate) supervisor: Option<Running>,
}

impl Record {
    /// A record of these processes.
    pub(crate) fn new(context: &str, ephemeral: bool, nodes: Vec<Running>) -> Self {
        Self { schema: SCHEMA.to_owned(), context: context.to_owned(), ephemeral, nodes, supervisor: None }
    }

    /// Reads the record of a deployment directory; `None` if it is down.
    ///
    /// # Errors
    /// SYN-1101 for a file that is not one, SYN-1110 for another schema.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, SynError> {
        let path = directory.join(FILE);
        let shown = path.display().to_string();
        let unreadable = |why: &dyn std::fmt::Display| {
            SynError::of(code::CONFIG_UNREADABLE, &[("file", &shown)]).because(why)
        };
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| unreadable(&error))?,
        };
        let record: Self = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
        if record.schema != SCHEMA {
            let values = [("file", &*shown), ("found", &*record.schema), ("known", SCHEMA)];
            return Err(SynError::of(code::FORMAT_NEWER, &values));
        }
        Ok(Some(record))
    }

    /// Writes the record as one step.
    ///
    /// # Errors
    /// SYN-1101 if the system refuses.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), SynError> {
        let path = directory.join(FILE);
        let next = directory.join(format!(".{FILE}.{}", std::process::id()));
        let text = serde_json::to_string_pretty(self).expect("names and numbers always become JSON");
        let private = (Mode::RUSR | Mode::WUSR).bits();
        let opened =
            std::fs::File::options().write(true).create(true).truncate(true).mode(private).open(&next);
        let written = opened
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| std::fs::rename(&next, &path));
        written.map_err(|error| crate::cluster::unwritable(&path, &error))
    }

    /// Removes the record: the deployment is down.
    ///
    /// # Errors
    /// SYN-1101 if the system refuses.
    pub(crate) fn remove(directory: &Path) -> Result<(), SynError> {
        let path = directory.join(FILE);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(crate::cluster::unwritable(&path, &error))
            }
            _ => Ok(()),
        }
    }

    /// The same under a supervisor.
    pub(crate) fn under(self, supervisor: Option<Running>) -> Self {
        Self { supervisor, ..self }
    }

    /// The process of a node.
    pub(crate) fn node(&self, name: &str) -> Option<&Running> {
        self.nodes.iter().find(|node| node.name == name)
    }
}

/// The deployment a verb means: `--dir`, else that of the context.
///
/// # Errors
/// SYN-1001 if neither names one.
pub(crate) fn directory_of(session: &Session, given: Option<&Path>) -> Result<PathBuf, SynError> {
    if let Some(directory) = given {
        return crate::session::absolute(directory);
    }
    let context = session.chosen()?.ok_or_else(crate::session::no_context)?;
    context.directory.ok_or_else(|| {
        usage(&format!("context {} names no deployment on this machine", context.name)).because("give --dir")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_as_written_and_gone_when_removed() {
        let directory = std::env::temp_dir().join(format!("synod-record-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("the directory is made");
        assert_eq!(Record::read(&directory), Ok(None));
        let node = Running { name: "n0".to_owned(), pid: 7, start: 9 };
        let record = Record::new("shop", true, vec![node.clone()]).under(Some(node.clone()));
        record.write(&directory).expect("it is written");
        assert_eq!(Record::read(&directory), Ok(Some(record.clone())));
        assert_eq!((record.node("n0"), record.node("n1")), (Some(&node), None));

        let path = directory.join(FILE);
        let newer =
            std::fs::read_to_string(&path).expect("it exists").replace("deployment/1", "deployment/2");
        std::fs::write(&path, newer).expect("it is written");
        assert_eq!(Record::read(&directory).map_err(|error| error.code()), Err(code::FORMAT_NEWER));
        std::fs::write(&path, "{").expect("it is written");
        assert_eq!(Record::read(&directory).map_err(|error| error.code()), Err(code::CONFIG_UNREADABLE));
        Record::remove(&directory).expect("it goes");
        Record::remove(&directory).expect("it is gone already");
        assert_eq!(Record::read(&directory), Ok(None));
        std::fs::remove_dir_all(&directory).expect("it is ours");
    }
}
