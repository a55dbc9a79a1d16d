//! Redis.

use crate::link::{Folder, Link};
use crate::run::{Asked, Drive, same};
use std::path::Path;
use std::process::Command as Process;
use synod_redis_adapter::resp::{self, Reply};
use synod_redis_adapter::{Adapter, Command, Config, Operation, Server};
use synod_wire::{Bytes, Drawn, Wire};

struct Socket(Link);

impl Server for Socket {
    fn ask(&self, commands: &[Vec<Bytes>]) -> Vec<Reply> {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| resp::command(command).to_vec()).collect();
        self.0.exchange(&bytes, commands.len(), |_, held| match Reply::read(held) {
            Ok(reply) => reply,
            Err(_) => {
                eprintln!("servers: Redis sent what is no reply");
                std::process::abort();
            }
        })
    }
}

/// Starts a server; `small` is how many elements it keeps in the compact form of small values.
fn start(folder: &Path, name: &str, small: &str) -> anyhow::Result<Adapter<Socket>> {
    let socket = folder.join(name);
    let mut command = Process::new("redis-server");
    command.current_dir(folder).args(["--port", "0", "--unixsocket"]).arg(&socket);
    command.args([
        "--save",
        "",
        "--appendonly",
        "no",
        "--maxmemory",
        "0",
        "--maxmemory-policy",
        "noeviction",
    ]);
    for kind in ["hash-max-listpack-entries", "zset-max-listpack-entries", "set-max-intset-entries"] {
        command.args([format!("--{kind}"), small.to_owned()]);
    }
    Ok(Adapter::new(Config::default(), Socket(Link::start(&mut command, &socket)?)))
}

pub(crate) fn run(slots: u64, seed: u64) -> anyhow::Result<()> {
    let folder = Folder::new("redis")?;
    let apps = [start(&folder.0, "a", "128")?, start(&folder.0, "b", "0")?, start(&folder.0, "c", "2")?];
    same(apps, &Drive { draw: command, is_error: |reply| reply.starts_with(b"-") }, slots, seed)
}

/// Commands by the type of their keys, so that most are answered: letters stand for keys of a type, W for a word, N for a
/// small number, T for a time, S for a score.
const FORMS: &[&str] = &[
    "SET s W",
    "SET s W EX N",
    "SET s W PX T",
    "SET s W NX",
    "SET s W XX GET",
    "SET s W KEEPTTL",
    "SETEX s N W",
    "PSETEX s T W",
    "SETNX s W",
    "GETSET s W",
    "GET s",
    "GET s",
    "GET s",
    "GETEX s PX T",
    "GETEX s PERSIST",
    "GETDEL s",
    "APPEND s W",
    "STRLEN s",
    "GETRANGE s 0 N",
    "SETRANGE s N W",
    "SETBIT b N 1",
    "GETBIT b N",
    "BITCOUNT b",
    "BITPOS b 1",
    "BITOP OR b b b",
    "MGET s s s",
    "MSET s W s W",
    "MSETNX s W s W",
    "INCR n",
    "DECR n",
    "INCRBY n N",
    "DECRBY n N",
    "INCRBYFLOAT f S",
    "EXPIRE s N",
    "PEXPIRE h T",
    "PEXPIRE e T GT",
    "EXPIRE z N NX",
    "PERSIST s",
    "TTL s",
    "PTTL h",
    "PEXPIRETIME z",
    "EXISTS s s",
    "TYPE h",
    "DEL s",
    "UNLINK h",
    "TOUCH s h",
    "RENAME s s",
    "RENAMENX s s",
    "COPY h h REPLACE",
    "COPY s s",
    "RPUSH l W W",
    "LPUSH l W",
    "RPUSHX l W",
    "LPOP l",
    "RPOP l 2",
    "LRANGE l 0 -1",
    "LINDEX l N",
    "LLEN l",
    "LINSERT l BEFORE W W",
    "LSET l 0 W",
    "LREM l 0 W",
    "LTRIM l 0 20",
    "LPOS l W",
    "LMOVE l l LEFT RIGHT",
    "RPOPLPUSH l l",
    "SORT l ALPHA",
    "SORT i DESC LIMIT 0 5",
    "SORT e BY NOSORT",
    "RPUSH i N N N",
    "SADD e W W W",
    "SADD e N N",
    "SREM e W",
    "SMEMBERS e",
    "SISMEMBER e W",
    "SMISMEMBER e W W",
    "SCARD e",
    "SPOP e",
    "SPOP e 2",
    "SRANDMEMBER e",
    "SRANDMEMBER e -4",
    "SMOVE e e W",
    "SUNION e e",
    "SINTER e e",
    "SDIFF e e",
    "SUNIONSTORE e e e",
    "SINTERSTORE e e e",
    "SDIFFSTORE e e e",
    "SINTERCARD 2 e e",
    "SSCAN e 0",
    "HSET h W W W W",
    "HSETNX h W W",
    "HMSET h W W",
    "HGET h W",
    "HMGET h W W",
    "HDEL h W",
    "HLEN h",
    "HEXISTS h W",
    "HSTRLEN h W",
    "HKEYS h",
    "HVALS h",
    "HGETALL h",
    "HINCRBY h num N",
    "HINCRBYFLOAT h fl S",
    "HRANDFIELD h",
    "HRANDFIELD h 3 WITHVALUES",
    "HSCAN h 0 MATCH *1*",
    "ZADD z S W S W",
    "ZADD z NX S W",
    "ZINCRBY z S W",
    "ZREM z W",
    "ZSCORE z W",
    "ZMSCORE z W W",
    "ZCARD z",
    "ZCOUNT z -inf +inf",
    "ZRANK z W",
    "ZREVRANK z W",
    "ZRANGE z 0 -1 WITHSCORES",
    "ZRANGE z 0 9 REV",
    "ZRANGEBYSCORE z (1 5",
    "ZREVRANGE z 0 3",
    "ZPOPMIN z",
    "ZPOPMAX z 2",
    "ZRANDMEMBER z 2 WITHSCORES",
    "ZREMRANGEBYRANK z 8 9",
    "ZREMRANGEBYSCORE z 8 9",
    "ZUNION 2 z z WITHSCORES",
    "ZINTER 2 z z",
    "ZDIFF 2 z z",
    "ZUNIONSTORE z 2 z z",
    "ZINTERSTORE z 2 z z",
    "ZDIFFSTORE z 2 z z",
    "ZRANGESTORE z z 0 5",
    "ZSCAN z 0",
    "ZLEXCOUNT z - +",
    "XADD x * W W",
    "XADD x MAXLEN 9 * W W",
    "XADD x NOMKSTREAM * W W",
    "XLEN x",
    "XRANGE x - +",
    "XREVRANGE x + - COUNT 3",
    "XTRIM x MAXLEN 6",
    "XDEL x 1-1",
    "KEYS *1*",
    "SCAN 0 COUNT 50",
    "SCAN 0 TYPE hash",
    "RANDOMKEY",
    "DBSIZE",
    "TIME",
    "PING",
    "ECHO W",
    "FLUSHALL",
    "LPOP s",
    "SADD l W",
    "INCR s",
    "OBJECT ENCODING s",
    "EVAL return 1",
    "BLPOP l 0",
];

fn command(draw: &mut Drawn, _time: u64) -> Asked {
    let mut form = FORMS[usize::try_from(draw.below(FORMS.len() as u64)).unwrap_or(0)];
    if form == "FLUSHALL" && draw.below(12) > 0 {
        form = "DBSIZE";
    }
    let words: Vec<String> = form
        .split(' ')
        .map(|word| match word {
            "W" => format!("w{}", draw.below(40)),
            "N" => draw.below(30).to_string(),
            "T" => (1 + draw.below(4_000)).to_string(),
            "S" => format!("{}.{}", draw.below(20), draw.below(8) * 125),
            one if one.len() == 1 && one.bytes().all(|byte| byte.is_ascii_lowercase()) => {
                format!("{one}:{:014}", draw.below(6))
            }
            other => other.to_owned(),
        })
        .collect();
    let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let body = Command::of(&bytes).map_or_else(Bytes::new, |command| Operation::One(command).encode());
    Asked { name: words.first().cloned().unwrap_or_default(), body }
}
