//! Named runs of HotStuff, fresh seeds, and the stored replays of former failures.

mod bad_leaders;
mod bodies;
mod catching_up;
mod clients;
mod clocks;
mod consecutive_leaders;
mod crash_points;
mod hidden_lock;
mod lagging;
mod leader_killed;
mod long_runs;
mod lost_messages;
mod one_dead;
mod pacemaker;
mod paper_stalls;
mod quiet;
mod rejoin;
mod replays;
mod restart_of_all;
mod restarts;
mod smoke;
