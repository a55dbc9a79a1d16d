//! Serves the key-value store over RESP and HTTP without replication: what the gateway alone can do.
//!
//! `cargo run --release -p synod-gateway --example standalone -- [RESP-PORT [HTTP-PORT]]`, then for example
//! `redis-benchmark -p PORT -t set,get -n 1000000 -c 50 -P 16`. Port 0, the default, lets the system choose.

#[path = "../tests/solo/mod.rs"]
mod solo;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use synod_config::{Address, Limits, SynError};
use synod_gateway::{HttpServer, HttpSettings, RespServer, RespSettings, Shared, Stopper};
use synod_host::Mode;
use tokio::time::{Duration, interval};

const LIMITS: Limits = Limits {
    frame_max: 16 << 20,
    inflight_per_client: 64,
    clients_max: 1_024,
    mempool_bytes: 64 << 20,
    jobs_max: 1_024,
    request_max: 768 << 10,
    gateway_bytes: 128 << 20,
};

fn port(at: usize) -> Address {
    Address::loopback(std::env::args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(0))
}

async fn serve() -> Result<(), SynError> {
    let store = solo::Solo::quiet();
    let (stopper, stop) = Stopper::new();
    let shared = Shared::new(Arc::clone(&store) as Arc<dyn synod_host::Backend>, &LIMITS, stop);
    let settings = RespSettings { reads: Mode::Local, ..RespSettings::default() };
    let resp = RespServer::bind(&port(1), settings, shared.clone()).await?;
    let settings = HttpSettings { reads: Mode::Local, ..HttpSettings::default() };
    let http = HttpServer::bind(&port(2), settings, shared).await?;
    println!("resp {}", resp.local());
    println!("http {}", http.local());
    let clock = async {
        let mut tick = interval(Duration::from_millis(10));
        loop {
            tick.tick().await;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            store.set_time_ms(u64::try_from(now).unwrap_or(u64::MAX));
        }
    };
    let interrupted = async {
        if tokio::signal::ctrl_c().await.is_ok() {
            stopper.stop();
        }
    };
    tokio::select! {
        () = clock => {}
        _ = async { tokio::join!(resp.run(), http.run(), interrupted) } => {}
    }
    Ok(())
}

fn main() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    if let Err(error) = runtime.block_on(serve()) {
        eprint!("{}", error.to_text());
        std::process::exit(i32::from(error.exit_code().number()));
    }
}
