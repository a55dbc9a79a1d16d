//! What COMMAND answers: the data commands of the store and the commands of the connection.

use bytes::Bytes;
use synod_kv::{Access, COMMANDS, Keys, Reply};

use crate::resp::local::LOCALS;

/// One row, from either table.
struct Row {
    name: &'static str,
    arity: i8,
    flags: &'static [&'static str],
    keys: Keys,
}

fn rows() -> impl Iterator<Item = Row> {
    let data = COMMANDS.iter().map(|command| Row {
        name: command.name,
        arity: command.arity,
        flags: match command.access {
            Access::Read => &["readonly"],
            Access::Write => &["write"],
            Access::Grow => &["write", "denyoom"],
        },
        keys: command.keys,
    });
    let local = LOCALS.iter().map(|local| Row {
        name: local.name,
        arity: local.arity,
        flags: &["loading", "stale", "fast"],
        keys: local.keys,
    });
    data.chain(local)
}

/// A string as a reply.
pub(crate) fn bulk(text: impl AsRef<[u8]>) -> Reply {
    Reply::Bulk(Bytes::copy_from_slice(text.as_ref()))
}

fn describe(row: &Row) -> Reply {
    let position = |value: i8| Reply::Integer(i64::from(value));
    let flags = row.flags.iter().map(|flag| Reply::Simple(Bytes::from_static(flag.as_bytes())));
    Reply::Array(vec![
        bulk(row.name),
        position(row.arity),
        Reply::Set(flags.collect()),
        position(row.keys.first),
        position(row.keys.last),
        position(row.keys.step),
        Reply::Set(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
    ])
}

/// COMMAND: every row.
pub(crate) fn all() -> Reply {
    Reply::Array(rows().map(|row| describe(&row)).collect())
}

/// COMMAND COUNT.
pub(crate) fn count() -> Reply {
    Reply::Integer(i64::try_from(rows().count()).unwrap_or(i64::MAX))
}

/// COMMAND LIST.
pub(crate) fn names() -> Reply {
    Reply::Array(rows().map(|row| bulk(row.name)).collect())
}

/// COMMAND INFO: the rows of names, null for an unknown one; all rows without names.
pub(crate) fn some<'a>(names: impl ExactSizeIterator<Item = &'a [u8]>) -> Reply {
    if names.len() == 0 {
        return all();
    }
    let row = |name: &[u8]| rows().find(|row| row.name.as_bytes().eq_ignore_ascii_case(name));
    Reply::Array(names.map(|name| row(name).map_or(Reply::NullArray, |row| describe(&row))).collect())
}
