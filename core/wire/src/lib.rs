//! Canonical encoding with limits: the only crate that names the codec library.
