//! `synod node recover`: a node whose promises are lost or not to be trusted.

use crate::cluster::{from_journal, unwritable};
use crate::layout;
use crate::output::Report;
use crate::verbs::config::Source;
use clap::Args;
use synod_config::SynError;
use synod_journal::{Journal, OsDisk, SyncMode};

/// Marks the journal of a stopped node as damaged, or makes an empty damaged one where it is gone.
///
/// The node then listens until its peers readmit it; it never votes on what it may have forgotten. This is the
/// answer to a lost disk or a restored copy. It is not `init`: a node that was there before is never new.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod node recover --data cluster/n0")]
pub(super) struct Arguments {
    #[command(flatten)]
    source: Source,
}

impl Arguments {
    pub(super) fn report(self) -> Result<Report, SynError> {
        let (config, genesis) = self.source.checked()?;
        let (id, member) =
            genesis.member(&config.node.name).expect("the configuration was checked against it");
        let directory = layout::journal(&self.source.data.join(&config.node.data_dir));
        let disk = OsDisk::open(&directory).map_err(|error| unwritable(&directory, &error))?;
        Journal::reset_damaged(Box::new(disk), synod_host::journal_config(&genesis, id, SyncMode::Group))
            .map_err(|error| from_journal(&error, &directory))?;
        Ok(Report::new("synod-recover/1")
            .field("node", member.name.clone())
            .field("cluster", genesis.id().to_string())
            .field("journal", directory.display().to_string())
            .field("condition", "damaged"))
    }
}
