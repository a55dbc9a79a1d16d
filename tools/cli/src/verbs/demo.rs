//! `synod demo`: one command to see it work.

mod chop;
mod pay;
mod ubft;

use crate::bench::Audit;
use crate::demo::{Cluster, Scene, millis, play};
use crate::exit::{Done, bug};
use crate::output::progress;
use crate::session::{Session, usage as wrong};
use crate::signals::Signals;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use synod_config::{Address, BASE_PORT, Context, Exit, SynError, code};
use synod_load::usage;

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Four members in this process order the writes of a Redis client over TLS; one lies, the leader is stopped, and
    /// nothing is lost.
    #[default]
    Hotstuff,
    /// Four servers and two brokers as processes; a crowd paints under few signatures, people sign up and paint beside it,
    /// a broker and the leading server are killed, receipts are checked with the genesis alone.
    Chop,
    /// Four institutions as processes; customers pay each other, one institution is killed, money is spent twice, a receipt is checked
    /// with the genesis alone, and all books are equal.
    Pay,
    /// Three replicas and three memory nodes as processes; a memory node, a follower and the leader are killed and come back without
    /// their memory, no write is lost, and all replicas have one state.
    Ubft,
}

/// Starts a cluster, breaks it, and audits that nothing was lost.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod demo --headless --base-port 0")]
pub(crate) struct Arguments {
    /// What is shown.
    #[arg(value_enum, default_value_t)]
    which: Which,
    /// Number of members of the demo hotstuff, 4 if nothing is said; 3f + 1 of them tolerate f faulty ones. The other demos have numbers of their own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(3..=31))]
    nodes: Option<u16>,
    /// Clients of the crowd that paints in the demo chop, 8 pixels each; even.
    #[arg(long, value_name = "N", default_value_t = 8_192, value_parser = clap::value_parser!(u32).range(256..=65_536))]
    painters: u32,
    /// Ends after the scenes, also on a terminal.
    #[arg(long, conflicts_with = "hold")]
    headless: bool,
    /// Stays up after the scenes, also without a terminal.
    #[arg(long)]
    hold: bool,
    /// First port; member i takes ten ports from here + 10 i on, the proxy those behind the members. Where one is
    /// taken, the next free place; 0 draws a place, as the demos chop, pay and ubft always do.
    #[arg(long, value_name = "PORT", default_value_t = BASE_PORT)]
    base_port: u16,
    /// Writes the ports of the members to this file as well.
    #[arg(long, value_name = "FILE")]
    ports_file: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        match self.which {
            Which::Chop => return self.chop(session),
            Which::Pay => return self.pay(session),
            Which::Ubft => return self.ubft(session),
            Which::Hotstuff => {}
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| bug("runtime", &error))?.block_on(self.demo(session))
    }

    async fn demo(self, session: &Session) -> Done {
        let begun = Instant::now();
        let mut signals = Signals::listen()?;
        let nodes = self.nodes.unwrap_or(4);
        if nodes < 4 {
            return Err(wrong("the demo hotstuff has 4 members or more"));
        }
        let mut cluster = Cluster::start(nodes, self.base_port).await?;
        let name = select(&cluster)?;
        let done = tokio::select! {
            done = self.show(session, &mut cluster, begun) => done,
            exit = signals.next() => Ok(exit),
        };
        crate::context::remove(&name)?;
        cluster.end().await?;
        done
    }

    /// Whether the cluster stays up after the scenes.
    fn stays(&self) -> bool {
        self.hold || (!self.headless && std::io::stdout().is_terminal())
    }

    /// Ready, banner, scenes, result; then stays, if asked to, until it is dropped.
    async fn show(&self, session: &Session, cluster: &mut Cluster, begun: Instant) -> Done {
        let first = crate::bench::audit_mark(&cluster.client).await;
        first.ok_or_else(|| SynError::of(code::NO_QUORUM, &[("names", "the demo's members")]))?;
        let ready = begun.elapsed();
        if let Some(file) = &self.ports_file {
            cluster.ports.write(file)?;
        }
        let json = session.output.is_json();
        if !json {
            banner(cluster, ready);
        }
        let mut show = |scene: &Scene| {
            if !json {
                progress(&line(scene));
            }
        };
        let (scenes, audit) = play(cluster, ready, &mut show).await?;
        let result = result(cluster, &scenes, &audit, (ready, begun.elapsed()));
        if json {
            println!("{result}");
        }
        if !audit.ok() || scenes.iter().any(|scene| !scene.ok) {
            return Err(SynError::of(code::AUDIT_FAILED, &[]).because(failed(&scenes)));
        }
        if self.stays() {
            progress("the cluster stays up; Ctrl-C ends it");
            std::future::pending::<()>().await;
        }
        Ok(Exit::Success)
    }
}

fn failed(scenes: &[Scene]) -> String {
    let names: Vec<&str> = scenes.iter().filter(|scene| !scene.ok).map(|scene| scene.name).collect();
    format!("scenes that did not pass: {}", names.join(", "))
}

fn line(scene: &Scene) -> String {
    let mark = if scene.ok { "ok  " } else { "FAIL" };
    format!("{mark} {:<8} {:>6} ms  {}", scene.name, millis(scene.took), scene.note)
}

/// A context for a second shell, which goes with the demo.
fn select(cluster: &Cluster) -> Result<String, SynError> {
    let name = format!("demo-{}", std::process::id());
    let addresses = crate::context::client_addresses(&cluster.genesis);
    let addresses = addresses.iter().filter_map(|(_, text)| Address::parse(text)).collect();
    crate::context::select(Context {
        name: name.clone(),
        genesis: cluster.directory.join(crate::layout::GENESIS_FILE),
        addresses,
        directory: Some(cluster.directory.clone()),
        resp: Some(Address::loopback(cluster.proxy.port())),
        http: Some(Address::loopback(cluster.proxy_http.port())),
        member: None,
        token_file: None,
        managed: false,
    })?;
    Ok(name)
}

/// What the cluster is, then lines that work when pasted into another shell, as long as the demo runs: they go to the
/// proxy, which outlives every member. A line whose program is not there is not shown.
fn banner(cluster: &Cluster, ready: Duration) {
    progress(&format!(
        "hotstuff chain2+order, {} members, f = {}, ready in {} ms",
        cluster.size(),
        cluster.genesis.f(),
        millis(ready)
    ));
    progress("paste into another shell; each goes through a proxy or a client that believes nobody:");
    for line in pasted(cluster) {
        progress(&format!("  {line}"));
    }
}

fn pasted(cluster: &Cluster) -> Vec<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    let mut lines = Vec::new();
    if program("redis-cli") {
        let port = cluster.proxy.port();
        lines.push(format!("redis-cli -p {port} set greeting hello"));
        lines.push(format!("redis-cli -p {port} get greeting"));
    }
    if program("curl") {
        let at = format!("http://{}/v1/kv/greeting", cluster.proxy_http);
        lines.push(format!("curl -sS --fail-with-body -X PUT --data '{{\"value\":\"hello\"}}' {at}"));
        lines.push(format!("curl -sS --fail-with-body {at}"));
    }
    if let Ok(synod) = std::env::current_exe() {
        let synod = quoted(&synod.display().to_string());
        for verb in ["kv put greeting hello", "kv get greeting", "status"] {
            lines.push(format!("{synod} {verb}"));
        }
    }
    lines
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

fn result(cluster: &Cluster, scenes: &[Scene], audit: &Audit, times: (Duration, Duration)) -> Value {
    let rss = usage(std::process::id()).map_or(0, |used| used.rss_peak_bytes);
    json!({
        "schema": "synod-demo/1",
        "ready_ms": millis(times.0),
        "total_ms": millis(times.1),
        "rss_peak_bytes": rss,
        "scenes": scenes.iter().map(Scene::to_json).collect::<Vec<_>>(),
        "audit": audit.to_json(),
        "ports": { "proxy_resp": cluster.proxy.port(), "proxy_http": cluster.proxy_http.port() },
        "nodes": cluster.size(),
        "commit": env!("SYNOD_BUILD_COMMIT"),
    })
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_program_is_one_word_of_the_shell() {
        assert_eq!(quoted("/usr/bin/synod"), "/usr/bin/synod");
        assert_eq!(quoted("/a b/it's"), "'/a b/it'\\''s'");
    }
}
