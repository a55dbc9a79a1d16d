//! One module per rule; each takes the tree and returns what it found.

pub mod attributes;
pub mod conformance;
pub mod dependencies;
pub mod docs;
pub mod edges;
pub mod links;
pub mod lints;
pub mod lock;
pub mod merge;
pub mod oracle;
pub mod paths;
pub mod plants;
pub mod purity;
pub mod shape;
pub mod sizes;
pub mod table;
pub mod toy;
pub mod words;
