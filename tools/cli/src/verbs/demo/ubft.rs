//! `synod demo ubft`: replicas and memory nodes as processes, three kinds of kills, an audit.

use super::{Arguments, failed, line, quoted};
use crate::demo::ubft::{MEMORY, REPLICAS, UbftCluster, UbftShown, play};
use crate::demo::{Scene, millis};
use crate::exit::{Done, bug};
use crate::output::progress;
use crate::session::{Session, usage};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use synod_config::{BASE_PORT, Exit, SynError, code};

impl Arguments {
    pub(super) fn ubft(&self, session: &Session) -> Done {
        if self.nodes.is_some_and(|nodes| nodes != REPLICAS) {
            return Err(usage(&format!("the demo ubft has {REPLICAS} replicas")).because("leave --nodes out"));
        }
        if self.base_port != BASE_PORT && self.base_port != 0 {
            return Err(usage("the demo ubft draws its ports").because("--ports-file says which they are"));
        }
        let begun = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| bug("runtime", &error))?;
        // From here on a signal ends the processes and this one, and nothing is left behind.
        let mut cluster = UbftCluster::start()?;
        let ready = begun.elapsed();
        if let Some(file) = &self.ports_file {
            cluster.ports.write(file)?;
        }
        runtime.block_on(self.ubft_scenes(session, &mut cluster, (begun, ready)))
    }

    async fn ubft_scenes(
        &self,
        session: &Session,
        cluster: &mut UbftCluster,
        (begun, ready): (Instant, Duration),
    ) -> Done {
        let json = session.output.is_json();
        let told = |text: &str| {
            if !json {
                progress(text);
            }
        };
        told(&format!(
            "ubft, {REPLICAS} replicas, f = {}, {MEMORY} memory nodes, links over TLS, ready in {} ms",
            cluster.genesis().f(),
            millis(ready)
        ));
        let context = cluster.context(&format!("demo-{}", std::process::id()));
        let shown = play(cluster, &context, ready, &mut |scene: &Scene| told(&line(scene))).await?;
        if json {
            println!("{}", result(&shown, (ready, begun.elapsed())));
        }
        if !shown.is_sound || shown.scenes.iter().any(|scene| !scene.ok) {
            return Err(SynError::of(code::AUDIT_FAILED, &[]).because(failed(&shown.scenes)));
        }
        if self.stays() {
            crate::context::select(context)?;
            let synod = quoted(&UbftCluster::program()?);
            for verb in ["kv put greeting hello", "kv get greeting", "status"] {
                progress(&format!("  {synod} {verb}"));
            }
            progress("the cluster stays up; Ctrl-C ends it");
            std::future::pending::<()>().await;
        }
        Ok(Exit::Success)
    }
}

fn result(shown: &UbftShown, times: (Duration, Duration)) -> Value {
    json!({
        "schema": "synod-demo/1",
        "ready_ms": millis(times.0),
        "total_ms": millis(times.1),
        "scenes": shown.scenes.iter().map(Scene::to_json).collect::<Vec<_>>(),
        "nodes": REPLICAS,
        "memory_nodes": MEMORY,
        "commit": env!("SYNOD_BUILD_COMMIT"),
    })
}
