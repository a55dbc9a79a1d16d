//! Errors of the world, with their codes.

use std::io::ErrorKind;

use crate::watch::End;
use synod_config::{Genesis, SynError, code};

/// A configuration that contradicts itself.
pub(crate) fn invalid(why: &str) -> SynError {
    let between = [("first", "the genesis"), ("second", "what this process was given"), ("problem", why)];
    SynError::of(code::RELATION_BROKEN, &between)
}

/// What the network runtime says, under its own code.
pub(crate) fn network(error: &synod_net::Error) -> SynError {
    let of = |code, values: &[(&str, &str)]| SynError::of(code, values).because(error.to_string());
    match error {
        synod_net::Error::PortTaken { address, source } => bound(address, "a listen address", source),
        synod_net::Error::ProgramMissing { program, package } => {
            of(code::PROGRAM_MISSING, &[("program", program), ("package", package)])
        }
        synod_net::Error::ServerProcess { program, why } => {
            of(code::SERVER_PROCESS, &[("program", program), ("problem", why)])
        }
        synod_net::Error::Config(why) => of(code::BAD_VALUE, &bad("the network's configuration", why)),
        other => of(synod_config::Code::new(other.code()), &[]),
    }
}

/// An address that `key` of node.toml gave cannot be listened at.
pub(crate) fn listen(key: &str) -> impl Fn(synod_net::Error) -> SynError {
    move |error| match &error {
        synod_net::Error::PortTaken { address, source } => bound(address, key, source),
        other => network(other),
    }
}

fn bound(address: &str, key: &str, source: &std::io::Error) -> SynError {
    let error = match source.kind() {
        ErrorKind::AddrInUse => {
            SynError::of(code::PORT_TAKEN, &[("address", address), ("owner", "another process")])
        }
        _ => {
            let problem = format!("{address}, which this host cannot listen at");
            SynError::of(code::BAD_VALUE, &bad(key, &problem))
        }
    };
    error.because(source)
}

fn bad<'a>(key: &'a str, problem: &'a str) -> [(&'static str, &'a str); 3] {
    [("file", "node.toml"), ("key", key), ("problem", problem)]
}

/// What the journal says, under its own code.
pub(crate) fn storage(error: &synod_journal::Error) -> SynError {
    SynError::of(synod_config::Code::new(error.code()), &[]).because(error.to_string())
}

/// The journal's directory cannot be opened.
pub(crate) fn unreadable(path: &std::path::Path, error: &std::io::Error) -> SynError {
    SynError::of(code::CONFIG_UNREADABLE, &[("file", &path.display().to_string())]).because(error)
}

/// Why a node stopped by itself.
pub(crate) fn ended(genesis: &Genesis, why: End) -> SynError {
    match why {
        End::RolledBack(peer) => {
            let name = usize::try_from(peer).ok().and_then(|at| genesis.members().get(at));
            SynError::of(code::ROLLED_BACK, &[("peer", name.map_or("a peer", |member| &member.name))])
        }
        End::ServerFailed(program) => {
            let problem = "it ended, or it does not answer";
            SynError::of(code::SERVER_PROCESS, &[("program", program), ("problem", problem)])
        }
        End::Diverged(slot) => {
            let nodes = "this node and the f + 1 who certified it";
            SynError::of(code::STATE_DIVERGENCE, &[("height", &slot.to_string()), ("nodes", nodes)])
        }
    }
}

#[cfg(test)]
mod tests {
    use synod_net::Listener;

    use super::*;

    fn refused(address: &str) -> SynError {
        Listener::tcp(address).map(drop).map_err(listen("listen.peer")).expect_err("it cannot be bound")
    }

    #[test]
    fn what_stops_a_listener_is_said_under_its_own_code() {
        let held = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let taken = held.local_addr().expect("it is bound").to_string();
        let error = refused(&taken);
        assert_eq!(error.code(), code::PORT_TAKEN);
        assert_eq!(error.message(), format!("{taken} is taken by another process"));
        // An address for documentation, which no host has.
        let error = refused("192.0.2.1:0");
        assert_eq!(error.code(), code::BAD_VALUE);
        assert!(error.message().starts_with("node.toml: listen.peer is 192.0.2.1:0"), "{}", error.message());
    }

    #[test]
    fn other_errors_of_the_network_keep_their_codes() {
        let config = synod_net::Error::Config("no machine".to_owned());
        assert_eq!(network(&config).code(), code::BAD_VALUE);
        assert_eq!(network(&synod_net::Error::NameNotFound("x".to_owned())).code(), code::NAME_NOT_FOUND);
        assert_eq!(network(&synod_net::Error::Thread("x".to_owned())).code(), code::BUG);
    }
}
