//! Money that crosses between shards (specification, sections 4.7 and 4.9): what leaves, what comes, and who is told.

mod asking;
mod exporter;
mod imported;
mod importer;
mod inbound;
mod recover;

pub(super) use asking::Asking;
pub(super) use exporter::Exporter;
pub(super) use importer::{Credited, Importer};
