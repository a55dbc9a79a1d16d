//! Ranges 20 (reaching a peer) and 21 (its identity). An identity error never shows as silence.

super::rows! { TRANSPORT;
    2001 REFUSED "refused" (Unreachable, Some(502), Temporary)
        "{address} refused the connection"
        ["no process listens there", "a firewall rejects it"]
        "start the node, or correct the address; `synod why` names the node";
    2002 NAME_NOT_FOUND "name_not_found" (Unreachable, Some(502), Temporary)
        "the name {host} has no address"
        ["the name is misspelt", "the resolver is not reachable"]
        "correct the name, or use an address";
    2003 NO_ANSWER "no_answer" (Unreachable, Some(502), Temporary)
        "{address} gave no answer in stage {stage}"
        ["stage tcp: packets are dropped on the way", "stage tls: the port belongs to something that is not synod",
         "stage hello: the node is paused or overloaded"]
        "look at the stage: route and firewall for tcp, port number for tls, the node itself for hello";
    2004 PORT_TAKEN "port_taken" (Unreachable, Some(502), Temporary)
        "{address} is taken by {owner}"
        ["another process listens there", "an earlier run has not ended"]
        "stop the owner, or choose another --base-port (0 lets the system choose)";
    2005 CONTEXT_STALE "context_stale" (Unreachable, Some(502), Temporary)
        "nothing of context {context} answers; it was last written by {origin}"
        ["the demo or deployment behind the context has ended", "it moved to other ports"]
        "`synod ctx ls` shows the others; start the deployment again or remove the context";

    2101 WRONG_CLUSTER "wrong_cluster" (Invalid, Some(421), Permanent)
        "the peer belongs to cluster {theirs}, this side to {mine}"
        ["an address points at a node of another cluster", "the ports of two clusters overlap"]
        "correct the address, or use the genesis of the cluster that answers there";
    2102 UNKNOWN_PEER_KEY "unknown_peer_key" (Invalid, Some(421), Permanent)
        "the peer's key {fingerprint} is not in the genesis"
        ["the peer runs with a new key file", "the peer was removed", "something else answers at that address"]
        "compare the fingerprint with `synod keys show` on the peer";
    2103 GENESIS_DIFFERS "genesis_differs" (Invalid, Some(421), Permanent)
        "the peer's genesis differs, first at {field}"
        ["one side has an edited or older genesis.toml"]
        "copy one genesis.toml to every node; `synod node inspect genesis` prints its id";
    2104 OLD_EPOCH "old_epoch" (Invalid, Some(421), Temporary)
        "the peer is in epoch {theirs}, this side in {mine}"
        ["one side has not heard of the membership change yet"]
        "wait until it has caught up; if it does not, give it the address of a current member";
    2105 VERSION_SKEW "version_skew" (Invalid, Some(421), Permanent)
        "the peer speaks versions {theirs}, this side {mine}"
        ["the releases are more than one version apart"]
        "upgrade node by node, one version at a time";
    2106 TLS_ALERT "tls_alert" (Invalid, Some(421), Permanent)
        "the peer ended the TLS handshake: {alert}"
        ["it does not know this side's key", "one side is not TLS 1.3 with raw public keys"]
        "look at the peer's log for the matching refusal";
    2107 CLOCK_SKEW "clock_skew" (Invalid, Some(421), Temporary)
        "the clocks differ by {measured}, the bound is {bound}"
        ["one machine does not synchronise its clock"]
        "synchronise the clocks (chrony, systemd-timesyncd)";
    2108 WRONG_ROLE "wrong_role" (Invalid, Some(421), Permanent)
        "the peer acts as {theirs}, expected {mine}"
        ["a client port was given where a peer port belongs, or the reverse"]
        "compare the port with base + 10 x index + offset; ports.json lists those in use";
    2109 SECOND_INSTANCE "second_instance" (Invalid, Some(421), Permanent)
        "another process is connected with the key of {name}"
        ["the node was started twice", "its key file was copied"]
        "stop one of them; a key that was copied should be rotated";
}
