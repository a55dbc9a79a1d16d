//! Several shards of members that pay each other (II-F): one world with all of them, whose nodes are numbered shard by shard.

pub mod judge;
pub mod judge_books;
pub mod plan;
pub mod run;
pub mod workload;
