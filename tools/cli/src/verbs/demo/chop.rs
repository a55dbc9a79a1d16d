//! `synod demo chop`: servers and brokers as processes, a crowd, people, two kills, an audit.

use super::{Arguments, failed, line, quoted};
use crate::demo::chop::{ChopCluster, SERVERS, Shown, play};
use crate::demo::{Scene, millis};
use crate::exit::{Done, bug};
use crate::output::progress;
use crate::session::{Session, usage};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use synod_config::{BASE_PORT, Exit, SynError, code};

impl Arguments {
    pub(super) fn chop(self, session: &Session) -> Done {
        if self.nodes.is_some_and(|nodes| nodes != SERVERS) {
            return Err(usage(&format!("the demo chop has {SERVERS} servers")).because("leave --nodes out"));
        }
        if self.base_port != BASE_PORT && self.base_port != 0 {
            return Err(usage("the demo chop draws its ports").because("--ports-file says which they are"));
        }
        if self.painters % 2 == 1 {
            return Err(usage("half of the painters are at each broker: --painters is even"));
        }
        let begun = Instant::now();
        // From here on a signal ends the processes and this one, and nothing is left behind.
        let mut cluster = ChopCluster::start(self.painters)?;
        let ready = begun.elapsed();
        if let Some(file) = &self.ports_file {
            cluster.ports.write(file)?;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| bug("runtime", &error))?.block_on(self.scenes(
            session,
            &mut cluster,
            (begun, ready),
        ))
    }

    async fn scenes(
        &self,
        session: &Session,
        cluster: &mut ChopCluster,
        (begun, ready): (Instant, Duration),
    ) -> Done {
        let json = session.output.is_json();
        let told = |text: &str| {
            if !json {
                progress(text);
            }
        };
        told(&format!(
            "chopchop over hotstuff, {SERVERS} servers, f = {}, ready in {} ms",
            cluster.genesis().f(),
            millis(ready)
        ));
        let context = cluster.context(&format!("demo-{}", std::process::id()));
        let mut show = |scene: &Scene| told(&line(scene));
        let shown = play(cluster, &context, ready, &mut show).await?;
        if json {
            println!("{}", result(&shown, (ready, begun.elapsed())));
        }
        if !shown.audit.ok() || shown.scenes.iter().any(|scene| !scene.ok) {
            return Err(SynError::of(code::AUDIT_FAILED, &[]).because(failed(&shown.scenes)));
        }
        if self.stays() {
            let name = context.name.clone();
            crate::context::select(context)?;
            progress(
                "paste into another shell; receipts and answers of f + 1 servers are checked, not believed:",
            );
            for line in pasted(&cluster.directory(), &shown.receipt, &name) {
                progress(&format!("  {line}"));
            }
            progress("the cluster stays up; Ctrl-C ends it");
            std::future::pending::<()>().await;
        }
        Ok(Exit::Success)
    }
}

/// Lines that work as long as the demo runs.
fn pasted(directory: &Path, receipt: &Path, context: &str) -> Vec<String> {
    let Ok(synod) = std::env::current_exe() else { return Vec::new() };
    let shown = |path: &Path| quoted(&path.display().to_string());
    let (synod, home) = (shown(&synod), shown(&directory.join("people/you")));
    let board = shown(&directory.join("board.png"));
    vec![
        format!("{synod} status"),
        format!("{synod} broker status"),
        format!("{synod} client signup {context} --home {home}"),
        format!("{synod} pixel paint 1500 1500 ff8800 --home {home}"),
        format!("{synod} pixel show 1500 1500"),
        format!("{synod} pixel board --png {board}"),
        format!("{synod} client verify {}", shown(receipt)),
    ]
}

fn result(shown: &Shown, times: (Duration, Duration)) -> Value {
    json!({
        "schema": "synod-demo/1",
        "ready_ms": millis(times.0),
        "total_ms": millis(times.1),
        "rss_peak_bytes": shown.memory,
        "scenes": shown.scenes.iter().map(Scene::to_json).collect::<Vec<_>>(),
        "audit": shown.audit.to_json(),
        "chop": shown.figures,
        "nodes": SERVERS,
        "commit": env!("SYNOD_BUILD_COMMIT"),
    })
}
