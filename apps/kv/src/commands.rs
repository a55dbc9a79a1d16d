//! The table of data commands: name, number on the wire, arity, whether it writes, where its keys stand.
//!
//! The gateway takes from it which commands are reads, what COMMAND answers and which keys a command names; the
//! store takes from it the arity check and the admission check. Numbers are part of the operation format: they
//! are never reused, new commands are appended.

/// What a command does to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Changes nothing; may be answered by a quorum read.
    Read,
    /// May change or shrink the store, never grows it.
    Write,
    /// May grow the store, so it is refused when the store is full.
    Grow,
}

/// Which arguments are keys, counted with the command's name at 0, as Redis counts; all 0 means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Position of the first key.
    pub first: i8,
    /// Position of the last key; -1 is the last argument.
    pub last: i8,
    /// Distance between keys.
    pub step: i8,
}

/// No argument is a key.
const NONE: Keys = Keys { first: 0, last: 0, step: 0 };
/// The first argument is the key.
const ONE: Keys = Keys { first: 1, last: 1, step: 1 };
/// Every argument is a key.
const ALL: Keys = Keys { first: 1, last: -1, step: 1 };
/// Every other argument is a key.
const PAIRS: Keys = Keys { first: 1, last: -1, step: 2 };

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Which command.
    pub verb: Verb,
    /// Its name in lower case.
    pub name: &'static str,
    /// Arguments with the name: exactly that many, or at least `-arity` when negative.
    pub arity: i8,
    /// What it does to the store.
    pub access: Access,
    /// Where its keys stand.
    pub keys: Keys,
}

macro_rules! verbs {
    ($($verb:ident $name:literal $upper:literal $arity:literal $access:ident $keys:ident;)*) => {
        /// A command that reads or writes data. The discriminant is its number on the wire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "the names are those of Redis")]
        pub enum Verb { $($verb,)* }

        /// Every data command; the row of a verb stands at its number.
        pub const COMMANDS: &[Command] = &[
            $(Command {
                verb: Verb::$verb, name: $name, arity: $arity, access: Access::$access, keys: $keys,
            },)*
        ];

        /// The verb of an upper-case name.
        fn named(upper: &[u8]) -> Option<Verb> {
            match upper { $($upper => Some(Verb::$verb),)* _ => None }
        }
    };
}

verbs! {
    Get "get" b"GET" 2 Read ONE;
    Set "set" b"SET" -3 Grow ONE;
    GetSet "getset" b"GETSET" 3 Grow ONE;
    GetDel "getdel" b"GETDEL" 2 Write ONE;
    MGet "mget" b"MGET" -2 Read ALL;
    MSet "mset" b"MSET" -3 Grow PAIRS;
    Del "del" b"DEL" -2 Write ALL;
    Exists "exists" b"EXISTS" -2 Read ALL;
    Type "type" b"TYPE" 2 Read ONE;
    Append "append" b"APPEND" 3 Grow ONE;
    StrLen "strlen" b"STRLEN" 2 Read ONE;
    Incr "incr" b"INCR" 2 Grow ONE;
    Decr "decr" b"DECR" 2 Grow ONE;
    IncrBy "incrby" b"INCRBY" 3 Grow ONE;
    DecrBy "decrby" b"DECRBY" 3 Grow ONE;
    Expire "expire" b"EXPIRE" -3 Write ONE;
    PExpire "pexpire" b"PEXPIRE" -3 Write ONE;
    Ttl "ttl" b"TTL" 2 Read ONE;
    PTtl "pttl" b"PTTL" 2 Read ONE;
    Persist "persist" b"PERSIST" 2 Write ONE;
    LPush "lpush" b"LPUSH" -3 Grow ONE;
    RPush "rpush" b"RPUSH" -3 Grow ONE;
    LPop "lpop" b"LPOP" -2 Write ONE;
    RPop "rpop" b"RPOP" -2 Write ONE;
    LRange "lrange" b"LRANGE" 4 Read ONE;
    LLen "llen" b"LLEN" 2 Read ONE;
    SAdd "sadd" b"SADD" -3 Grow ONE;
    SRem "srem" b"SREM" -3 Write ONE;
    SPop "spop" b"SPOP" -2 Write ONE;
    SIsMember "sismember" b"SISMEMBER" 3 Read ONE;
    SMembers "smembers" b"SMEMBERS" 2 Read ONE;
    SCard "scard" b"SCARD" 2 Read ONE;
    HSet "hset" b"HSET" -4 Grow ONE;
    HGet "hget" b"HGET" 3 Read ONE;
    HDel "hdel" b"HDEL" -3 Write ONE;
    HGetAll "hgetall" b"HGETALL" 2 Read ONE;
    HIncrBy "hincrby" b"HINCRBY" 4 Grow ONE;
    ZAdd "zadd" b"ZADD" -4 Grow ONE;
    ZRem "zrem" b"ZREM" -3 Write ONE;
    ZRange "zrange" b"ZRANGE" -4 Read ONE;
    ZPopMin "zpopmin" b"ZPOPMIN" -2 Write ONE;
    ZScore "zscore" b"ZSCORE" 3 Read ONE;
    Scan "scan" b"SCAN" -2 Read NONE;
    DbSize "dbsize" b"DBSIZE" 1 Read NONE;
}

/// Longest name in the table, in bytes.
const NAME_MAX: usize = 9;

impl Verb {
    /// Finds a command by its name in any case.
    #[must_use]
    pub fn find(name: &[u8]) -> Option<Self> {
        let mut upper = [0; NAME_MAX];
        let upper = upper.get_mut(..name.len())?;
        upper.copy_from_slice(name);
        upper.make_ascii_uppercase();
        named(upper)
    }

    /// The verb with this number on the wire.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        COMMANDS.get(usize::from(number)).map(|command| command.verb)
    }

    /// Its number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Its row in the table.
    #[must_use]
    pub fn command(self) -> &'static Command {
        &COMMANDS[usize::from(self.number())]
    }
}

impl Command {
    /// Whether the command changes nothing.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.access == Access::Read
    }

    /// Whether `count` arguments, the name not counted, fit the arity.
    #[must_use]
    pub fn fits(&self, count: usize) -> bool {
        let given = count + 1;
        let wanted = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { given >= wanted } else { given == wanted }
    }

    /// Positions of the keys among `count` arguments, the name not counted: 0 is the first argument.
    pub fn key_positions(&self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let first = usize::from(self.keys.first.unsigned_abs());
        let end = match self.keys.last {
            -1 => count,
            last => usize::from(last.unsigned_abs()).min(count),
        };
        let step = usize::from(self.keys.step.unsigned_abs()).max(1);
        let start = if first == 0 { end } else { first - 1 };
        (start..end).step_by(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_stands_at_its_number_and_is_found_by_name() {
        assert!(COMMANDS.len() < 200);
        for (number, command) in COMMANDS.iter().enumerate() {
            assert_eq!(usize::from(command.verb.number()), number);
            assert_eq!(Verb::find(command.name.as_bytes()), Some(command.verb));
            assert_eq!(Verb::find(command.name.to_uppercase().as_bytes()), Some(command.verb));
            assert!(command.name.len() <= NAME_MAX);
        }
    }

    #[test]
    fn what_is_not_in_the_table_is_unknown() {
        for name in ["", "gets", "flushall", "eval", "subscribe", "debug", "a-name-that-is-far-too-long"] {
            assert_eq!(Verb::find(name.as_bytes()), None, "{name}");
        }
        assert_eq!(Verb::from_number(255), None);
    }

    #[test]
    fn keys_stand_where_the_table_says() {
        let positions = |verb: Verb, count| verb.command().key_positions(count).collect::<Vec<_>>();
        assert_eq!(positions(Verb::Get, 1), [0]);
        assert_eq!(positions(Verb::Set, 4), [0]);
        assert_eq!(positions(Verb::MGet, 3), [0, 1, 2]);
        assert_eq!(positions(Verb::MSet, 4), [0, 2]);
        assert_eq!(positions(Verb::Scan, 3), [0_usize; 0]);
    }

    #[test]
    fn arity_counts_the_name() {
        assert!(Verb::Get.command().fits(1) && !Verb::Get.command().fits(2) && !Verb::Get.command().fits(0));
        assert!(Verb::Del.command().fits(1) && Verb::Del.command().fits(9) && !Verb::Del.command().fits(0));
    }
}
