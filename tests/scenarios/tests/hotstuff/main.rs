//! Named runs of HotStuff, fresh seeds, and the stored replays of former failures.

mod consecutive_leaders;
mod hidden_lock;
mod lagging;
mod leader_killed;
mod lost_messages;
mod one_dead;
mod paper_stalls;
mod quiet;
mod replays;
mod restart_of_all;
mod smoke;
