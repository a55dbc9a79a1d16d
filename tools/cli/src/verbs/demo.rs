//! `synod demo`: one command to see it work.

use crate::bench::Audit;
use crate::demo::{Cluster, Scene, millis, play};
use crate::exit::{Done, bug};
use crate::output::progress;
use crate::session::Session;
use clap::Args;
use serde_json::{Value, json};
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};
use synod_config::{Address, BASE_PORT, Context, Contexts, Exit, SynError, code};
use synod_load::usage;
use tokio::signal::unix::{SignalKind, signal};

/// Four members in this process order the writes of a Redis client over TLS; one lies, the leader is stopped, and
/// nothing is lost.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod demo --help")]
pub(crate) struct Arguments {
    /// Number of members; 3f + 1 of them tolerate f faulty ones.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(4..=31))]
    nodes: u16,
    /// Ends after the scenes, also on a terminal.
    #[arg(long, conflicts_with = "hold")]
    headless: bool,
    /// Stays up after the scenes, also without a terminal.
    #[arg(long)]
    hold: bool,
    /// First port; member i takes ten ports from here + 10 i on. 0, or ports that are taken, take free ones.
    #[arg(long, value_name = "PORT", default_value_t = BASE_PORT)]
    base_port: u16,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| bug("runtime", &error))?.block_on(self.demo(session))
    }

    async fn demo(self, session: &Session) -> Done {
        let begun = Instant::now();
        let mut interrupted = signal(SignalKind::interrupt()).map_err(|error| bug("signals", &error))?;
        let mut cluster = Cluster::start(self.nodes, self.base_port).await?;
        let first = crate::bench::audit_mark(&cluster.client).await;
        first.ok_or_else(|| SynError::of(code::NO_QUORUM, &[("names", "the demo's members")]))?;
        let ready = begun.elapsed();
        let json = session.output.is_json();
        let name = select(&cluster)?;
        if !json {
            banner(&cluster, ready);
        }
        let mut show = |scene: &Scene| {
            if !json {
                progress(&line(scene));
            }
        };
        let played = tokio::select! {
            played = play(&mut cluster, ready, &mut show) => played,
            _ = interrupted.recv() => { deselect(&name)?; cluster.end().await?; return Ok(Exit::Interrupted) }
        };
        let (scenes, audit) = match played {
            Ok(played) => played,
            Err(error) => {
                deselect(&name)?;
                return Err(error);
            }
        };
        let ok = audit.ok() && scenes.iter().all(|scene| scene.ok);
        let result = result(&cluster, &scenes, &audit, (ready, begun.elapsed()));
        if json {
            println!("{result}");
        }
        let stay = self.hold || (!self.headless && std::io::stdout().is_terminal());
        if stay && ok {
            progress("the cluster stays up; Ctrl-C ends it");
            let _ = interrupted.recv().await;
        }
        deselect(&name)?;
        cluster.end().await?;
        if ok {
            Ok(Exit::Success)
        } else {
            Err(SynError::of(code::AUDIT_FAILED, &[]).because(failed(&scenes)))
        }
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
    let directory = Session::directory()?;
    let mut contexts = Contexts::read(&directory)?;
    let addresses = crate::context::client_addresses(&cluster.genesis);
    let addresses = addresses.iter().filter_map(|(_, text)| Address::parse(text)).collect();
    contexts.add(Context {
        name: name.clone(),
        genesis: cluster.directory.join(crate::layout::GENESIS_FILE),
        addresses,
        directory: Some(cluster.directory.clone()),
        resp: Some(Address::loopback(cluster.proxy.port())),
        http: cluster.http(0).map(|address| Address::loopback(address.port())),
    })?;
    contexts.select(&name)?;
    contexts.write(&directory)?;
    Ok(name)
}

fn deselect(name: &str) -> Result<(), SynError> {
    let directory = Session::directory()?;
    let mut contexts = Contexts::read(&directory)?;
    // Somebody may have removed it meanwhile.
    let _ = contexts.remove(name);
    contexts.write(&directory)
}

/// Lines that work when pasted into a second shell; a line whose program is not there is not shown.
fn banner(cluster: &Cluster, ready: Duration) {
    progress(&format!(
        "hotstuff chain2+order, {} members, f = {}, ready in {} ms",
        cluster.size(),
        cluster.genesis.f(),
        millis(ready)
    ));
    let program = |name: &str| {
        std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()))
    };
    if program("redis-cli") {
        progress(&format!(
            "  redis-cli -p {} set greeting hello     # the proxy: believes nobody",
            cluster.proxy.port()
        ));
        if let Some(gateway) = cluster.resp(0) {
            progress(&format!(
                "  redis-cli -p {} get greeting           # a member's gateway: believes n0",
                gateway.port()
            ));
        }
    }
    if let Some(http) = cluster.http(0).filter(|_| program("curl")) {
        progress(&format!("  curl -s http://{http}/v1/kv/greeting"));
    }
    if let Ok(synod) = std::env::current_exe() {
        progress(&format!("  {} kv put greeting hello", synod.display()));
        progress(&format!("  {} kv get greeting", synod.display()));
    }
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
        "ports": { "proxy_resp": cluster.proxy.port() },
        "nodes": cluster.size(),
        "commit": env!("SYNOD_BUILD_COMMIT"),
    })
}
