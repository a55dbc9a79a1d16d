//! Writing `genesis.toml`, and naming the first place where two of them differ.

use super::build::Genesis;
use super::chop::{Broker, Chop, ChopOrdering};
use super::parameters::Parameters;
use super::pay::Pay;
use super::read::FORMAT;
use super::ubft::{MemoryMember, Ubft};
use crate::errors::SynError;
use crate::files;
use crate::hex;
use crate::units::{format_duration, format_size};
use rustix::fs::Mode;
use std::fmt::Write as _;
use std::path::Path;

/// A value with its section and key.
type Field = (String, &'static str, String);

fn literal(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn chop_cluster(chop: &Chop) -> Vec<Field> {
    let kind = ("cluster".to_owned(), "kind", literal(chop.kind.as_str()));
    let directory = chop.directory.map(|hash| ("cluster".to_owned(), "directory", literal(&hex(&hash.0))));
    std::iter::once(kind).chain(directory).collect()
}

/// What orders under Chop Chop.
fn chop_ordering(genesis: &Genesis) -> Vec<Field> {
    let field = |key, value| ("protocol".to_owned(), key, value);
    let is = |ordering: ChopOrdering| field("ordering", literal(ordering.as_str()));
    let parameters = genesis.parameters();
    match genesis.ubft() {
        None => std::iter::once(is(ChopOrdering::Hotstuff)).chain(ordering(parameters)).collect(),
        Some(ubft) => {
            let every = field("checkpoint_every", parameters.checkpoint_every.to_string());
            // The key belongs to the batches of Chop Chop.
            let own = ubft_protocol(ubft).into_iter().filter(|(_, key, _)| *key != "batch_max");
            [is(ChopOrdering::Ubft), every].into_iter().chain(own).collect()
        }
    }
}

fn chop_protocol(chop: &Chop) -> Vec<Field> {
    let fields = [
        ("batch_max", chop.batch_max.to_string()),
        ("body_bytes_max", chop.body_bytes_max.to_string()),
        ("message_class", literal(chop.class.as_str())),
        ("message_size", chop.message_size.to_string()),
        ("expiry_horizon", chop.expiry_horizon.to_string()),
        ("grant", chop.grant.to_string()),
        ("tokens", chop.tokens.to_string()),
    ];
    fields.map(|(key, value)| ("protocol".to_owned(), key, value)).into()
}

fn ordering(parameters: &Parameters) -> Vec<Field> {
    let fields = [
        ("rules", literal(parameters.rules.as_str())),
        ("term_views", parameters.term_views.to_string()),
        ("votes", literal(parameters.votes.as_str())),
        ("complaints", literal(parameters.complaints.as_str())),
        ("scheme", literal(parameters.scheme.as_str())),
        ("reputation", parameters.reputation.to_string()),
        ("block_bytes", literal(&format_size(u64::from(parameters.block_bytes)))),
        ("block_items", parameters.block_items.to_string()),
        ("filter", literal(parameters.filter.as_str())),
        ("bodies", literal(parameters.bodies.as_str())),
        ("pool_items", parameters.pool_items.to_string()),
        ("view_window", parameters.view_window.to_string()),
        ("checkpoint_every", parameters.checkpoint_every.to_string()),
        ("retain_blocks", parameters.retain_blocks.to_string()),
        ("executor_lag_max", parameters.executor_lag_max.to_string()),
        ("client_auth", literal(parameters.client_auth.as_str())),
        ("session_window", parameters.session_window.to_string()),
    ];
    fields.map(|(key, value)| ("protocol".to_owned(), key, value)).into()
}

fn pay_protocol(pay: &Pay) -> Vec<Field> {
    let fields = [
        ("profile", literal(pay.profile.as_str())),
        ("batch_max", pay.batch_max.to_string()),
        ("batch_bytes", literal(&format_size(u64::from(pay.batch_bytes)))),
        ("window", pay.window.to_string()),
        ("lane_window", pay.lane_window.to_string()),
        ("retain_batches", pay.retain_batches.to_string()),
        ("founders", pay.founders.to_string()),
        ("shards", pay.shards.to_string()),
        ("cut_every", literal(&format_duration(pay.cut_every))),
    ];
    fields.map(|(key, value)| ("protocol".to_owned(), key, value)).into()
}

fn ubft_protocol(ubft: &Ubft) -> Vec<Field> {
    let fields = [
        ("tail", ubft.tail.to_string()),
        ("window", ubft.window.to_string()),
        ("batch_max", ubft.batch_max.to_string()),
        ("fast_wait", literal(&format_duration(ubft.fast_wait))),
        ("suspect_wait", literal(&format_duration(ubft.suspect_wait))),
        ("merge_promises", ubft.merge_promises.to_string()),
    ];
    fields.map(|(key, value)| ("protocol".to_owned(), key, value)).into()
}

fn memory(ubft: &Ubft) -> Vec<Field> {
    let fields = |(at, node): (usize, &MemoryMember)| {
        let address = format!("{{ memory = {} }}", literal(&node.memory.to_string()));
        let fields = [
            ("name", literal(&node.name)),
            ("addresses", address),
            ("ed25519", literal(&hex(&node.ed25519.0))),
        ];
        fields.map(|(key, value)| (format!("memory[{at}]"), key, value))
    };
    ubft.memory.iter().enumerate().flat_map(fields).collect()
}

fn registrars(pay: &Pay) -> Vec<Field> {
    let fields = |(at, registrar): (usize, &super::Registrar)| {
        let fields = [
            ("member", literal(&registrar.member)),
            ("ledger", registrar.ledger.to_string()),
            ("cap", registrar.cap.to_string()),
        ];
        fields.map(|(key, value)| (format!("registrar[{at}]"), key, value))
    };
    pay.registrars.iter().enumerate().flat_map(fields).collect()
}

fn brokers(chop: &Chop) -> Vec<Field> {
    let fields = |(at, broker): (usize, &Broker)| {
        let address = format!("{{ datagram = {} }}", literal(&broker.datagram.to_string()));
        let fields = [
            ("name", literal(&broker.name)),
            ("addresses", address),
            ("ed25519", literal(&hex(&broker.ed25519.0))),
        ];
        fields.map(|(key, value)| (format!("broker[{at}]"), key, value))
    };
    chop.brokers.iter().enumerate().flat_map(fields).collect()
}

impl Genesis {
    /// Every value as (section, key, TOML literal), in the order of the file. Lists repeat their section.
    fn fields(&self) -> Vec<Field> {
        let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let (cluster, parameters) = (self.cluster(), self.parameters());
        let mut fields = vec![(String::new(), "format", FORMAT.to_string())];
        let cluster_fields = [
            ("name", text(&cluster.name)),
            ("protocol", text(cluster.protocol.as_str())),
            ("app", text(&cluster.app)),
            ("f", self.f().to_string()),
            ("epoch", "0".to_owned()),
            ("drill", cluster.drill.to_string()),
        ];
        fields.extend(cluster_fields.map(|(key, value)| ("cluster".to_owned(), key, value)));
        fields.extend(self.chop().into_iter().flat_map(chop_cluster));
        fields.extend(match (self.chop(), self.pay(), self.ubft()) {
            (Some(_), ..) => chop_ordering(self),
            (None, Some(pay), _) => pay_protocol(pay),
            (None, None, Some(ubft)) => ubft_protocol(ubft),
            (None, None, None) => ordering(parameters),
        });
        fields.extend(self.chop().into_iter().flat_map(chop_protocol));
        for (at, member) in self.members().iter().enumerate() {
            let section = format!("member[{at}]");
            let stated =
                member.addresses().into_iter().filter_map(|(key, address)| Some((key, address?.to_string())));
            let addresses: Vec<String> =
                stated.map(|(key, address)| format!("{key} = {}", text(&address))).collect();
            fields.push((section.clone(), "name", text(&member.name)));
            fields.push((section.clone(), "addresses", format!("{{ {} }}", addresses.join(", "))));
            fields.push((section.clone(), "ed25519", text(&hex(&member.ed25519.0))));
            let optional = [
                ("x25519", member.x25519.map(|key| hex(&key))),
                ("bls", member.bls.map(|key| hex(&key))),
                ("pop", member.pop.map(|proof| hex(&proof))),
            ];
            fields.extend(
                optional.into_iter().filter_map(|(key, hex)| Some((section.clone(), key, text(&hex?)))),
            );
            fields.push((section, "stake", member.stake.to_string()));
        }
        fields.extend(self.chop().into_iter().flat_map(brokers));
        fields.extend(self.pay().into_iter().flat_map(registrars));
        fields.extend(self.ubft().into_iter().flat_map(memory));
        for (at, operator) in self.operators().iter().enumerate() {
            let section = format!("operator[{at}]");
            fields.push((section.clone(), "name", text(&operator.name)));
            fields.push((section, "ed25519", text(&hex(&operator.ed25519.0))));
        }
        fields
    }

    /// The text of the file: every value, also those that are defaults. Read back, it gives an equal genesis.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = format!("# Cluster id {}. Every member needs exactly this file.\n", self.id());
        let mut open = String::new();
        for (section, key, value) in self.fields() {
            if section != open {
                let header = match section.split_once('[') {
                    Some((list, _)) => format!("[[{list}]]"),
                    None => format!("[{section}]"),
                };
                let _infallible = writeln!(text, "\n{header}");
                open = section;
            }
            let _infallible = writeln!(text, "{key} = {value}");
        }
        text
    }

    /// Writes the file; nothing is overwritten.
    ///
    /// # Errors
    /// SYN-1109 if something stands at the path, SYN-1101 if the system refuses.
    pub fn write_new(&self, path: &Path) -> Result<(), SynError> {
        let readable = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        files::write_new(path, self.to_toml().as_bytes(), readable)
    }

    /// The first key whose value differs, for SYN-2103; `None` if both say the same.
    #[must_use]
    pub fn first_difference(&self, other: &Self) -> Option<String> {
        let (mine, theirs) = (self.fields(), other.fields());
        let at = (0..mine.len().max(theirs.len())).find(|at| mine.get(*at) != theirs.get(*at))?;
        let (section, key, _) = mine.get(at).or_else(|| theirs.get(at))?;
        Some(if section.is_empty() { (*key).to_owned() } else { format!("{section}.{key}") })
    }
}
