//! Scenarios: named simulator runs, one file each.
