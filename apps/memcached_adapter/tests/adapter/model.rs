//! A small server without times and ids.

use std::cell::RefCell;
use std::collections::BTreeMap;

use synod_memcached_adapter::{Ask, Reply, Server};
use synod_wire::Bytes;

#[derive(Debug, Default)]
pub(crate) struct Model {
    items: RefCell<BTreeMap<Bytes, (u32, Vec<u8>)>>,
    heard: RefCell<Vec<Ask>>,
}

impl Model {
    /// What arrived since this was asked last.
    pub(crate) fn heard(&self) -> Vec<Ask> {
        std::mem::take(&mut self.heard.borrow_mut())
    }

    /// Loses a key, as a server that evicts does.
    pub(crate) fn lose(&self, key: &'static str) {
        self.items.borrow_mut().remove(key.as_bytes());
    }
}

fn line(text: impl Into<String>) -> Reply {
    Reply::Line(Bytes::from(text.into().into_bytes()))
}

impl Server for Model {
    fn ask(&self, commands: &[Ask]) -> Vec<Reply> {
        self.heard.borrow_mut().extend(commands.iter().cloned());
        let mut items = self.items.borrow_mut();
        commands.iter().map(|ask| perform(&mut items, ask)).collect()
    }
}

fn perform(items: &mut BTreeMap<Bytes, (u32, Vec<u8>)>, ask: &Ask) -> Reply {
    match ask {
        Ask::Get(key) => Reply::Value(items.get(key).map(|(flags, data)| (*flags, data.clone().into()))),
        Ask::Set { key, flags, data } => {
            items.insert(key.clone(), (*flags, data.to_vec()));
            line("STORED")
        }
        Ask::Append(key, data) | Ask::Prepend(key, data) => match items.get_mut(key) {
            None => line("NOT_STORED"),
            Some((_, value)) => {
                let parts =
                    if matches!(ask, Ask::Append(..)) { [&value[..], data] } else { [data, &value[..]] };
                *value = parts.concat();
                line("STORED")
            }
        },
        Ask::Delete(key) => line(if items.remove(key).is_some() { "DELETED" } else { "NOT_FOUND" }),
        Ask::Up(key, by) | Ask::Down(key, by) => {
            let Some((_, value)) = items.get_mut(key) else { return line("NOT_FOUND") };
            let text = String::from_utf8_lossy(value).trim_end().to_owned();
            let Ok(number) = text.parse::<u64>() else {
                return line("CLIENT_ERROR cannot increment or decrement non-numeric value");
            };
            let up = matches!(ask, Ask::Up(..));
            let next = if up { number.wrapping_add(*by) } else { number.saturating_sub(*by) };
            let shown = next.to_string();
            // A shorter number leaves blanks behind it.
            *value = format!("{shown:<width$}", width = value.len()).into_bytes();
            line(shown)
        }
        Ask::FlushAll => {
            items.clear();
            line("OK")
        }
    }
}
