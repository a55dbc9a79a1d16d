//! Plans: which machines a node hosts and how their outputs reach inputs.
