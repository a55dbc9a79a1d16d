//! A StateStore over redb.
