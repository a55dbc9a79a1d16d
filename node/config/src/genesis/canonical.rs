//! The canonical encoding: every value in the order of the file, behind a format byte.
//!
//! Texts and lists carry their length, options a presence byte, words the number below. Words are numbered here
//! and not by their place in an enumeration, so that reordering one cannot change the id of a cluster.

use super::build::{Genesis, Protocol};
use super::member::{Member, Operator};
use super::parameters::{Bodies, ClientAuth, Complaints, Filter, Parameters, Rules, Scheme, Votes};
use crate::address::Address;
use synod_wire::{Bytes, Writer};

/// First byte of the encoding.
const FORMAT: u8 = 1;

impl Genesis {
    /// The bytes whose BLAKE3 digest is the cluster id.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = Writer::with_capacity(256 + 256 * self.members().len());
        out.byte(FORMAT);
        let cluster = self.cluster();
        text(&mut out, &cluster.name);
        out.byte(match cluster.protocol {
            Protocol::Hotstuff => 1,
            Protocol::Chopchop if self.ubft().is_some() => 5,
            Protocol::Chopchop => 2,
            Protocol::Astro => 3,
            Protocol::Ubft => 4,
        });
        text(&mut out, &cluster.app);
        out.varint(self.f());
        out.varint(u64::from(self.roster().epoch().0));
        flag(&mut out, cluster.drill);
        match (self.pay(), self.ubft()) {
            (Some(pay), _) => pay.encode(&mut out),
            (None, Some(ubft)) => ubft.encode(&mut out),
            (None, None) => parameters(&mut out, self.parameters()),
        }
        out.count(self.members().len());
        for one in self.members() {
            member(&mut out, one);
        }
        out.count(self.operators().len());
        for Operator { name, ed25519 } in self.operators() {
            text(&mut out, name);
            out.bytes(&ed25519.0);
        }
        if let Some(chop) = self.chop() {
            chop.encode(&mut out);
            if self.ubft().is_some() {
                out.varint(u64::from(self.parameters().checkpoint_every));
            }
        }
        out.freeze()
    }
}

fn parameters(out: &mut Writer, parameters: &Parameters) {
    out.byte(match parameters.rules {
        Rules::Basic => 1,
        Rules::Chain3 => 2,
        Rules::Chain2 => 3,
        Rules::Chain2Order => 4,
        Rules::Hs2 => 5,
        Rules::Naive2 => 6,
        Rules::Paper => 7,
    });
    out.varint(u64::from(parameters.term_views));
    out.byte(match parameters.votes {
        Votes::Broadcast => 1,
        Votes::Leader => 2,
    });
    out.byte(match parameters.complaints {
        Complaints::Broadcast => 1,
        Complaints::LeaderFirst => 2,
    });
    out.byte(match parameters.scheme {
        Scheme::Ed25519 => 1,
        Scheme::Bls => 2,
    });
    flag(out, parameters.reputation);
    out.varint(u64::from(parameters.block_bytes));
    out.varint(u64::from(parameters.block_items));
    out.byte(match parameters.filter {
        Filter::Branch => 1,
        Filter::Off => 2,
        Filter::Seen => 3,
        Filter::Committed => 4,
    });
    out.byte(match parameters.bodies {
        Bodies::Digest => 1,
        Bodies::Full => 2,
        Bodies::MinExec => 3,
    });
    out.varint(u64::from(parameters.pool_items));
    out.varint(u64::from(parameters.view_window));
    out.varint(u64::from(parameters.checkpoint_every));
    out.varint(u64::from(parameters.retain_blocks));
    out.varint(u64::from(parameters.executor_lag_max));
    out.byte(match parameters.client_auth {
        ClientAuth::Signed => 1,
        ClientAuth::Channel => 2,
    });
    out.varint(u64::from(parameters.session_window));
}

fn member(out: &mut Writer, member: &Member) {
    text(out, &member.name);
    for (_, address) in member.addresses() {
        text(out, &address.map(Address::to_string).unwrap_or_default());
    }
    out.bytes(&member.ed25519.0);
    optional(out, member.x25519.as_ref().map(<[u8; 32]>::as_slice));
    optional(out, member.bls.as_ref().map(<[u8; 48]>::as_slice));
    optional(out, member.pop.as_ref().map(<[u8; 96]>::as_slice));
    out.varint(member.stake);
}

fn text(out: &mut Writer, text: &str) {
    out.count(text.len());
    out.bytes(text.as_bytes());
}

fn flag(out: &mut Writer, flag: bool) {
    out.byte(u8::from(flag));
}

fn optional(out: &mut Writer, bytes: Option<&[u8]>) {
    flag(out, bytes.is_some());
    out.bytes(bytes.unwrap_or_default());
}
