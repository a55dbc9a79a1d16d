//! Commands that the connection answers itself: they touch no data.

use bytes::Bytes;
use synod_crypto::Hash;
use synod_kv::{Keys, Reply};

use crate::resp::{
    catalogue::{self, bulk},
    exchange::{Now, Settings, Store, Trust},
    parser::Arguments,
    render::Protocol,
};

/// A command of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Local {
    Ping,
    Echo,
    Hello,
    Auth,
    Select,
    Quit,
    Reset,
    Client,
    Command,
    Config,
    Info,
    Time,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
}

/// Its row: name in lower case, and arity as Redis counts it.
#[derive(Debug)]
pub(crate) struct LocalCommand {
    pub(crate) local: Local,
    pub(crate) name: &'static str,
    pub(crate) arity: i8,
    pub(crate) keys: Keys,
}

const fn row(local: Local, name: &'static str, arity: i8) -> LocalCommand {
    LocalCommand { local, name, arity, keys: Keys { first: 0, last: 0, step: 0 } }
}

/// Every command of the connection.
pub(crate) const LOCALS: &[LocalCommand] = &[
    row(Local::Ping, "ping", -1),
    row(Local::Echo, "echo", 2),
    row(Local::Hello, "hello", -1),
    row(Local::Auth, "auth", -2),
    row(Local::Select, "select", 2),
    row(Local::Quit, "quit", -1),
    row(Local::Reset, "reset", 1),
    row(Local::Client, "client", -2),
    row(Local::Command, "command", -1),
    row(Local::Config, "config", -2),
    row(Local::Info, "info", -1),
    row(Local::Time, "time", 1),
    row(Local::Multi, "multi", 1),
    row(Local::Exec, "exec", 1),
    row(Local::Discard, "discard", 1),
    LocalCommand {
        local: Local::Watch,
        name: "watch",
        arity: -2,
        keys: Keys { first: 1, last: -1, step: 1 },
    },
    row(Local::Unwatch, "unwatch", 1),
];

/// Longest client name or option value, in bytes.
const NAME_BYTES_MAX: usize = 256;

impl LocalCommand {
    /// Finds a command by its name in any case.
    pub(crate) fn find(name: &[u8]) -> Option<&'static Self> {
        LOCALS.iter().find(|local| local.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Whether `count` elements, the name included, fit.
    pub(crate) fn fits(&self, count: usize) -> bool {
        let wanted = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { count >= wanted } else { count == wanted }
    }
}

/// What a client said about itself.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) protocol: Protocol,
    pub(crate) authenticated: bool,
    name: Vec<u8>,
}

/// An error reply.
pub(crate) fn error(text: impl Into<Bytes>) -> Reply {
    Reply::Error(text.into())
}

/// A status reply.
pub(crate) fn status(text: &'static str) -> Reply {
    Reply::Simple(Bytes::from_static(text.as_bytes()))
}

/// Client text as it may stand in an error: no line ends, at most 128 bytes.
pub(crate) fn shown(text: &[u8]) -> String {
    let text = text.get(..128).unwrap_or(text);
    String::from_utf8_lossy(text).replace(['\r', '\n'], " ")
}

fn unknown_subcommand(command: &str, given: &[u8]) -> Reply {
    error(format!("ERR SYN-3003 unknown subcommand '{}'. Try {command} HELP.", shown(given)))
}

impl Session {
    pub(crate) fn new(id: u64, settings: &Settings) -> Self {
        Self { id, protocol: Protocol::Two, authenticated: settings.password.is_none(), name: Vec::new() }
    }

    /// PING
    pub(crate) fn ping(arguments: &Arguments<'_>) -> Reply {
        match arguments.len() {
            1 => status("PONG"),
            2 => bulk(arguments.at(1)),
            _ => error("ERR SYN-3001 wrong number of arguments for 'ping' command"),
        }
    }

    /// TIME, by the clock of this gateway.
    pub(crate) fn time(now: Now) -> Reply {
        let (seconds, micros) = (now.wall_us / 1_000_000, now.wall_us % 1_000_000);
        Reply::Array(vec![bulk(seconds.to_string()), bulk(micros.to_string())])
    }

    /// SELECT: there is one database, number 0.
    pub(crate) fn select(arguments: &Arguments<'_>) -> Reply {
        match synod_kv::number::parse(arguments.at(1)) {
            Some(0) => status("OK"),
            Some(_) => error("ERR SYN-3003 DB index is out of range"),
            None => error("ERR SYN-3001 value is not an integer or out of range"),
        }
    }

    /// AUTH [user] password
    pub(crate) fn auth(&mut self, arguments: &Arguments<'_>, settings: &Settings) -> Reply {
        let (user, password) = match arguments.len() {
            2 => (&b"default"[..], arguments.at(1)),
            3 => (arguments.at(1), arguments.at(2)),
            _ => return error("ERR SYN-3001 syntax error"),
        };
        if settings.password.is_none() && arguments.len() == 2 {
            return error(
                "ERR SYN-3001 AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            );
        }
        if self.login(user, password, settings) {
            status("OK")
        } else {
            error("WRONGPASS SYN-3012 invalid username-password pair or user is disabled.")
        }
    }

    /// Compares digests, so the time taken says nothing about the password.
    fn login(&mut self, user: &[u8], password: &[u8], settings: &Settings) -> bool {
        let right = settings.password.is_none_or(|expected| Hash::of(password) == expected);
        let welcome = right && user == b"default";
        self.authenticated |= welcome;
        welcome
    }

    /// HELLO [version [AUTH user password] [SETNAME name]]
    pub(crate) fn hello(&mut self, arguments: &Arguments<'_>, settings: &Settings) -> Reply {
        let protocol = match arguments.get(1) {
            None => self.protocol,
            Some(b"2") => Protocol::Two,
            Some(b"3") if settings.store == Store::Redis => {
                return error("NOPROTO SYN-3003 replies of a replicated server are RESP2");
            }
            Some(b"3") => Protocol::Three,
            Some(other) if synod_kv::number::parse(other).is_some() => {
                return error("NOPROTO SYN-3003 unsupported protocol version");
            }
            Some(_) => return error("ERR SYN-3001 Protocol version is not an integer or out of range"),
        };
        let mut name = None;
        let mut login = None;
        let mut at = 2;
        while let Some(option) = arguments.get(at) {
            if option.eq_ignore_ascii_case(b"AUTH") && arguments.len() > at + 2 {
                login = Some((arguments.at(at + 1), arguments.at(at + 2)));
                at += 3;
            } else if option.eq_ignore_ascii_case(b"SETNAME") && arguments.len() > at + 1 {
                name = Some(arguments.at(at + 1));
                at += 2;
            } else {
                return error(format!("ERR SYN-3001 Syntax error in HELLO option '{}'", shown(option)));
            }
        }
        if name.is_some_and(|name| !is_name(name)) {
            return bad_name();
        }
        if login.is_some_and(|(user, password)| !self.login(user, password, settings)) {
            return error("WRONGPASS SYN-3012 invalid username-password pair or user is disabled.");
        }
        if !self.authenticated {
            return error(
                "NOAUTH SYN-3011 HELLO must be called with the client already authenticated, otherwise the \
                 HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select \
                 the RESP protocol version at the same time",
            );
        }
        self.protocol = protocol;
        self.name = name.map_or_else(|| core::mem::take(&mut self.name), <[u8]>::to_vec);
        self.greeting()
    }

    fn greeting(&self) -> Reply {
        let id = i64::try_from(self.id).unwrap_or(i64::MAX);
        Reply::Map(vec![
            (bulk("server"), bulk("redis")),
            (bulk("version"), bulk("7.0.0")),
            (bulk("proto"), Reply::Integer(if self.protocol == Protocol::Three { 3 } else { 2 })),
            (bulk("id"), Reply::Integer(id)),
            (bulk("mode"), bulk("standalone")),
            (bulk("role"), bulk("master")),
            (bulk("modules"), Reply::Array(Vec::new())),
        ])
    }

    /// CLIENT SETNAME | GETNAME | ID | INFO | SETINFO
    pub(crate) fn client(&mut self, arguments: &Arguments<'_>) -> Reply {
        match (arguments.at(1).to_ascii_uppercase().as_slice(), arguments.len()) {
            (b"ID", 2) => Reply::Integer(i64::try_from(self.id).unwrap_or(i64::MAX)),
            (b"GETNAME", 2) if self.name.is_empty() => Reply::Null,
            (b"GETNAME", 2) => bulk(&self.name),
            (b"SETNAME", 3) if is_name(arguments.at(2)) => {
                self.name = arguments.at(2).to_vec();
                status("OK")
            }
            (b"SETNAME", 3) => bad_name(),
            (b"SETINFO", 4) if is_name(arguments.at(3)) => status("OK"),
            (b"SETINFO", 4) => bad_name(),
            (b"INFO", 2) => {
                let resp = if self.protocol == Protocol::Three { 3 } else { 2 };
                bulk(format!("id={} name={} db=0 resp={resp}\n", self.id, shown(&self.name)))
            }
            (name @ (b"ID" | b"GETNAME" | b"SETNAME" | b"SETINFO" | b"INFO"), _) => {
                let name = String::from_utf8_lossy(name).to_ascii_lowercase();
                error(format!("ERR SYN-3001 wrong number of arguments for 'client|{name}' command"))
            }
            _ => unknown_subcommand("CLIENT", arguments.at(1)),
        }
    }

    /// Forgets everything that the client said.
    pub(crate) fn reset(&mut self, settings: &Settings) {
        *self = Self::new(self.id, settings);
    }
}

fn is_name(name: &[u8]) -> bool {
    name.len() <= NAME_BYTES_MAX && name.iter().all(u8::is_ascii_graphic)
}

fn bad_name() -> Reply {
    error("ERR SYN-3001 Client names cannot contain spaces, newlines or special characters.")
}

/// COMMAND [COUNT | LIST | INFO names | DOCS names]
pub(crate) fn command(arguments: &Arguments<'_>) -> Reply {
    match arguments.get(1).map(<[u8]>::to_ascii_uppercase).as_deref() {
        None => catalogue::all(),
        Some(b"COUNT") => catalogue::count(),
        Some(b"LIST") => catalogue::names(),
        Some(b"INFO") => catalogue::some(arguments.from(2)),
        // Clients ask for hints; there are none, and an empty map says so.
        Some(b"DOCS") => Reply::Map(Vec::new()),
        Some(_) => unknown_subcommand("COMMAND", arguments.at(1)),
    }
}

/// What CONFIG GET knows: settings that clients look at, with what is true here.
const CONFIG: [(&str, &str); 4] =
    [("appendonly", "yes"), ("databases", "1"), ("proto-max-bulk-len", "524288"), ("save", "")];

/// CONFIG GET names
pub(crate) fn config(arguments: &Arguments<'_>) -> Reply {
    if !arguments.at(1).eq_ignore_ascii_case(b"GET") {
        return unknown_subcommand("CONFIG", arguments.at(1));
    }
    if arguments.len() < 3 {
        return error("ERR SYN-3001 wrong number of arguments for 'config|get' command");
    }
    let asked = |name: &str| {
        arguments.from(2).any(|given| given == b"*" || given.eq_ignore_ascii_case(name.as_bytes()))
    };
    let found = CONFIG.iter().filter(|(name, _)| asked(name));
    Reply::Map(found.map(|(name, value)| (bulk(name), bulk(value))).collect())
}

/// INFO [section]
pub(crate) fn info(arguments: &Arguments<'_>, settings: &Settings) -> Reply {
    let trust = match settings.trust {
        Trust::Gateway => "gateway",
        Trust::Verified => "verified",
    };
    let server =
        format!("# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\ntcp_port:{}\r\n", settings.port);
    let synod = format!("# Synod\r\nsynod_version:{}\r\nsynod_trust:{trust}\r\n", settings.version);
    let wanted = |section: &str| {
        let all = ["all", "everything", "default"];
        arguments.len() == 1
            || arguments.from(1).any(|given| {
                let is = |name: &str| given.eq_ignore_ascii_case(name.as_bytes());
                is(section) || all.into_iter().any(is)
            })
    };
    let sections = [("server", server), ("synod", synod)];
    let shown: Vec<String> =
        sections.into_iter().filter(|(name, _)| wanted(name)).map(|(_, text)| text).collect();
    bulk(shown.join("\r\n"))
}
