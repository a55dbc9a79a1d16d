//! HTTP/JSON over a socket: what clients see.

mod solo;

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use solo::{
    Behaviour, Solo,
    web::{Http, Reply},
    wire::LIMITS,
};
use synod_config::{Address, Method, ROUTES, code};
use synod_gateway::{Api, HttpServer, HttpSettings, Secret, Shared, Stopper};
use synod_host::{Backend, Mode};
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant};

struct Web {
    store: Arc<Solo>,
    shared: Shared,
    address: SocketAddr,
    served: JoinHandle<()>,
    stopper: Stopper,
}

impl Web {
    async fn start() -> Self {
        Self::with(HttpSettings::default()).await
    }

    async fn with(settings: HttpSettings) -> Self {
        let store = Solo::new();
        let (stopper, stop) = Stopper::new();
        let shared = Shared::new(Arc::clone(&store) as Arc<dyn Backend>, &LIMITS, stop);
        let anywhere = Address::loopback(0);
        let server = HttpServer::bind(&anywhere, settings, shared.clone()).await;
        let server = server.expect("the loopback can be bound");
        let address = server.local();
        Self { store, shared, address, served: tokio::spawn(server.run()), stopper }
    }

    async fn client(&self) -> Http {
        Http::open(self.address).await
    }
}

fn modes(store: &Solo) -> Vec<Mode> {
    store.seen().into_iter().flat_map(|call| call.modes).collect()
}

#[tokio::test]
async fn a_value_is_written_read_and_removed() {
    let server = Web::start().await;
    let mut client = server.client().await;
    let absent = client.get("/v1/kv/greeting").await;
    assert_eq!(
        (absent.status, &absent.json()["value"], &absent.json()["version"]),
        (200, &Value::Null, &json!("0"))
    );

    let written = client.put("/v1/kv/greeting", r#"{"value":"hello"}"#).await;
    assert_eq!((written.status, written.json()), (200, json!({ "height": "2" })));
    assert_eq!(written.header("synod-height"), Some("2"));

    let read = client.get("/v1/kv/greeting").await;
    let wanted = json!({ "key": "greeting", "value": "hello", "version": "1", "height": "3" });
    assert_eq!((read.status, read.json()), (200, wanted));
    assert_eq!(read.header("synod-trust"), Some("gateway"));
    assert_eq!(read.header("etag"), Some("\"1\""));
    assert_eq!(read.header("content-type"), Some("application/json"));

    let removed = client.ask("DELETE /v1/kv/greeting", &[], "").await;
    assert_eq!(removed.json(), json!({ "deleted": true, "height": "4" }));
    let again = client.ask("DELETE /v1/kv/greeting", &[], "").await;
    assert_eq!(again.json(), json!({ "deleted": false, "height": "5" }));
    assert_eq!(
        modes(&server.store),
        [Mode::Quorum, Mode::Ordered, Mode::Quorum, Mode::Ordered, Mode::Ordered]
    );
    assert_eq!(server.shared.traffic.accepted_total(Api::Http), 5);
    assert_eq!(server.shared.traffic.inflight(Api::Http), 0);
}

#[tokio::test]
async fn bytes_that_are_no_text_travel_in_base64() {
    let server = Web::start().await;
    let mut client = server.client().await;
    let written = client.put("/v1/kv/%ff%2F", r#"{"value_base64":"AP8="}"#).await;
    assert_eq!(written.status, 200);
    let read = client.get("/v1/kv/%FF%2f").await.json();
    assert_eq!((&read["key_base64"], &read["value_base64"]), (&json!("/y8="), &json!("AP8=")));
    assert_eq!(read.get("value"), None);
}

#[tokio::test]
async fn a_condition_decides_whether_a_write_happens() {
    let server = Web::start().await;
    let mut client = server.client().await;
    let mut write = async |condition: &str, value: &str| -> (u16, Option<String>) {
        let head = format!("if-match: {condition}");
        let body = format!(r#"{{"value":"{value}"}}"#);
        let reply = client.ask("PUT /v1/kv/a", &[&head], &body).await;
        (reply.status, (reply.status != 200).then(|| reply.problem()))
    };
    let failed = || (412, Some("SYN-3005".to_owned()));
    assert_eq!(write("*", "x").await, failed());
    assert_eq!(write("\"0\"", "one").await, (200, None));
    assert_eq!(write("\"0\"", "two").await, failed());
    assert_eq!(write("*", "two").await, (200, None));
    assert_eq!(write("\"1\"", "three").await, failed());
    assert_eq!(write("\"2\"", "three").await, (200, None));
    assert_eq!(write("2", "four").await, (400, Some("SYN-3001".to_owned())));
    let refused = client.ask("PUT /v1/kv/a", &["if-none-match: *"], r#"{"value":"x"}"#).await;
    assert_eq!(refused.problem(), "SYN-3003");

    let mut remove = async |condition: &str| -> u16 {
        client.ask("DELETE /v1/kv/a", &[&format!("if-match: {condition}")], "").await.status
    };
    assert_eq!([remove("\"2\"").await, remove("\"3\"").await, remove("*").await], [412, 200, 412]);
}

#[tokio::test]
async fn keys_are_listed_page_by_page() {
    let server = Web::start().await;
    let mut client = server.client().await;
    for key in ["a/1", "a/2", "a/3", "b"] {
        let path = format!("/v1/kv/{}", key.replace('/', "%2F"));
        assert_eq!(client.put(&path, r#"{"value":""}"#).await.status, 200);
    }
    let first = client.get("/v1/kv?prefix=a/&limit=2").await.json();
    assert_eq!(first["keys"], json!([{ "key": "a/1" }, { "key": "a/2" }]));
    let second = client.get("/v1/kv?prefix=a/&after=a%2F2&limit=2").await.json();
    assert_eq!(second["keys"], json!([{ "key": "a/3" }]));
    let end = client.get("/v1/kv?prefix=a/&after=a%2F3").await.json();
    assert_eq!(end["keys"], json!([]));
    for (query, code) in [
        ("limit=0", "SYN-3001"),
        ("limit=x", "SYN-3001"),
        ("limit=1025", "SYN-3002"),
        ("prefix=%2", "SYN-3001"),
        ("prefix=a&prefix=b", "SYN-3001"),
        ("sort=up", "SYN-3001"),
    ] {
        assert_eq!(client.get(&format!("/v1/kv?{query}")).await.problem(), code, "{query}");
    }
}

#[tokio::test]
async fn a_transaction_is_one_operation_that_happens_whole_or_not() {
    let server = Web::start().await;
    let mut client = server.client().await;
    assert_eq!(client.put("/v1/kv/a", r#"{"value":"1"}"#).await.status, 200);
    let txn = r#"{"compare":[{"key":"a","version":"1"},{"key":"b","version":"0"}],
        "writes":[{"op":"put","key":"a","value":"2"},{"op":"delete","key":"c"}]}"#;
    let done = client.post("/v1/txn", txn).await;
    assert_eq!(done.json()["results"], json!([{ "written": true }, { "deleted": false }]));
    assert_eq!(server.store.seen().len(), 2);
    assert_eq!(client.post("/v1/txn", txn).await.problem(), "SYN-3005");
    assert_eq!(client.get("/v1/kv/a").await.json()["value"], "2");
}

#[tokio::test]
async fn what_a_web_page_can_post_unasked_is_refused_on_every_route() {
    let server = Web::start().await;
    let posts: Vec<_> = ROUTES.iter().filter(|route| route.method == Method::Post).collect();
    assert!(posts.len() > 2, "routes that take bodies");
    for route in posts {
        for kind in ["", "content-type: text/plain", "content-type: application/x-www-form-urlencoded"] {
            let headers: &[&str] = if kind.is_empty() { &[] } else { &[kind] };
            let form = server.client().await.ask(&format!("POST {}", route.path), headers, "{}").await;
            assert_eq!((form.status, form.problem()), (400, "SYN-3001".to_owned()), "{} {kind}", route.path);
            assert!(form.body.contains("application/json"), "{}", form.body);
        }
    }
    assert!(server.store.seen().is_empty(), "nothing of it was looked at");
}

#[tokio::test]
async fn refusals_have_their_status_and_code() {
    let server = Web::start().await;
    let mut client = server.client().await;
    assert_eq!(client.post("/v1/txn", r#"{"writes":[]}"#).await.status, 200);
    let list = r#"{"op":"delete","key":"k"},"#.repeat(1_025);
    let many = format!(r#"{{"writes":[{}]}}"#, list.trim_end_matches(','));
    let cases: [(Reply, u16, &str); 9] = [
        (client.put("/v1/kv/a", "hello").await, 400, "SYN-3001"),
        (client.put("/v1/kv/a", "{}").await, 400, "SYN-3001"),
        (client.put("/v1/kv/a", r#"{"value":"a","value_base64":"YQ=="}"#).await, 400, "SYN-3001"),
        (client.get("/v1/kv/%zz").await, 400, "SYN-3001"),
        (client.post("/v1/txn", &many).await, 400, "SYN-3001"),
        (client.get("/v1/kv/a?proof=1").await, 501, "SYN-3003"),
        (client.get("/v1/kv/a?read=stale").await, 501, "SYN-3003"),
        (client.get("/v1/nothing").await, 404, "SYN-3003"),
        (client.ask("PATCH /v1/kv/a", &[], "").await, 405, "SYN-3003"),
    ];
    for (reply, status, code) in cases {
        assert_eq!((reply.status, reply.problem().as_str()), (status, code), "{}", reply.body);
        assert_eq!(reply.header("synod-trust"), Some("gateway"));
    }
    assert_eq!(server.store.seen().len(), 1, "none of them reached the cluster");
}

#[tokio::test]
async fn sizes_are_refused_before_they_are_read() {
    let server = Web::start().await;
    let mut client = server.client().await;
    let value = |length: usize| format!(r#"{{"value":"{}"}}"#, "v".repeat(length));
    assert_eq!(client.put("/v1/kv/a", &value(512 << 10)).await.status, 200);
    let long = client.put("/v1/kv/a", &value((512 << 10) + 1)).await;
    assert_eq!((long.status, long.problem()), (413, "SYN-3002".to_owned()));
    // Only the length is sent.
    let head = "content-length: 786433";
    let announced = client.ask("PUT /v1/kv/a", &[head], "").await;
    assert_eq!((announced.status, announced.problem()), (413, "SYN-3002".to_owned()));
    let mut other = server.client().await;
    other
        .0
        .write_all(format!("GET / HTTP/1.1\r\nx: {}", "h".repeat(17 << 10)).as_bytes())
        .await
        .expect("open");
    other.expect_closed().await;
    assert_eq!(server.shared.traffic.cuts(), 1);
}

#[tokio::test]
async fn a_list_is_not_a_string() {
    let server = Web::start().await;
    let mut client = server.client().await;
    server.store.run(synod_kv::Verb::LPush, &[b"list", b"x"]);
    let read = client.get("/v1/kv/list").await;
    assert_eq!((read.status, read.problem()), (409, "SYN-3004".to_owned()));
    let refused: Vec<_> = server.shared.traffic.refused_total(Api::Http).collect();
    assert_eq!(refused, [(code::WRONG_TYPE, 1)]);
}

#[tokio::test]
async fn reads_are_carried_out_as_asked_and_labelled() {
    let server = Web::start().await;
    let mut client = server.client().await;
    for (query, trust) in [("", "gateway"), ("?read=ordered", "gateway"), ("?read=local", "local")] {
        let read = client.get(&format!("/v1/kv/a{query}")).await;
        assert_eq!((read.status, read.header("synod-trust")), (200, Some(trust)));
    }
    assert_eq!(modes(&server.store), [Mode::Quorum, Mode::Ordered, Mode::Local]);
    assert_eq!(client.get("/v1/kv/a?read=dirty").await.problem(), "SYN-3001");
}

#[tokio::test]
async fn outcomes_are_problems_with_their_retry_class() {
    let server = Web::start().await;
    let mut client = server.client().await;
    server.store.behave(Behaviour::Reject(3402, 1_500));
    let busy = client.put("/v1/kv/a", r#"{"value":"1"}"#).await;
    assert_eq!((busy.status, busy.problem()), (429, "SYN-3402".to_owned()));
    assert_eq!((&busy.json()["retry_after_ms"], busy.header("retry-after")), (&json!(1_500), Some("2")));
    server.store.behave(Behaviour::Reject(3401, 0));
    let lost = client.put("/v1/kv/a", r#"{"value":"1"}"#).await;
    assert_eq!((lost.status, lost.problem()), (503, "SYN-3401".to_owned()));
    server.store.behave(Behaviour::Lost);
    let lost = client.put("/v1/kv/a", r#"{"value":"1"}"#).await;
    assert_eq!((lost.status, lost.problem()), (504, "SYN-3502".to_owned()));
    server.store.behave(Behaviour::Unknown);
    let unknown = client.put("/v1/kv/a", r#"{"value":"1"}"#).await;
    assert_eq!((unknown.status, unknown.problem()), (504, "SYN-3501".to_owned()));
    assert_eq!(unknown.json()["outcome"], "unknown");
    assert!(unknown.json()["instance"].as_str().is_some_and(|id| id.starts_with("r1-")), "{}", unknown.body);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_never_answers_is_given_up_at_the_deadline() {
    let server = Web::start().await;
    server.store.behave(Behaviour::Silent);
    let mut client = server.client().await;
    for (head, ms) in [(&[][..], 5_000), (&["synod-deadline-ms: 300"][..], 300)] {
        let begun = Instant::now();
        let reply = client.ask("GET /v1/kv/a", head, "").await;
        assert_eq!((reply.status, reply.problem()), (504, "SYN-3501".to_owned()));
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(ms) && took < Duration::from_millis(ms + 100), "{took:?}");
    }
    for value in ["0", "600001", "-1", "soon"] {
        let head = format!("synod-deadline-ms: {value}");
        assert_eq!(client.ask("GET /v1/kv/a", &[&head], "").await.problem(), "SYN-3001", "{value}");
    }
    assert_eq!(server.shared.traffic.inflight(Api::Http), 0);
}

#[tokio::test]
async fn a_write_under_way_is_not_called_rejected_when_its_connection_gives_way() {
    let server = Web::start().await;
    server.store.behave(Behaviour::Silent);
    let mut client = server.client().await;
    let body = json!({ "value": "v".repeat(100_000) }).to_string();
    let ask = tokio::spawn(async move { client.put("/v1/kv/large", &body).await });
    while server.store.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    server.shared.budget.evict_largest();
    let answer = ask.await.expect("it is answered");
    assert_eq!(answer.problem(), code::CONNECTION_LOST.to_string());
    assert_eq!(answer.json()["outcome"], "unknown");
}

#[tokio::test]
async fn an_id_is_executed_once_and_has_one_answer() {
    let server = Web::start().await;
    let (mut one, mut two) = (server.client().await, server.client().await);
    let head = ["synod-request-id: order-7"];
    let first = one.ask("PUT /v1/kv/a", &head, r#"{"value":"1"}"#).await;
    assert_eq!((first.status, first.header("synod-request-id")), (200, Some("order-7")));
    let again = two.ask("PUT /v1/kv/a", &head, r#"{"value":"1"}"#).await;
    assert_eq!(again.json(), first.json());
    assert_eq!(server.store.seen().len(), 1);
    let other = two.ask("PUT /v1/kv/a", &head, r#"{"value":"2"}"#).await;
    assert_eq!((other.status, other.problem()), (409, "SYN-3007".to_owned()));
    let bad = two.ask("PUT /v1/kv/a", &["synod-request-id: a b"], r#"{"value":"2"}"#).await;
    assert_eq!(bad.problem(), "SYN-3001");

    let head = ["synod-request-id: order-8"];
    server.store.behave(Behaviour::Reject(3402, 10));
    assert_eq!(one.ask("PUT /v1/kv/a", &head, r#"{"value":"3"}"#).await.status, 429);
    server.store.behave(Behaviour::Serve);
    assert_eq!(one.ask("PUT /v1/kv/a", &head, r#"{"value":"3"}"#).await.status, 200, "BUSY binds nothing");
}

#[tokio::test]
async fn every_route_is_served_and_every_get_leaves_the_state_alone() {
    let server = Web::start().await;
    let mut client = server.client().await;
    assert_eq!(client.put("/v1/kv/a", r#"{"value":"1"}"#).await.status, 200);
    for route in ROUTES {
        let root = server.store.root();
        let path = route.path.replace("{key}", "a").replace("{id}", "r1-00000000-1-1");
        let line = format!("{} {path}", route.method);
        let reply = client.ask(&line, &[], "").await;
        assert!(reply.status != 404 && reply.status != 405, "{line}: {}", reply.body);
        if reply.status >= 400 {
            reply.problem();
        }
        if route.method == Method::Get {
            assert_eq!(server.store.root(), root, "{line}");
        }
        assert!(reply.headers.iter().all(|(name, _)| !name.starts_with("access-control")), "{line}");
    }
}

#[tokio::test]
async fn what_the_backend_does_not_know_is_not_made_up() {
    let server = Web::start().await;
    let mut client = server.client().await;
    assert_eq!(client.get("/v1/status").await.json()["schema"], "synod-status/1");
    assert_eq!(client.get("/v1/members").await.json(), json!(["n0"]));
    for path in ["/v1/why", "/v1/views", "/v1/requests/r1-00000000-1-1"] {
        let reply = client.get(path).await;
        assert_eq!((reply.status, reply.problem()), (501, "SYN-3003".to_owned()), "{path}");
    }
    assert_eq!(client.get("/openapi.json").await.json()["openapi"], "3.1.0");
    assert_eq!(client.get("/version").await.json()["version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn every_route_asks_for_the_token() {
    let settings = HttpSettings { token: Some(Secret::of(b"secret-token")), ..HttpSettings::default() };
    let server = Web::with(settings).await;
    let mut client = server.client().await;
    let others = ["GET /", "GET /v1/nothing", "OPTIONS /v1/kv/a", "HEAD /version"].map(str::to_owned);
    let routes =
        ROUTES.iter().map(|route| format!("{} {}", route.method, route.path.replace(['{', '}'], "")));
    for line in routes.chain(others) {
        for (head, code) in [
            (&[][..], "SYN-3011"),
            (&["authorization: Bearer secret-tokeN"][..], "SYN-3012"),
            (&["authorization: Basic secret-token"][..], "SYN-3012"),
        ] {
            if line.starts_with("HEAD") {
                continue;
            }
            let reply = client.ask(&line, head, "").await;
            assert_eq!((reply.status, reply.problem().as_str()), (401, code), "{line}");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
        let reply =
            client.ask(&line.replace("HEAD", "GET"), &["authorization: Bearer secret-token"], "").await;
        assert_ne!(reply.status, 401, "{line}");
    }
}

#[tokio::test]
async fn without_a_token_only_this_machine_is_a_host() {
    let server = Web::start().await;
    let mut client = server.client().await;
    for (host, status) in
        [("127.0.0.1:7102", 200), ("[::1]:7102", 200), ("localhost", 200), ("evil.example:7102", 403)]
    {
        let request = format!("GET /version HTTP/1.1\r\nhost: {host}\r\n\r\n");
        client.0.write_all(request.as_bytes()).await.expect("open");
        assert_eq!(client.reply().await.status, status, "{host}");
    }
}

#[tokio::test]
async fn a_plain_listener_off_loopback_is_refused_even_with_a_token() {
    let server = Web::start().await;
    let open = Address::parse("0.0.0.0:0").expect("an address");
    for token in [None, Some(Secret::of(b"secret-token"))] {
        let settings = HttpSettings { token, ..HttpSettings::default() };
        let bound = HttpServer::bind(&open, settings, server.shared.clone()).await;
        assert_eq!(bound.map(|_| ()).map_err(|error| error.code()), Err(code::INSECURE_LISTENER));
    }
}

#[tokio::test(start_paused = true)]
async fn heads_bodies_and_idle_connections_have_their_time() {
    let server = Web::start().await;
    let begun = Instant::now();
    let mut slow = server.client().await;
    slow.0.write_all(b"GET /version HTTP/1.1\r\n").await.expect("open");
    slow.expect_closed().await;
    assert!((5_000..5_200).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());

    let mut kept = server.client().await;
    assert_eq!(kept.get("/version").await.status, 200);
    let begun = Instant::now();
    kept.expect_closed().await;
    assert!((60_000..60_200).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());

    let mut late = server.client().await;
    let begun = Instant::now();
    let reply = late.ask("PUT /v1/kv/a", &["content-length: 9"], "").await;
    assert_eq!(reply.problem(), "SYN-3001");
    assert!((10_000..10_200).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    assert_eq!(server.shared.traffic.cuts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_an_answer_out_and_closes() {
    let server = Web::start().await;
    server.store.behave(Behaviour::Silent);
    let (mut idle, mut owed) = (server.client().await, server.client().await);
    assert_eq!(idle.get("/version").await.status, 200);
    owed.0.write_all(b"GET /v1/kv/a HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("open");
    while server.shared.traffic.inflight(Api::Http) < 1 {
        tokio::task::yield_now().await;
    }
    server.stopper.stop();
    idle.expect_closed().await;
    assert_eq!(owed.reply().await.status, 504);
    server.served.await.expect("the listener ends");
    assert_eq!(server.shared.traffic.connections(Api::Http), 0);
}
