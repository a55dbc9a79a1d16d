//! `synod demo pay`: institutions as processes, customers, a kill, a double spend, a receipt, an audit.

use super::{Arguments, failed, line, quoted};
use crate::bench::{ProcessPlan, pay_start};
use crate::demo::pay::{NODES, PayShown, play};
use crate::demo::{Scene, millis};
use crate::exit::Done;
use crate::output::progress;
use crate::session::{Session, usage};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use synod_config::{BASE_PORT, Exit, SynError, code};

/// Customers, and payments of theirs.
const ACCOUNTS: u32 = 100;
const PAYMENTS: u64 = 10_000;

impl Arguments {
    pub(super) fn pay(&self, session: &Session) -> Done {
        if self.nodes.is_some_and(|nodes| nodes != u16::from(NODES)) {
            return Err(usage(&format!("the demo pay has {NODES} institutions")).because("leave --nodes out"));
        }
        if self.base_port != BASE_PORT && self.base_port != 0 {
            return Err(usage("the demo pay draws its ports"));
        }
        let plan = ProcessPlan {
            nodes: NODES,
            accounts: ACCOUNTS,
            payments: PAYMENTS,
            chunk: 250,
            requests: 2,
            faults: Vec::new(),
            sync: "group",
            durability: "fsync",
            out: None,
            planted: false,
        };
        let begun = Instant::now();
        // From here on a signal ends the processes and this one, and nothing is left behind.
        let mut cluster = pay_start(&plan, "demo-pay")?;
        let ready = begun.elapsed();
        if let Some(file) = &self.ports_file {
            crate::deployment::describe_ports(cluster.directory())?.write(file)?;
        }
        let json = session.output.is_json();
        let told = |text: &str| {
            if !json {
                progress(text);
            }
        };
        told(&format!(
            "astro II-F, {NODES} institutions, f = {}, ready in {} ms",
            cluster.genesis.f(),
            millis(ready)
        ));
        let shown = play(&plan, &mut cluster, ready, &mut |scene: &Scene| told(&line(scene)))?;
        if json {
            println!("{}", result(&shown, (ready, begun.elapsed())));
        }
        if !shown.audit.ok() || shown.scenes.iter().any(|scene| !scene.ok) {
            return Err(SynError::of(code::AUDIT_FAILED, &[]).because(failed(&shown.scenes)));
        }
        if self.stays() {
            let genesis = cluster.directory().join(crate::layout::GENESIS_FILE);
            let (receipt, genesis) =
                (quoted(&shown.receipt.display().to_string()), quoted(&genesis.display().to_string()));
            if let Ok(synod) = std::env::current_exe() {
                let synod = quoted(&synod.display().to_string());
                progress(&format!("  {synod} client verify {receipt} --genesis {genesis}"));
            }
            progress("the cluster stays up; Ctrl-C ends it");
            loop {
                std::thread::park();
            }
        }
        Ok(Exit::Success)
    }
}

fn result(shown: &PayShown, times: (Duration, Duration)) -> Value {
    json!({
        "schema": "synod-demo/1",
        "ready_ms": millis(times.0),
        "total_ms": millis(times.1),
        "scenes": shown.scenes.iter().map(Scene::to_json).collect::<Vec<_>>(),
        "audit": shown.audit.to_json(),
        "nodes": NODES,
        "commit": env!("SYNOD_BUILD_COMMIT"),
    })
}
