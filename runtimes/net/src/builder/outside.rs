//! The tasks beside reactor 0: who may come in by which door, and whom this node calls.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use synod_quorum::NodeId;
use tokio::sync::watch;

use super::NodeBuilder;
use crate::Error;
use crate::config::{Address, Bound, Listener, Role, Transport};
use crate::counters::Counters;
use crate::dial::{Call, keep};
use crate::handshake::Local;
use crate::listen::{Welcome, listen};
use crate::mailbox::Mailbox;
use crate::quotas::{Door, places};
use crate::reactor::Lines;
use crate::tls::{Pins, Tls};

/// The tasks beside reactor 0: listeners and diallers.
pub(super) struct Outside {
    doors: Vec<(Bound, Door, Arc<Welcome>)>,
    calls: Vec<Call>,
}

impl Outside {
    pub(super) fn with_calls(
        mut self,
        lines: Vec<watch::Receiver<Lines>>,
        addresses: Vec<watch::Receiver<Option<Address>>>,
    ) -> Self {
        for (peer, (lines, address)) in (0..).map(NodeId).zip(lines.into_iter().zip(addresses)) {
            if let Some(call) = self.calls.iter_mut().find(|call| call.peer == peer) {
                call.lines = lines;
                call.address = address;
            }
        }
        self
    }

    pub(super) fn spawn(self) {
        for (bound, door, welcome) in self.doors {
            tokio::spawn(async move {
                if let Err(error) = listen(bound, door, welcome).await {
                    tracing::error!(%error, "a listener ended");
                }
            });
        }
        for call in self.calls {
            tokio::spawn(keep(call));
        }
    }
}

impl NodeBuilder {
    pub(super) fn outside(
        &mut self,
        local: &Arc<Local>,
        mailbox: &Arc<Mailbox>,
        counters: &Arc<Counters>,
    ) -> Result<Outside, Error> {
        let config = &self.config;
        let within = Duration::from_nanos(config.limits.handshake.0);
        let tls = match config.transport {
            Transport::Tls => Some(Tls::new(&config.seed)?),
            Transport::InsecurePlain => None,
        };
        let members: BTreeSet<_> = config.roster.members().iter().map(|member| member.key).collect();
        let places = places(config.limits.handshakes_max);
        let mut doors = Vec::new();
        let listeners = [
            (self.peers.take(), Role::Member, Pins::Only(members)),
            (self.guests.take(), Role::Guest, Pins::Anyone),
        ];
        for (listener, role, pins) in listeners {
            let Some(Listener(bound)) = listener else { continue };
            let welcome = Welcome {
                local: local.clone(),
                tls: tls.as_ref().map(|tls| tls.listener(pins)).transpose()?,
                role,
                within,
                mailbox: mailbox.clone(),
                counters: counters.clone(),
                observer: self.observer.clone(),
            };
            let door = Door::new(places.clone(), config.limits.connections_per_address);
            doors.push((bound, door, Arc::new(welcome)));
        }
        let mut calls = Vec::new();
        for (peer, member) in (0..).map(NodeId).zip(config.roster.members()) {
            if peer == config.own {
                continue;
            }
            let tls = tls.as_ref().map(|tls| tls.dial(member.key)).transpose()?;
            let (_, address) = watch::channel(None);
            let (_, lines) = watch::channel(Lines::default());
            calls.push(Call {
                peer,
                key: member.key,
                address,
                lines,
                local: local.clone(),
                tls,
                role: config.role,
                within,
                mailbox: mailbox.clone(),
                counters: counters.clone(),
                observer: self.observer.clone(),
            });
        }
        Ok(Outside { doors, calls })
    }
}
