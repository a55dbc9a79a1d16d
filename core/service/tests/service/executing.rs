//! executing
