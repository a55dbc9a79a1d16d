//! Reaching the cluster of a context.

use crate::output::progress;
use crate::session::{Session, usage};
use std::path::Path;
use synod_config::{Context, Contexts, Genesis, SynError};
use synod_quorum::NodeId;

/// Client addresses of every member that states one.
pub(crate) fn client_addresses(genesis: &Genesis) -> Vec<(NodeId, String)> {
    let stated = genesis.members().iter().map(|member| member.client.as_ref().map(ToString::to_string));
    (0_u32..).map(NodeId).zip(stated).filter_map(|(id, address)| Some((id, address?))).collect()
}

/// The genesis of the context a verb means, if there is one.
///
/// # Errors
/// Those of the contexts file and of the genesis.
pub(crate) fn genesis(session: &Session) -> Result<Option<Genesis>, SynError> {
    let Some(context) = session.chosen()? else { return Ok(None) };
    Genesis::read(&context.genesis).map(Some)
}

/// The genesis in a file, or else that of the context.
///
/// # Errors
/// Those of [`genesis`] and of the file; SYN-1001 without either.
pub(crate) fn genesis_of(session: &Session, file: Option<&Path>) -> Result<Genesis, SynError> {
    match file {
        Some(file) => Genesis::read(file),
        None => genesis(session)?.ok_or_else(|| usage("which cluster? give --genesis, or select a context")),
    }
}

/// Adds a context and selects it.
///
/// # Errors
/// Those of the contexts file.
pub(crate) fn select(context: Context) -> Result<(), SynError> {
    let directory = Session::directory()?;
    let mut contexts = Contexts::read(&directory)?;
    let name = context.name.clone();
    contexts.add(context)?;
    contexts.select(&name)?;
    contexts.write(&directory)
}

/// Removes a context, if it is still there.
///
/// # Errors
/// Those of the contexts file.
pub(crate) fn remove(name: &str) -> Result<(), SynError> {
    let directory = Session::directory()?;
    let mut contexts = Contexts::read(&directory)?;
    if contexts.get(name).is_none() {
        return Ok(());
    }
    contexts.remove(name)?;
    contexts.write(&directory)
}

/// Contexts that were dropped, for `synod up` made them and their directory is gone.
#[derive(Default)]
pub(crate) struct Gone(Vec<Context>);

impl Gone {
    /// Drops them; the file is the caller's to write.
    pub(crate) fn of(contexts: &mut Contexts) -> Self {
        Self(contexts.forget_gone())
    }

    /// Whether there are any.
    pub(crate) fn is_some(&self) -> bool {
        !self.0.is_empty()
    }

    /// Says on standard error which they were; for after the file was written.
    pub(crate) fn tell(&self) {
        for context in &self.0 {
            let directory = context.directory.as_deref().map(|path| path.display().to_string());
            progress(&format!("context {} dropped: {} is gone", context.name, directory.unwrap_or_default()));
        }
    }
}
