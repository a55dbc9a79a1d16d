//! Members, sets of members, quorum arithmetic and vote sets.
