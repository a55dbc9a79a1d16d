//! Bounded collections: queue, map, bitmap window.
