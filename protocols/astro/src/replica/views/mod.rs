//! What a replica does when its view is over: it tells what it keeps, and goes on in the next one from that and from what others told.

mod crossing;
mod kept;
