//! Memcached.

use crate::link::{Folder, Link};
use crate::run::{Asked, Drive, same};
use std::path::Path;
use std::process::Command;
use synod_memcached_adapter::{Adapter, Ask, Config, Reply, Server};
use synod_wire::{Bytes, Drawn};

struct Socket(Link);

impl Server for Socket {
    fn ask(&self, commands: &[Ask]) -> Vec<Reply> {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| command.encode().to_vec()).collect();
        self.0.exchange(&bytes, commands.len(), |at, held| match commands.get(at)?.read(held) {
            Ok(reply) => reply,
            Err(_) => {
                eprintln!("servers: Memcached sent what is no reply");
                std::process::abort();
            }
        })
    }
}

fn start(folder: &Path, name: &str) -> anyhow::Result<Adapter<Socket>> {
    let socket = folder.join(name);
    let mut command = Command::new("memcached");
    command.args(["-t", "1", "-M", "-m", "1024", "-u", "root", "-s"]).arg(&socket);
    command.args(["-o", "no_lru_crawler,no_lru_maintainer,no_slab_reassign,slab_automove=0"]);
    Ok(Adapter::new(Config::default(), Socket(Link::start(&mut command, &socket)?)))
}

pub(crate) fn run(slots: u64, seed: u64) -> anyhow::Result<()> {
    let folder = Folder::new("memcached")?;
    let apps = [start(&folder.0, "a")?, start(&folder.0, "b")?, start(&folder.0, "c")?];
    let is_error =
        |reply: &[u8]| reply.starts_with(b"ERROR") || reply.windows(6).any(|part| part == b"_ERROR");
    same(apps, &Drive { draw: command, is_error }, slots, seed)
}

/// 16-byte keys and values of 32 bytes or as long as drawn; a third are reads.
fn command(draw: &mut Drawn, time: u64) -> Asked {
    let forms = [
        "get K K K",
        "get K",
        "gets K K",
        "gat T K",
        "gats T K",
        "set K F 0 L",
        "set K F T L",
        "set K F 0 L",
        "add K F T L",
        "replace K F 0 L",
        "append K 0 0 L",
        "prepend K 0 0 L",
        "cas K F 0 L C",
        "delete K",
        "incr N 7",
        "decr N 99",
        "set N 0 0 D",
        "touch K T",
        "flush_all",
        "flush_all T",
        "version",
        "stats",
    ];
    let mut form = forms[usize::try_from(draw.below(forms.len() as u64)).unwrap_or(0)];
    if form.starts_with("flush_all") && draw.below(40) > 0 {
        form = "get K K K";
    }
    let length = if draw.below(8) == 0 { draw.below(5_000) } else { 32 };
    let value: String =
        (0..length).map(|_| char::from(b'a' + u8::try_from(draw.below(26)).unwrap_or(0))).collect();
    let digits = draw.below(1_000).to_string();
    let words: Vec<String> = form
        .split(' ')
        .map(|word| match word {
            "K" => format!("key:{:012}", draw.below(200)),
            "N" => format!("num:{:012}", draw.below(8)),
            "F" => draw.below(1 << 32).to_string(),
            "L" => length.to_string(),
            "D" => digits.len().to_string(),
            "C" => draw.below(4_000).to_string(),
            "T" if draw.below(4) == 0 => (time / 1_000 + draw.below(20)).to_string(),
            "T" => (i64::try_from(draw.below(12)).unwrap_or(0) - 1).to_string(),
            other => other.to_owned(),
        })
        .collect();
    let data = match form.split(' ').find(|word| matches!(*word, "L" | "D")) {
        Some("L") => format!("{value}\r\n"),
        Some(_) => format!("{digits}\r\n"),
        None => String::new(),
    };
    let name = words.first().cloned().unwrap_or_default();
    Asked { name, body: Bytes::from(format!("{}\r\n{data}", words.join(" ")).into_bytes()) }
}
