//! The same contract and scenarios on every runtime.
