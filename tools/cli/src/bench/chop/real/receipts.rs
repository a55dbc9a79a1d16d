//! Receipts of the crowd, written while the run goes on: one proof per line, and the genesis beside them.

use crate::cluster::unwritable;
use crate::exit::bug;
use crate::layout::GENESIS_FILE;
use crate::proof::{Proof, RECEIPT};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use synod_chopchop::receipt::Receipt;
use synod_config::{Genesis, SynError};
use synod_load::chop::client::Receipts as Sink;
use synod_wire::Wire as _;

/// A writer on a thread of its own.
pub(super) struct Receipts {
    to: mpsc::Sender<Box<Receipt>>,
    thread: JoinHandle<std::io::Result<u64>>,
    shown: String,
}

impl Receipts {
    /// Makes the file, which must not exist, and a copy of the genesis beside it.
    ///
    /// # Errors
    /// SYN-1101 if the system refuses.
    pub(super) fn start(file: &Path, genesis: &Genesis) -> Result<Self, SynError> {
        let beside = file.with_file_name(GENESIS_FILE);
        if !beside.exists() {
            std::fs::write(&beside, genesis.to_toml()).map_err(|error| unwritable(&beside, &error))?;
        }
        let made = File::options().write(true).create_new(true).open(file);
        let mut out = BufWriter::new(made.map_err(|error| unwritable(file, &error))?);
        let (to, all) = mpsc::channel::<Box<Receipt>>();
        let genesis = genesis.clone();
        let work = move || {
            let mut count = 0;
            for receipt in all {
                let proof = Proof::new(RECEIPT, &genesis, &receipt.encode());
                writeln!(out, "{}", proof.to_line())?;
                count += 1;
            }
            out.flush().map(|()| count)
        };
        let thread = std::thread::Builder::new().name("receipts".to_owned()).spawn(work);
        let thread = thread.map_err(|error| bug("receipts", &error))?;
        Ok(Self { to, thread, shown: file.display().to_string() })
    }

    /// Where the load client puts them.
    pub(super) fn sink(&self) -> Sink {
        let to = std::sync::Mutex::new(self.to.clone());
        Box::new(move |receipt| {
            if let Ok(to) = to.lock() {
                // The writer told why it ended.
                let _ = to.send(receipt);
            }
        })
    }

    /// Writes the rest; how many there are. The load client must have ended.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn close(self) -> Result<u64, SynError> {
        drop(self.to);
        let written = self.thread.join().map_err(|_| bug("receipts", &"the writer ended by a panic"))?;
        written.map_err(|error| unwritable(Path::new(&self.shown), &error))
    }
}
