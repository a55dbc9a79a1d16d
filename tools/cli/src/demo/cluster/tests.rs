//! Members that fail within a process that goes on.

use super::*;
use crate::demo::redis::Redis;
use std::process::Command;
use std::time::{Duration, Instant};

/// What a wait may take.
const PATIENCE: Duration = Duration::from_secs(60);

async fn until(what: &str, mut held: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !held() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::task::yield_now().await;
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().expect("cp starts");
    assert!(copied.success());
}

async fn write(cluster: &Cluster, count: u32) {
    let mut redis = Redis::connect(cluster.proxy).await.expect("the proxy listens");
    for number in 0..count {
        let set = vec![b"SET".to_vec(), format!("k{number}").into_bytes(), b"v".to_vec()];
        assert_eq!(redis.pipeline(&[set]).await.expect("the cluster answers"), [b"+OK"]);
    }
}

#[tokio::test]
async fn a_member_whose_log_was_rolled_back_stops_alone_and_says_why() {
    let mut cluster = Cluster::start(4, 0).await.expect("four members start");
    write(&cluster, 5).await;
    cluster.remove(3).await.expect("a member in order stops");
    let (data, older) = (cluster.folder(3).join("data"), cluster.directory.join("older"));
    copy(&data, &older);
    cluster.launch(3).await.expect("it starts again");
    cluster.remove(2).await.expect("a member in order stops");
    // Without another one its votes are needed.
    write(&cluster, 20).await;
    cluster.remove(3).await.expect("a member in order stops");

    std::fs::remove_dir_all(&data).expect("a directory of ours");
    copy(&older, &data);
    cluster.launch(3).await.expect("an older copy is in order by itself");
    until("nobody shows it what it forgot", || cluster.server(3, Server::failure).flatten().is_some()).await;
    let why = cluster.server(3, Server::failing).expect("it is there").await;
    assert_eq!((why.code(), why.exit_code().number()), (code::ROLLED_BACK, 9));
    until("its links stay", || cluster.look(0).is_some_and(|seen| seen.up.get(&3) == Some(&false))).await;
    assert_eq!(cluster.look(3).expect("it is there").alarms, ["rolled_back"]);
    assert_eq!(cluster.remove(3).await, Err(why), "stopping it says the same");

    cluster.launch(2).await.expect("it starts again");
    write(&cluster, 5).await;
    cluster.end().await.expect("the others are in order");
}
