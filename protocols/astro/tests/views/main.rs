//! Views that change without consensus, by what they promise.

mod alone;
mod crew;
mod crossings;
mod entered;
mod joins;
mod lies;
mod states;
