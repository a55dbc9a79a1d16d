//! N2: what is said to one cluster opens no door of another, though both have the same members and keys.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use synod_chaos::identity::Counters as _;
use synod_chaos::stranger::{Card, End, Line, Shown, TLS13, client, hear, tell, verdict};
use synod_net::foreign::Introduction;

use crate::rig::{Rig, secret};

const PATIENCE: Duration = Duration::from_secs(5);
const WRONG_CLUSTER: u16 = 2_101;
const UNKNOWN_KEY: u16 = 2_102;

fn session(at: SocketAddr, own: u32) -> Line {
    let config = client(&Shown::own(&secret(own)), TLS13).expect("a sound secret");
    let mut line = Line::dial(at, config, PATIENCE).expect("the node listens");
    line.shake().expect("the key is a member's");
    line
}

/// Carries bytes both ways between whoever dials `listener` and `to`; ends with either of them.
fn relay(listener: TcpListener, to: SocketAddr) -> io::Result<u64> {
    let (from, _) = listener.accept()?;
    let to = TcpStream::connect(to)?;
    let carry = |mut a: TcpStream, mut b: TcpStream| {
        let (mut part, mut carried) = ([0; 4096], 0);
        while let Ok(count @ 1..) = a.read(&mut part) {
            carried += count as u64;
            if b.write_all(&part[..count]).is_err() {
                break;
            }
        }
        let _ = b.shutdown(std::net::Shutdown::Both);
        carried
    };
    let (back, forth) = ((to.try_clone()?, from.try_clone()?), (from, to));
    let returning = std::thread::spawn(move || carry(back.0, back.1));
    let carried = carry(forth.0, forth.1);
    Ok(carried + returning.join().unwrap_or(0))
}

#[test]
fn a_member_of_one_cluster_relayed_to_the_other_is_refused_by_both() {
    let (a, b) = (Rig::start(0, "first"), Rig::start(1, "second"));
    let middle = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = middle.local_addr().expect("bound");
    let to = b.peers;
    let carried = std::thread::spawn(move || relay(middle, to));
    a.dial(1, at);
    let refused = |rig: &Rig| rig.refusals().expect("it counts").get(&WRONG_CLUSTER).copied();
    assert!(carried.join().expect("it ends").expect("both ends talk") > 500, "whole Hellos were carried");
    while refused(&a) == Some(0) || refused(&b) == Some(0) {
        std::thread::yield_now();
    }
    assert!(a.only(|_| false) && b.only(|_| false), "no link came up");
}

#[test]
fn a_hello_for_one_cluster_is_worth_nothing_in_the_other() {
    let (a, b) = (Rig::start(0, "first"), Rig::start(1, "second"));
    let own = secret(2);
    // The faulty member 2, which belongs to both, hears how member 0 introduces itself in the first.
    let mut first = session(a.peers, 2);
    let card = Card::learn(&mut session(b.peers, 2), &own).expect("member 1 introduces itself");
    let card_of_first = Card::learn(&mut session(a.peers, 2), &own).expect("member 0 introduces itself");
    card_of_first.of(own.public(), 1).say(&mut first, &own, true).expect("member 0 listens");
    let heard: Introduction = hear(&mut first).expect("member 0 introduces itself");

    let mut second = session(b.peers, 2);
    tell(&mut second, &heard).expect("member 1 listens");
    assert_eq!(verdict(&mut second), End::Verdict(WRONG_CLUSTER), "another's Hello");

    // Its own Hello names the second cluster; the signature is over the session with the first.
    let foreign = session(a.peers, 2).session().expect("TLS is complete");
    let mut second = session(b.peers, 2);
    let stale = card.of(own.public(), 1).introduction(foreign, &own, true);
    tell(&mut second, &stale).expect("member 1 listens");
    assert_eq!(verdict(&mut second), End::Verdict(UNKNOWN_KEY), "another session's signature");

    let own_session = card.of(own.public(), 1).present(&mut session(b.peers, 2), &own);
    assert_eq!(own_session, End::Admitted, "signed for this session it is admitted");
}
