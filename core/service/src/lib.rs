//! Applications, sessions, exactly-once execution, state transfer and reply matching.
