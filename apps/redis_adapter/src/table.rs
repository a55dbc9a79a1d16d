//! Which commands there are: an allow-list by class. What is not here is refused.

use synod_wire::Bytes;

/// How a command is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Passed on; its reply depends on nothing but the state.
    Pure,
    /// Passed on; its reply is a set, and is sorted.
    Sorted,
    /// Carried out by the adapter, with the help of the server.
    Own(Own),
}

/// The commands that the adapter carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    Ping,
    Echo,
    DbSize,
    FlushAll,
    Keys,
    Scan,
    ScanSet,
    ScanHash,
    ScanSorted,
    HashAll,
    HashValues,
    SortList,
    PopRandom,
    RandomMember,
    RandomKey,
    RandomField,
    RandomScored,
    Set,
    SetEx,
    GetEx,
    Expire,
    Persist,
    Ttl,
    Time,
    Rename,
    Copy,
    StreamAdd,
    StreamTrim,
}

/// Where the keys of a command stand among its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Nowhere.
    None,
    /// One, behind the name.
    One,
    /// All words behind the name.
    All,
    /// Every second word behind the name.
    Pairs,
    /// The first one is written, the others are read.
    Store,
    /// Two behind the name.
    Two,
    /// Behind the second word: BITOP.
    Behind,
    /// Their number is the first word behind the name.
    Counted,
    /// One, then their number: ZUNIONSTORE.
    StoreCounted,
}

/// What a command does to the account of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing: it reads.
    Reads,
    /// Keys shrink or go.
    Shrinks,
    /// A key grows by its words at most.
    Grows,
    /// A key is written anew: what it held and its deadline go.
    Writes,
    /// As `Writes`, with a size that the words do not say.
    Stores,
    /// As `Grows`, with a size that the words do not say.
    Spreads,
}

/// A command that is allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Words, the name counted.
    pub(crate) least: usize,
    pub(crate) most: usize,
    pub(crate) class: Class,
    pub(crate) keys: Keys,
    pub(crate) effect: Effect,
}

/// What is known of a reply before a command is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// A number, a status, an error: the command writes and its reply is short.
    Light,
    /// The command changes nothing, so its reply may be given up.
    Read,
    /// The command changes something, and its reply may be long.
    Heavy,
}

impl Row {
    /// How much room the reply to these words needs.
    pub(crate) fn weight(&self, words: &[Bytes]) -> Weight {
        let gives = |word: &Bytes| word.eq_ignore_ascii_case(b"GET");
        match self.name {
            _ if self.effect == Effect::Reads => Weight::Read,
            "GETDEL" | "GETEX" | "GETSET" | "LMOVE" | "LPOP" | "RPOP" | "RPOPLPUSH" | "SPOP" | "ZPOPMAX"
            | "ZPOPMIN" => Weight::Heavy,
            "SET" if words.iter().skip(3).any(gives) => Weight::Heavy,
            _ => Weight::Light,
        }
    }

    /// Whether a command of so many words fits.
    pub(crate) fn fits(&self, words: usize) -> bool {
        (self.least..=self.most).contains(&words)
    }
}

const MANY: usize = usize::MAX;

const fn row(name: &'static str, words: (usize, usize), class: Class, keys: Keys, effect: Effect) -> Row {
    Row { name, least: words.0, most: words.1, class, keys, effect }
}

const fn pure(name: &'static str, words: (usize, usize), keys: Keys, effect: Effect) -> Row {
    row(name, words, Class::Pure, keys, effect)
}

const fn own(name: &'static str, words: (usize, usize), own: Own, keys: Keys, effect: Effect) -> Row {
    row(name, words, Class::Own(own), keys, effect)
}

use Effect::{Grows, Reads, Shrinks, Spreads, Stores, Writes};

/// Every command that is allowed, by name.
pub(crate) const TABLE: &[Row] = &[
    pure("APPEND", (3, 3), Keys::One, Grows),
    pure("BITCOUNT", (2, 5), Keys::One, Reads),
    pure("BITOP", (4, MANY), Keys::Behind, Stores),
    pure("BITPOS", (3, 6), Keys::One, Reads),
    own("COPY", (3, 4), Own::Copy, Keys::Two, Stores),
    own("DBSIZE", (1, 1), Own::DbSize, Keys::None, Reads),
    pure("DECR", (2, 2), Keys::One, Grows),
    pure("DECRBY", (3, 3), Keys::One, Grows),
    pure("DEL", (2, MANY), Keys::All, Shrinks),
    own("ECHO", (2, 2), Own::Echo, Keys::None, Reads),
    pure("EXISTS", (2, MANY), Keys::All, Reads),
    own("EXPIRE", (3, 4), Own::Expire, Keys::One, Shrinks),
    own("EXPIREAT", (3, 4), Own::Expire, Keys::One, Shrinks),
    own("EXPIRETIME", (2, 2), Own::Ttl, Keys::One, Reads),
    own("FLUSHALL", (1, 1), Own::FlushAll, Keys::None, Shrinks),
    own("FLUSHDB", (1, 1), Own::FlushAll, Keys::None, Shrinks),
    pure("GET", (2, 2), Keys::One, Reads),
    pure("GETBIT", (3, 3), Keys::One, Reads),
    pure("GETDEL", (2, 2), Keys::One, Shrinks),
    own("GETEX", (2, 4), Own::GetEx, Keys::One, Shrinks),
    pure("GETRANGE", (4, 4), Keys::One, Reads),
    pure("GETSET", (3, 3), Keys::One, Writes),
    pure("HDEL", (3, MANY), Keys::One, Shrinks),
    pure("HEXISTS", (3, 3), Keys::One, Reads),
    pure("HGET", (3, 3), Keys::One, Reads),
    own("HGETALL", (2, 2), Own::HashAll, Keys::One, Reads),
    pure("HINCRBY", (4, 4), Keys::One, Grows),
    pure("HINCRBYFLOAT", (4, 4), Keys::One, Grows),
    row("HKEYS", (2, 2), Class::Sorted, Keys::One, Reads),
    pure("HLEN", (2, 2), Keys::One, Reads),
    pure("HMGET", (3, MANY), Keys::One, Reads),
    pure("HMSET", (4, MANY), Keys::One, Grows),
    own("HRANDFIELD", (2, 4), Own::RandomField, Keys::One, Reads),
    own("HSCAN", (3, MANY), Own::ScanHash, Keys::One, Reads),
    pure("HSET", (4, MANY), Keys::One, Grows),
    pure("HSETNX", (4, 4), Keys::One, Grows),
    pure("HSTRLEN", (3, 3), Keys::One, Reads),
    own("HVALS", (2, 2), Own::HashValues, Keys::One, Reads),
    pure("INCR", (2, 2), Keys::One, Grows),
    pure("INCRBY", (3, 3), Keys::One, Grows),
    pure("INCRBYFLOAT", (3, 3), Keys::One, Grows),
    own("KEYS", (2, 2), Own::Keys, Keys::None, Reads),
    pure("LINDEX", (3, 3), Keys::One, Reads),
    pure("LINSERT", (5, 5), Keys::One, Grows),
    pure("LLEN", (2, 2), Keys::One, Reads),
    pure("LMOVE", (5, 5), Keys::Two, Spreads),
    pure("LPOP", (2, 3), Keys::One, Shrinks),
    pure("LPOS", (3, MANY), Keys::One, Reads),
    pure("LPUSH", (3, MANY), Keys::One, Grows),
    pure("LPUSHX", (3, MANY), Keys::One, Grows),
    pure("LRANGE", (4, 4), Keys::One, Reads),
    pure("LREM", (4, 4), Keys::One, Shrinks),
    pure("LSET", (4, 4), Keys::One, Grows),
    pure("LTRIM", (4, 4), Keys::One, Shrinks),
    pure("MGET", (2, MANY), Keys::All, Reads),
    pure("MSET", (3, MANY), Keys::Pairs, Writes),
    pure("MSETNX", (3, MANY), Keys::Pairs, Writes),
    own("PERSIST", (2, 2), Own::Persist, Keys::One, Shrinks),
    own("PEXPIRE", (3, 4), Own::Expire, Keys::One, Shrinks),
    own("PEXPIREAT", (3, 4), Own::Expire, Keys::One, Shrinks),
    own("PEXPIRETIME", (2, 2), Own::Ttl, Keys::One, Reads),
    own("PING", (1, 2), Own::Ping, Keys::None, Reads),
    own("PSETEX", (4, 4), Own::SetEx, Keys::One, Writes),
    own("PTTL", (2, 2), Own::Ttl, Keys::One, Reads),
    own("RANDOMKEY", (1, 1), Own::RandomKey, Keys::None, Reads),
    own("RENAME", (3, 3), Own::Rename, Keys::Two, Stores),
    own("RENAMENX", (3, 3), Own::Rename, Keys::Two, Stores),
    pure("RPOP", (2, 3), Keys::One, Shrinks),
    pure("RPOPLPUSH", (3, 3), Keys::Two, Spreads),
    pure("RPUSH", (3, MANY), Keys::One, Grows),
    pure("RPUSHX", (3, MANY), Keys::One, Grows),
    pure("SADD", (3, MANY), Keys::One, Grows),
    own("SCAN", (2, MANY), Own::Scan, Keys::None, Reads),
    pure("SCARD", (2, 2), Keys::One, Reads),
    row("SDIFF", (2, MANY), Class::Sorted, Keys::All, Reads),
    pure("SDIFFSTORE", (3, MANY), Keys::Store, Stores),
    own("SET", (3, MANY), Own::Set, Keys::One, Writes),
    pure("SETBIT", (4, 4), Keys::One, Spreads),
    own("SETEX", (4, 4), Own::SetEx, Keys::One, Writes),
    pure("SETNX", (3, 3), Keys::One, Writes),
    pure("SETRANGE", (4, 4), Keys::One, Spreads),
    row("SINTER", (2, MANY), Class::Sorted, Keys::All, Reads),
    pure("SINTERCARD", (3, MANY), Keys::Counted, Reads),
    pure("SINTERSTORE", (3, MANY), Keys::Store, Stores),
    pure("SISMEMBER", (3, 3), Keys::One, Reads),
    row("SMEMBERS", (2, 2), Class::Sorted, Keys::One, Reads),
    pure("SMISMEMBER", (3, MANY), Keys::One, Reads),
    pure("SMOVE", (4, 4), Keys::Two, Spreads),
    own("SORT", (2, MANY), Own::SortList, Keys::One, Reads),
    own("SPOP", (2, 3), Own::PopRandom, Keys::One, Shrinks),
    own("SRANDMEMBER", (2, 3), Own::RandomMember, Keys::One, Reads),
    pure("SREM", (3, MANY), Keys::One, Shrinks),
    own("SSCAN", (3, MANY), Own::ScanSet, Keys::One, Reads),
    pure("STRLEN", (2, 2), Keys::One, Reads),
    row("SUNION", (2, MANY), Class::Sorted, Keys::All, Reads),
    pure("SUNIONSTORE", (3, MANY), Keys::Store, Stores),
    own("TIME", (1, 1), Own::Time, Keys::None, Reads),
    pure("TOUCH", (2, MANY), Keys::All, Reads),
    own("TTL", (2, 2), Own::Ttl, Keys::One, Reads),
    pure("TYPE", (2, 2), Keys::One, Reads),
    pure("UNLINK", (2, MANY), Keys::All, Shrinks),
    own("XADD", (5, MANY), Own::StreamAdd, Keys::One, Grows),
    pure("XDEL", (3, MANY), Keys::One, Shrinks),
    pure("XLEN", (2, 2), Keys::One, Reads),
    pure("XRANGE", (4, 6), Keys::One, Reads),
    pure("XREVRANGE", (4, 6), Keys::One, Reads),
    own("XTRIM", (4, 5), Own::StreamTrim, Keys::One, Shrinks),
    pure("ZADD", (4, MANY), Keys::One, Grows),
    pure("ZCARD", (2, 2), Keys::One, Reads),
    pure("ZCOUNT", (4, 4), Keys::One, Reads),
    pure("ZDIFF", (3, MANY), Keys::Counted, Reads),
    pure("ZDIFFSTORE", (4, MANY), Keys::StoreCounted, Stores),
    pure("ZINCRBY", (4, 4), Keys::One, Grows),
    pure("ZINTER", (3, MANY), Keys::Counted, Reads),
    pure("ZINTERCARD", (3, MANY), Keys::Counted, Reads),
    pure("ZINTERSTORE", (4, MANY), Keys::StoreCounted, Stores),
    pure("ZLEXCOUNT", (4, 4), Keys::One, Reads),
    pure("ZMSCORE", (3, MANY), Keys::One, Reads),
    pure("ZPOPMAX", (2, 3), Keys::One, Shrinks),
    pure("ZPOPMIN", (2, 3), Keys::One, Shrinks),
    own("ZRANDMEMBER", (2, 4), Own::RandomScored, Keys::One, Reads),
    pure("ZRANGE", (4, MANY), Keys::One, Reads),
    pure("ZRANGEBYLEX", (4, 7), Keys::One, Reads),
    pure("ZRANGEBYSCORE", (4, 8), Keys::One, Reads),
    pure("ZRANGESTORE", (5, MANY), Keys::Two, Stores),
    pure("ZRANK", (3, 3), Keys::One, Reads),
    pure("ZREM", (3, MANY), Keys::One, Shrinks),
    pure("ZREMRANGEBYLEX", (4, 4), Keys::One, Shrinks),
    pure("ZREMRANGEBYRANK", (4, 4), Keys::One, Shrinks),
    pure("ZREMRANGEBYSCORE", (4, 4), Keys::One, Shrinks),
    pure("ZREVRANGE", (4, 5), Keys::One, Reads),
    pure("ZREVRANGEBYLEX", (4, 7), Keys::One, Reads),
    pure("ZREVRANGEBYSCORE", (4, 8), Keys::One, Reads),
    pure("ZREVRANK", (3, 3), Keys::One, Reads),
    own("ZSCAN", (3, MANY), Own::ScanSorted, Keys::One, Reads),
    pure("ZSCORE", (3, 3), Keys::One, Reads),
    pure("ZUNION", (3, MANY), Keys::Counted, Reads),
    pure("ZUNIONSTORE", (4, MANY), Keys::StoreCounted, Stores),
];

/// The row of a command by its name in capitals.
pub(crate) fn find(name: &str) -> Option<&'static Row> {
    TABLE.binary_search_by_key(&name, |row| row.name).ok().and_then(|at| TABLE.get(at))
}

/// Why a command that exists is not allowed.
pub(crate) fn why_not(name: &str) -> &'static str {
    match name {
        "EVAL" | "EVALSHA" | "EVAL_RO" | "EVALSHA_RO" | "FCALL" | "FCALL_RO" | "FUNCTION" | "SCRIPT" => {
            "ERR scripts are not executed: they could ask the server past the adapter"
        }
        "BLPOP" | "BRPOP" | "BLMOVE" | "BRPOPLPUSH" | "BLMPOP" | "BZPOPMIN" | "BZPOPMAX" | "BZMPOP"
        | "WAIT" | "XREAD" | "XREADGROUP" => {
            "ERR commands that block are not built for a replicated server: ask again without waiting"
        }
        "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" | "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "PUBLISH"
        | "SPUBLISH" | "PUBSUB" => "ERR messages to subscribers are no state",
        "PFADD" | "PFCOUNT" | "PFMERGE" | "OBJECT" | "MEMORY" | "DUMP" | "RESTORE" => {
            "ERR the reply depends on how the server stores a value"
        }
        "WATCH" | "UNWATCH" => "ERR WATCH is not built for a replicated server",
        "MULTI" | "EXEC" | "DISCARD" => "ERR a transaction is one request: the gateway in front gathers it",
        _ => "ERR the command is not allowed for a replicated server",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_words_suffice_for_the_keys() {
        assert!(TABLE.is_sorted_by(|one, next| one.name < next.name));
        for row in TABLE {
            let needed = match row.keys {
                Keys::None => 1,
                Keys::One | Keys::All | Keys::Store => 2,
                Keys::Pairs | Keys::Two | Keys::Behind | Keys::Counted => 3,
                Keys::StoreCounted => 4,
            };
            assert!(row.least >= needed && row.least <= row.most, "{}", row.name);
            assert_eq!(find(row.name).map(|found| found.name), Some(row.name));
        }
    }

    #[test]
    fn nothing_that_runs_scripts_blocks_or_administers_is_allowed() {
        for name in [
            "EVAL",
            "FCALL",
            "SCRIPT",
            "BLPOP",
            "WAIT",
            "SUBSCRIBE",
            "PUBLISH",
            "CONFIG",
            "DEBUG",
            "REPLICAOF",
            "SHUTDOWN",
            "SAVE",
            "MODULE",
            "OBJECT",
            "PFADD",
            "MIGRATE",
            "SELECT",
            "MOVE",
            "SWAPDB",
            "CLIENT",
            "ACL",
            "MONITOR",
            "XREADGROUP",
            "XGROUP",
            "XSETID",
            "GEOSEARCH",
            "BITFIELD",
            "SUBSTR",
            "LMPOP",
        ] {
            assert!(find(name).is_none(), "{name}");
            assert!(why_not(name).starts_with("ERR "));
        }
    }
}
