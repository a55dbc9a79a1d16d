//! Load generators, open and closed loop, with an audit.
