//! The deterministic simulator: virtual time, network, disks, faults, audit.
