//! Gates, conformance and measurements.
