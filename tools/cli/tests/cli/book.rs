//! The order book as traders meet it.

use crate::rig::{Rig, verbs};
use crate::surface::{assert_one_object, example};

/// Verbs that need a cluster that runs an order book.
pub(crate) const OF_BOOK: &[&str] = &[
    "book",
    "book order",
    "book replace",
    "book show",
    "book depth",
    "book tape",
    "book events",
    "book account",
    "book cancel",
];

/// A deployment that goes with its test.
struct Deployed(Rig);

impl Drop for Deployed {
    fn drop(&mut self) {
        drop(self.0.command("down").output());
    }
}

/// The example of a verb.
fn of(verb: &str) -> String {
    example(&verbs().iter().find(|(name, _)| name == verb).expect("a verb").1)
}

#[test]
fn orders_of_two_traders_meet_and_each_learns_what_became_of_them() {
    let deployed = Deployed(Rig::new());
    let rig = &deployed.0;
    rig.ok("up --app book --ephemeral --base-port 0 --detach");
    rig.refused("book account --home maker", "SYN-3014", 5);
    let placed = rig.json(&of("book order"));
    assert_eq!((&placed["order"], &placed["outcome"]), (&1.into(), &"resting".into()), "{placed}");
    let replaced = rig.json(&of("book replace"));
    assert_eq!((&replaced["outcome"], &replaced["left"]), (&"resting".into(), &8.into()), "{replaced}");
    let shown = rig.json(&of("book show"));
    assert_eq!(
        (&shown["state"], &shown["price"], &shown["left"]),
        (&"resting".into(), &101.into(), &8.into())
    );

    let met = rig.json("book order buy 3 105 --home taker");
    assert_eq!((&met["outcome"], &met["filled"]), (&"filled".into(), &3.into()), "{met}");
    assert_eq!((&met["fills"][0]["price"], &met["fills"][0]["lots"]), (&101.into(), &3.into()));
    let depth = rig.json(&of("book depth"));
    assert_eq!(depth["levels"].as_array().map(Vec::len), Some(1), "{depth}");
    assert_eq!((&depth["levels"][0]["side"], &depth["levels"][0]["lots"]), (&"sell".into(), &5.into()));
    let tape = rig.json(&of("book tape"));
    assert_eq!(
        (&tape["trades"][0]["number"], &tape["trades"][0]["taker"]),
        (&1.into(), &"buy".into()),
        "{tape}"
    );
    let events = rig.json(&of("book events"));
    assert_eq!((&events["events"][0]["what"], &events["events"][0]["order"]), (&"fill".into(), &1.into()));
    let account = rig.json(&of("book account"));
    assert_eq!((&account["sold"], &account["received"]), (&"3".into(), &"303".into()), "{account}");

    let stop = rig.json("book order sell 2 --stop 90 --home taker");
    assert_eq!(stop["outcome"], "waiting", "{stop}");
    rig.refused("book order buy 1 101 --post-only --home taker", "SYN-3324", 5);
    rig.refused("book order buy 0 101 --home taker", "SYN-3323", 5);
    rig.refused("book order buy 1 101 --symbol 99 --home taker", "SYN-3321", 5);
    rig.refused("book cancel 1 --home taker", "SYN-3322", 5);
    rig.refused("book depth --symbol 99", "SYN-3321", 5);
    rig.refused("book replace 1 --home maker", "SYN-1001", 2);
    for keys in ["kv get greeting", "proxy --resp 127.0.0.1:0"] {
        rig.refused(keys, "SYN-3003", 5);
    }
    // A member that starts again, and all of them, have the same book.
    rig.ok("restart n1");
    assert_eq!(rig.json(&of("book depth"))["levels"], depth["levels"]);
    let cancelled = rig.json(&of("book cancel"));
    assert_eq!(cancelled["outcome"], "cancelled", "{cancelled}");
    rig.refused("book show 1 --home maker", "SYN-3322", 5);
    for verb in OF_BOOK {
        // Requests of the maker go on counting, so what the examples name is placed again at the end.
        if !["book show", "book cancel", "book replace"].contains(verb) {
            rig.ok(&of(verb));
            assert_one_object(verb, &rig.ok(&format!("{} --json", of(verb))));
        }
    }
}

#[test]
fn a_book_needs_an_order_and_no_broker() {
    let rig = Rig::new();
    for wrong in [
        "up --app book --kind chopchop --ephemeral --base-port 0 --detach",
        "up --app book --kind astro --ephemeral --base-port 0 --detach",
        "up --app book --brokers 1 --ephemeral --base-port 0 --detach",
        "up --app pixels --ephemeral --base-port 0 --detach",
    ] {
        rig.refused(wrong, "SYN-1001", 2);
    }
    let made = rig.json("init --app book --name shop --nodes 4 --out shop");
    assert_eq!(made["schema"], "synod-init/1", "{made}");
    let genesis = std::fs::read_to_string(rig.path("shop/genesis.toml")).expect("a genesis");
    assert!(genesis.contains("app = \"book\""), "{genesis}");
    let node = std::fs::read_to_string(rig.path("shop/n0/node.toml")).expect("a node");
    assert!(
        node.contains("resp = \"\"") && node.contains("http = \"\""),
        "no gateway speaks of orders: {node}"
    );
}
