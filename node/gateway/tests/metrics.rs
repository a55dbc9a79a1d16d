//! Metrics and health over a socket: what scrapers and supervisors see.

mod solo;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use solo::{
    Solo,
    web::{Http, Reply},
    wire::LIMITS,
};
use synod_config::{Address, METRICS, MetricKind, code};
use synod_gateway::{
    Api, Build, Disk, Distribution, Health, Label, MetricsServer, MetricsSettings, Page, Quorum, Replay,
    Secret, Shared, Sources, Stopper,
};
use synod_host::Backend;

/// A host with two members that states what it is told to.
struct Host(Mutex<Health>);

impl Host {
    fn healthy() -> Health {
        Health { quorum: Quorum { have: 2, need: 2, missing: Vec::new() }, ..Health::default() }
    }

    fn state(&self, health: Health) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = health;
    }
}

impl Sources for Host {
    fn sample(&self, page: &mut Page) {
        page.count("synod_consensus_height", &[], 42);
        page.count("synod_blames_total", &[Label::Member(1), Label::Word("equivocated_vote")], 3);
        page.number("synod_cpu_seconds_total", &[Label::Word("reactor")], 1.5);
        page.count("synod_handshake_failures_total", &[Label::Code(code::WRONG_CLUSTER)], 1);
        let buckets = vec![(0.001, 2), (0.01, 1)];
        page.distribution("synod_wal_fsync_seconds", &[], Distribution { buckets, count: 4, sum: 0.25 });
    }

    fn health(&self) -> Health {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Scraped {
    host: Arc<Host>,
    shared: Shared,
    client: Http,
    _stopper: Stopper,
}

async fn bind(
    address: &str,
    token: Option<Secret>,
) -> Result<(MetricsServer, Arc<Host>, Shared, Stopper), synod_config::Code> {
    let (stopper, stop) = Stopper::new();
    let shared = Shared::new(Solo::new() as Arc<dyn Backend>, &LIMITS, stop);
    let host = Arc::new(Host(Mutex::new(Host::healthy())));
    let build = Build { version: "1.2.3", commit: "abc", features: "" };
    let settings = MetricsSettings { token, build, members: vec!["n0".to_owned(), "n1".to_owned()] };
    let address = Address::parse(address).expect("an address");
    let sources = Arc::clone(&host) as Arc<dyn Sources>;
    let server = MetricsServer::bind(&address, settings, sources, shared.clone()).await;
    server.map(|server| (server, host, shared, stopper)).map_err(|error| error.code())
}

async fn start(address: &str, token: Option<Secret>) -> Scraped {
    let (server, host, shared, stopper) = bind(address, token).await.expect("it can be bound");
    let port = server.local().port();
    tokio::spawn(server.run());
    Scraped { host, shared, client: Http::open(([127, 0, 0, 1], port).into()).await, _stopper: stopper }
}

/// The samples of a page by their text before the value, and the types by name.
fn parse(page: &str) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (mut samples, mut types) = (BTreeMap::new(), BTreeMap::new());
    assert!(page.ends_with("# EOF\n"));
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type has a name");
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} stands twice");
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(samples.insert(series.to_owned(), value.to_owned()).is_none(), "{series} stands twice");
        }
    }
    (samples, types)
}

#[tokio::test]
async fn the_page_holds_every_metric_of_the_table_and_no_other() {
    let mut scraped = start("127.0.0.1:0", None).await;
    let reply = scraped.client.get("/metrics").await;
    assert_eq!(reply.status, 200);
    assert!(
        reply.header("content-type").is_some_and(|kind| kind.starts_with("application/openmetrics-text"))
    );
    let (samples, types) = parse(&reply.body);
    for metric in METRICS {
        let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            _ => "histogram",
        };
        assert_eq!(types.get(name).map(String::as_str), Some(kind), "{}", metric.name);
        assert!(reply.body.contains(&format!("# HELP {name} {}\n", metric.help)), "{}", metric.name);
    }
    assert_eq!(types.len(), METRICS.len());
    for series in samples.keys() {
        let name = series.split('{').next().unwrap_or_default();
        assert!(METRICS.iter().any(|metric| name.starts_with(metric.name)), "{series}");
    }
}

#[tokio::test]
async fn values_of_host_and_gateway_stand_under_their_names() {
    let mut scraped = start("127.0.0.1:0", None).await;
    scraped.shared.traffic.accepted(Api::Resp, 5);
    scraped.shared.traffic.refused(Api::Http, code::BUSY);
    let (samples, _) = parse(&scraped.client.get("/metrics").await.body);
    for (series, value) in [
        ("synod_consensus_height", "42"),
        ("synod_blames_total{peer=\"n1\",fault=\"equivocated_vote\"}", "3"),
        ("synod_cpu_seconds_total{role=\"reactor\"}", "1.5"),
        ("synod_handshake_failures_total{code=\"SYN-2101\"}", "1"),
        ("synod_build_info{commit=\"abc\",version=\"1.2.3\",features=\"\"}", "1"),
        ("synod_wal_fsync_seconds_bucket{le=\"0.01\"}", "3"),
        ("synod_wal_fsync_seconds_bucket{le=\"+Inf\"}", "4"),
        ("synod_wal_fsync_seconds_count", "4"),
        ("synod_wal_fsync_seconds_sum", "0.25"),
        ("synod_requests_total{api=\"resp\",code=\"ok\"}", "5"),
        ("synod_requests_total{api=\"http\",code=\"SYN-3402\"}", "1"),
        ("synod_gateway_bytes", "0"),
        ("synod_connections{api=\"http\"}", "0"),
    ] {
        assert_eq!(samples.get(series).map(String::as_str), Some(value), "{series}");
    }
    assert!(samples.contains_key("synod_uptime_seconds"));
    assert!(samples.contains_key("synod_request_seconds_bucket{le=\"0.0001\",api=\"resp\"}"), "{samples:?}");
}

fn text(reply: &Reply) -> (u16, &str) {
    (reply.status, &reply.body)
}

#[tokio::test]
async fn a_node_is_ready_only_when_every_check_passes() {
    let mut scraped = start("127.0.0.1:0", None).await;
    assert_eq!(text(&scraped.client.get("/readyz").await), (200, "ok\n"));
    let all = "[+]replay\n[+]quorum\n[+]lag\n[+]disk\n[+]draining\n[+]alarm\nok\n";
    assert_eq!(text(&scraped.client.get("/readyz?verbose").await), (200, all));

    scraped.host.state(Health { replay: Some(Replay::Blocks { done: 1, all: 2 }), ..Host::healthy() });
    let line = "[-]replay SYN-3403 1 of 2 blocks are executed\n";
    assert_eq!(text(&scraped.client.get("/readyz").await), (503, format!("{line}failed\n").as_str()));
    assert_eq!(text(&scraped.client.get("/livez").await), (200, "ok\n"));
    let rest = "[+]quorum\n[+]lag\n[+]disk\n[+]draining\n[+]alarm\nok\n";
    assert_eq!(text(&scraped.client.get("/readyz?verbose=1&exclude=replay").await), (200, rest));

    let disk = Disk { free: 1, reserve: 2 };
    scraped.host.state(Health { draining: true, disk, ..Host::healthy() });
    let reply = scraped.client.get("/readyz?exclude=disk").await;
    assert_eq!(text(&reply), (503, "[-]draining SYN-3405 the node is about to stop\nfailed\n"));
    assert_eq!(scraped.client.get("/readyz?exclude=disk&exclude=draining").await.status, 200);
    assert_eq!(scraped.client.get("/readyz?exclude=dsik").await.problem(), "SYN-3001");

    scraped.host.state(Health { journal_failed: Some("input/output error".to_owned()), ..Host::healthy() });
    let failed = "[+]host\n[-]journal SYN-5004 input/output error\nfailed\n";
    assert_eq!(text(&scraped.client.get("/livez?verbose").await), (503, failed));
    assert_eq!(scraped.client.get("/version").await.json()["commit"], "abc");
}

#[tokio::test]
async fn loopback_is_open_and_everything_else_needs_the_token() {
    let token = Some(Secret::of(b"secret-token"));
    let mut local = start("127.0.0.1:0", token).await;
    let mut open = start("0.0.0.0:0", token).await;
    for path in ["/metrics", "/livez", "/readyz", "/version"] {
        let line = format!("GET {path}");
        assert_eq!(local.client.get(path).await.status, 200, "{path}");
        assert_eq!(open.client.get(path).await.problem(), "SYN-3011", "{path}");
        let wrong = open.client.ask(&line, &["authorization: Bearer secret-tokem"], "").await;
        assert_eq!((wrong.status, wrong.problem().as_str()), (401, "SYN-3012"), "{path}");
        let right = open.client.ask(&line, &["authorization: Bearer secret-token"], "").await;
        assert_eq!(right.status, 200, "{path}");
    }
    assert_eq!(bind("0.0.0.0:0", None).await.map(|_| ()), Err(code::INSECURE_LISTENER));
}
