//! What a client sees: the connection's own commands, transactions, both dialects (TV1, TV5).

use synod_crypto::Hash;

use super::{Client, Server, multibulk, settings, shown};
use crate::resp::{Settings, Trust};

/// Says lines and compares the answers.
fn talk(settings: Settings, lines: &[(&str, &str)]) {
    let (mut server, mut client) = (Server::new(), Client::new(settings));
    for (line, answer) in lines {
        assert_eq!(client.say(&mut server, line), *answer, "{line}");
    }
}

#[test]
fn the_connection_answers_what_touches_no_data() {
    talk(
        settings(),
        &[
            ("PING", "+PONG"),
            ("ping hello", "$5 hello"),
            ("PING a b", "-ERR SYN-3001 wrong number of arguments for 'ping' command"),
            ("ECHO \"a b\"", "$3 a b"),
            ("ECHO", "-ERR SYN-3001 wrong number of arguments for 'echo' command"),
            ("SELECT 0", "+OK"),
            ("SELECT 1", "-ERR SYN-3003 DB index is out of range"),
            ("SELECT x", "-ERR SYN-3001 value is not an integer or out of range"),
            ("CLIENT ID", ":7"),
            ("CLIENT GETNAME", "$-1"),
            ("CLIENT SETNAME me", "+OK"),
            ("CLIENT GETNAME", "$2 me"),
            ("CLIENT INFO", "$25 id=7 name=me db=0 resp=2"),
            ("CLIENT SETINFO lib-name redis-py", "+OK"),
            (
                "CLIENT SETNAME \"a b\"",
                "-ERR SYN-3001 Client names cannot contain spaces, newlines or special characters.",
            ),
            ("CLIENT KILL", "-ERR SYN-3003 unknown subcommand 'KILL'. Try CLIENT HELP."),
            ("CLIENT ID x", "-ERR SYN-3001 wrong number of arguments for 'client|id' command"),
            ("CONFIG GET save", "*2 $4 save $0"),
            ("CONFIG GET nothing", "*0"),
            ("CONFIG SET save 1", "-ERR SYN-3003 unknown subcommand 'SET'. Try CONFIG HELP."),
            ("CONFIG GET", "-ERR SYN-3001 wrong number of arguments for 'config|get' command"),
            ("TIME", "*2 $10 1700000000 $1 0"),
            ("COMMAND COUNT", ":61"),
            ("COMMAND DOCS get", "*0"),
            ("COMMAND INFO get nope", "*2 *10 $3 get :2 *1 +readonly :1 :1 :1 *0 *0 *0 *0 *-1"),
            ("COMMAND HELP", "-ERR SYN-3003 unknown subcommand 'HELP'. Try COMMAND HELP."),
            (
                "AUTH x",
                "-ERR SYN-3001 AUTH <password> called without any password configured for the default \
              user. Are you sure your configuration is correct?",
            ),
            ("RESET", "+RESET"),
            ("CLIENT GETNAME", "$-1"),
        ],
    );
}

#[test]
fn unknown_and_refused_verbs_keep_the_connection_open() {
    talk(
        settings(),
        &[
            ("FOO", "-ERR SYN-3003 unknown command 'FOO', with args beginning with:"),
            ("FOO a \"b c\"", "-ERR SYN-3003 unknown command 'FOO', with args beginning with: 'a' 'b c'"),
            ("FLUSHALL", "-ERR SYN-3003 unknown command 'FLUSHALL', with args beginning with:"),
            ("EVAL x 0", "-ERR SYN-3003 unknown command 'EVAL', with args beginning with: 'x' '0'"),
            ("GET", "-ERR SYN-3001 wrong number of arguments for 'get' command"),
            ("\"a\\r\\n+b\"", "-ERR SYN-3003 unknown command 'a  +b', with args beginning with:"),
            ("PING", "+PONG"),
        ],
    );
}

#[test]
fn hello_changes_the_dialect() {
    let map = "$6 server $5 redis $7 version $5 7.0.0 $5 proto :{} $2 id :7 $4 mode $10 standalone $4 role \
               $6 master $7 modules *0";
    talk(
        settings(),
        &[
            ("ZADD z 1.5 a", ":1"),
            ("HSET h f v", ":1"),
            ("HGETALL h", "*2 $1 f $1 v"),
            ("ZRANGE z 0 -1 WITHSCORES", "*2 $1 a $3 1.5"),
            ("GET none", "$-1"),
            ("HELLO 4", "-NOPROTO SYN-3003 unsupported protocol version"),
            ("HELLO x", "-ERR SYN-3001 Protocol version is not an integer or out of range"),
            ("HELLO 3 WHAT", "-ERR SYN-3001 Syntax error in HELLO option 'WHAT'"),
            ("HELLO 3 SETNAME me", &format!("%7 {}", map.replace("{}", "3"))),
            ("CLIENT GETNAME", "$2 me"),
            ("HGETALL h", "%1 $1 f $1 v"),
            ("ZRANGE z 0 -1 WITHSCORES", "*1 *2 $1 a ,1.5"),
            ("ZSCORE z a", ",1.5"),
            ("GET none", "_"),
            ("HELLO 2", &format!("*14 {}", map.replace("{}", "2"))),
            ("ZSCORE z a", "$3 1.5"),
        ],
    );
}

#[test]
fn a_password_is_asked_for_before_anything_else() {
    let locked = Settings { password: Some(Hash::of(b"secret")), ..settings() };
    talk(
        locked.clone(),
        &[
            ("GET k", "-NOAUTH SYN-3011 Authentication required."),
            ("PING", "-NOAUTH SYN-3011 Authentication required."),
            ("AUTH wrong", "-WRONGPASS SYN-3012 invalid username-password pair or user is disabled."),
            ("AUTH other secret", "-WRONGPASS SYN-3012 invalid username-password pair or user is disabled."),
            ("AUTH secret", "+OK"),
            ("GET k", "$-1"),
            ("AUTH wrong", "-WRONGPASS SYN-3012 invalid username-password pair or user is disabled."),
            ("GET k", "$-1"),
            ("RESET", "+RESET"),
            ("GET k", "-NOAUTH SYN-3011 Authentication required."),
            ("AUTH default secret", "+OK"),
        ],
    );
    let (mut server, mut client) = (Server::new(), Client::new(locked));
    assert!(client.say(&mut server, "HELLO 3").starts_with("-NOAUTH SYN-3011 HELLO must be called"));
    assert!(client.say(&mut server, "HELLO 3 AUTH default no").starts_with("-WRONGPASS SYN-3012"));
    assert!(client.say(&mut server, "HELLO 3 AUTH default secret").starts_with("%7"));
    assert_eq!(client.say(&mut server, "PING"), "+PONG");
}

#[test]
fn info_says_whose_word_it_is() {
    for (trust, text) in
        [(Trust::Gateway, "synod_trust:gateway\r\n"), (Trust::Verified, "synod_trust:verified\r\n")]
    {
        let (mut server, mut client) = (Server::new(), Client::new(Settings { trust, ..settings() }));
        for command in [&b"INFO\r\n"[..], b"info synod\r\n", b"INFO all\r\n"] {
            let info = String::from_utf8(client.exchange(&mut server, command)).expect("text");
            assert!(info.contains(text), "{info}");
            assert_eq!(info.contains("redis_version:7.0.0"), command != b"info synod\r\n");
        }
        assert_eq!(client.say(&mut server, "INFO keyspace"), "$0");
    }
}

#[test]
fn quit_is_answered_before_the_end() {
    let (mut server, mut client) = (Server::new(), Client::new(settings()));
    assert_eq!(client.say(&mut server, "QUIT"), "+OK");
    assert!(client.connection.is_finished() && !client.connection.wants_input());
    assert_eq!(client.say(&mut server, "PING"), "", "nothing is answered behind QUIT");
}

#[test]
fn a_transaction_is_one_operation() {
    let (mut server, mut client) = (Server::new(), Client::new(settings()));
    for (line, answer) in [
        ("EXEC", "-ERR SYN-3001 EXEC without MULTI"),
        ("DISCARD", "-ERR SYN-3001 DISCARD without MULTI"),
        ("MULTI", "+OK"),
        ("MULTI", "-ERR SYN-3001 MULTI calls can not be nested"),
        ("WATCH k", "-ERR SYN-3001 WATCH inside MULTI is not allowed"),
        ("SET k 1", "+QUEUED"),
        ("PING", "+QUEUED"),
        ("LPUSH k x", "+QUEUED"),
        ("INCR k", "+QUEUED"),
        ("ECHO last", "+QUEUED"),
    ] {
        assert_eq!(client.say(&mut server, line), answer, "{line}");
    }
    assert_eq!(server.position, 0, "nothing is ordered before EXEC");
    assert_eq!(
        client.say(&mut server, "EXEC"),
        "*5 +OK +PONG -WRONGTYPE SYN-3004 Operation against a key holding the wrong kind of value :2 $4 last"
    );
    assert_eq!(server.position, 1, "one operation");
    for (line, answer) in [
        ("MULTI", "+OK"),
        ("SET k 9", "+QUEUED"),
        ("DISCARD", "+OK"),
        ("GET k", "$1 2"),
        ("MULTI", "+OK"),
        ("NOPE", "-ERR SYN-3003 unknown command 'NOPE', with args beginning with:"),
        ("SET k 9", "+QUEUED"),
        ("EXEC", "-EXECABORT SYN-3001 Transaction discarded because of previous errors."),
        ("MULTI", "+OK"),
        ("GET", "-ERR SYN-3001 wrong number of arguments for 'get' command"),
        ("EXEC", "-EXECABORT SYN-3001 Transaction discarded because of previous errors."),
        ("MULTI", "+OK"),
        ("HELLO 3", "-ERR SYN-3003 Command not allowed inside a transaction"),
        ("EXEC", "-EXECABORT SYN-3001 Transaction discarded because of previous errors."),
        ("MULTI", "+OK"),
        ("PING", "+QUEUED"),
        ("EXEC", "*1 +PONG"),
        ("MULTI", "+OK"),
        ("EXEC", "*0"),
        ("GET k", "$1 2"),
    ] {
        assert_eq!(client.say(&mut server, line), answer, "{line}");
    }
    assert_eq!(server.position, 1, "transactions without data are answered here");
}

#[test]
fn watched_keys_decide_whether_a_transaction_happens() {
    let mut server = Server::new();
    let (mut one, mut two) = (Client::new(settings()), Client::new(settings()));
    let transact =
        |client: &mut Client, server: &mut Server| client.exchange(server, b"MULTI\r\nINCR k\r\nEXEC\r\n");
    for (between, happens) in [("GET k", true), ("SET k 5", false), ("DEL k", false), ("SET other 1", true)] {
        one.say(&mut server, "SET k 1");
        assert_eq!(one.say(&mut server, "WATCH k none"), "+OK");
        two.say(&mut server, between);
        let answer = shown(&transact(&mut one, &mut server));
        assert_eq!(answer == "+OK +QUEUED *1 :2", happens, "{between}: {answer}");
        assert!(happens || answer == "+OK +QUEUED *-1", "{between}: {answer}");
    }
    for release in ["UNWATCH", "DISCARD", "EXEC", "RESET"] {
        one.say(&mut server, "SET k 1");
        one.say(&mut server, "WATCH k");
        if release != "UNWATCH" {
            one.say(&mut server, "MULTI");
        }
        two.say(&mut server, "SET k 1");
        one.say(&mut server, release);
        assert_eq!(shown(&transact(&mut one, &mut server)), "+OK +QUEUED *1 :2", "after {release}");
    }
    one.say(&mut server, "WATCH k");
    one.say(&mut server, "SET k 3");
    one.say(&mut server, "WATCH k");
    assert_eq!(shown(&transact(&mut one, &mut server)), "+OK +QUEUED *-1", "the first version counts");
}

#[test]
fn a_whole_optimistic_update_may_be_one_burst() {
    let (mut server, mut client) = (Server::new(), Client::new(settings()));
    let burst = b"SET k 1\r\nWATCH k\r\nGET k\r\nMULTI\r\nINCR k\r\nEXEC\r\nGET k\r\n";
    assert_eq!(shown(&client.exchange(&mut server, burst)), "+OK +OK $1 1 +OK +QUEUED *1 :2 $1 2");
}

#[test]
fn redis_benchmark_finds_every_command_it_uses() {
    let (mut server, mut client) = (Server::new(), Client::new(settings()));
    for (words, answer) in [
        ("CONFIG GET save", "*2 $4 save $0"),
        ("CONFIG GET appendonly", "*2 $10 appendonly $3 yes"),
        ("PING", "+PONG"),
        ("SET key:__rand_int__ xxx", "+OK"),
        ("GET key:__rand_int__", "$3 xxx"),
        ("INCR counter:__rand_int__", ":1"),
        ("LPUSH mylist xxx", ":1"),
        ("RPUSH mylist xxx", ":2"),
        ("LPOP mylist", "$3 xxx"),
        ("RPOP mylist", "$3 xxx"),
        ("SADD myset element:__rand_int__", ":1"),
        ("HSET myhash element:__rand_int__ xxx", ":1"),
        ("SPOP myset", "$20 element:__rand_int__"),
        ("ZADD myzset 0 element:__rand_int__", ":1"),
        ("ZPOPMIN myzset", "*2 $20 element:__rand_int__ $1 0"),
        ("LPUSH mylist xxx", ":1"),
        ("LRANGE mylist 0 99", "*1 $3 xxx"),
        ("LRANGE mylist 0 599", "*1 $3 xxx"),
        ("MSET a x b x c x d x e x f x g x h x i x j x", "+OK"),
    ] {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        assert_eq!(shown(&client.exchange(&mut server, &multibulk(&words))), answer);
    }
    assert_eq!(client.exchange(&mut server, b"PING\r\n"), b"+PONG\r\n");
}
