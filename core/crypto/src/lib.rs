//! Hashes, statements, claims, certificates and the keys that mint verified statements.
