//! Members that dial one another through proxies which can be hurt.

use crate::cluster::Seat;
use crate::exit::bug;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use synod_chaos::links::{Links, owner};
use synod_config::{Address, Service, SynError};

/// The proxies, and which process is which member.
pub(crate) struct Wired {
    pub(crate) links: Links,
    processes: Arc<Mutex<Vec<(usize, u32)>>>,
}

impl Wired {
    /// Starts the proxies in front of these seats.
    ///
    /// # Errors
    /// SYN-9001 if the system gives no port or no thread.
    pub(super) fn start(seats: &[Seat]) -> Result<Self, SynError> {
        let peers = seats.iter().filter_map(|seat| seat.address(Service::Peer));
        let members = peers.map(|peer| SocketAddr::from((Ipv4Addr::LOCALHOST, peer.port()))).collect();
        let processes = Arc::<Mutex<Vec<(usize, u32)>>>::default();
        let known = processes.clone();
        let who = move |port, peer| {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner).clone();
            owner(port, peer, &known)
        };
        let links = Links::start(members, Arc::new(who)).map_err(|error| bug("links", &error))?;
        Ok(Self { links, processes })
    }

    /// The seats as the others see them: behind the proxies.
    pub(super) fn seats(&self, seats: &[Seat]) -> Vec<Seat> {
        let behind = |(seat, proxy): (&Seat, &SocketAddr)| {
            let mut seat = seat.clone();
            for (_, address) in seat.listen.iter_mut().filter(|(service, _)| *service == Service::Peer) {
                *address = Address::loopback(proxy.port());
            }
            seat
        };
        seats.iter().zip(self.links.listening()).map(behind).collect()
    }

    /// A member runs as this process from now on.
    pub(super) fn runs(&self, member: usize, pid: u32) {
        let mut known = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(other, _)| *other != member);
        known.push((member, pid));
    }
}
