//! Servers and brokers that end and come back from what they wrote.

use crate::cluster::{Deployment, pay, sign_up};

#[test]
fn servers_that_were_all_stopped_go_on_where_they_were_and_a_client_goes_on_too() {
    let mut deployment = Deployment::new(4, 1, &|parameters, _| parameters.checkpoint_every = 16);
    let client = deployment.client(0);
    assert_eq!(sign_up(&client), 0);
    for amount in 1..=3 {
        assert!(pay(&client, 0, amount).receipt.is_some());
    }
    client.stop().expect("it ends well");
    let before = deployment.level(5)[0];
    for at in 0..4_u8 {
        deployment.servers[usize::from(at)].take().expect("it runs").stop().expect("it ends well");
    }
    for at in 0..4 {
        deployment.start_server(at);
    }
    let after = deployment.level(before.0)[0];
    assert_eq!((after.0, after.1), (before.0, before.1), "nothing is lost and nothing is new");
    let client = deployment.client(0);
    assert!(pay(&client, 0, 3).receipt.is_some(), "an equal payload is another message");
    client.stop().expect("it ends well");
    deployment.level(before.0 + 1);
    deployment.stop();
}

#[test]
fn a_server_that_was_away_takes_the_batches_it_missed_from_the_others() {
    let mut deployment = Deployment::new(4, 1, &|_, _| {});
    let client = deployment.client(0);
    assert_eq!(sign_up(&client), 0);
    deployment.servers[1].take().expect("it runs").stop().expect("it ends well");
    for amount in 1..=4 {
        assert!(pay(&client, 0, amount).receipt.is_some());
    }
    deployment.start_server(1);
    let level = deployment.level(6);
    assert_eq!(level.len(), 4);
    client.stop().expect("it ends well");
    deployment.stop();
}

#[test]
fn a_client_whose_broker_ends_is_served_by_the_other_one() {
    let mut deployment = Deployment::new(4, 2, &|_, _| {});
    let client = deployment.client(0);
    assert_eq!(sign_up(&client), 0);
    assert!(pay(&client, 0, 1).receipt.is_some());
    deployment.brokers[0].take().expect("it runs").stop().expect("it ends well");
    for amount in 2..=3 {
        assert!(pay(&client, 0, amount).receipt.is_some(), "the second broker delivers it");
    }
    client.stop().expect("it ends well");
    deployment.stop();
}
