//! Genesis, node configuration, layers and the catalogue of SYN codes.
