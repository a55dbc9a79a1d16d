//! Sign-up, payments, receipts.

use synod_crypto::{Keys, Seed};
use synod_host::chop;

use crate::cluster::{Deployment, pay, sign_up};

/// The whole way: cards, submissions, witnesses, order, certificates; equal payloads in a row are two messages.
#[test]
fn clients_sign_up_and_their_payments_are_delivered_once_each_with_a_receipt() {
    let deployment = Deployment::new(4, 1, &|_, _| {});
    let clients: Vec<_> = (0..3).map(|number| deployment.client(number)).collect();
    let ids: Vec<u32> = clients.iter().map(sign_up).collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 1, 2], "each client has an id of its own");
    let anybody = Keys::ed25519(&Seed::new([9; 32]), [9; 32]);
    let cluster = chop::cluster(&deployment.genesis).expect("a sound genesis");
    for (client, to) in clients.iter().zip(ids.iter().cycle().skip(1)) {
        for _ in 0..2 {
            let delivered = pay(client, *to, 5);
            let receipt = delivered.receipt.expect("a first delivery has one");
            assert!(receipt.verify(&cluster, &anybody).is_ok(), "anybody can check it off line");
        }
    }
    // Genesis, at least one batch of cards and two of payments.
    let level = deployment.level(4);
    assert!(level.iter().all(|(_, directory, _)| *directory == 3), "{level:?}");
    for server in deployment.servers.iter().flatten() {
        let seen = server.chop().look();
        assert_eq!((seen.entries, seen.exceptions), (6, 0), "{seen:?}");
    }
    let broker = deployment.brokers[0].as_ref().expect("it runs").meters().look();
    assert_eq!((broker.sealed_entries, broker.stragglers), (6, 6), "so few are not distilled: {broker:?}");
    let credit = broker.broker.and_then(|seen| seen.credit);
    assert!(credit > Some(16 << 20), "servers know a broker of the genesis by its key: {credit:?}");
    clients.into_iter().for_each(|client| client.stop().expect("it ends well"));
    deployment.stop();
}

#[test]
fn one_server_of_four_may_be_away() {
    let mut deployment = Deployment::new(4, 1, &|_, _| {});
    deployment.servers[3].take().expect("it runs").stop().expect("it ends well");
    let client = deployment.client(0);
    assert_eq!(sign_up(&client), 0);
    assert!(pay(&client, 0, 1).receipt.is_some());
    deployment.level(3);
    client.stop().expect("it ends well");
    deployment.stop();
}
