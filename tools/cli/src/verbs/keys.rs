//! `synod keys`: private keys, what may be shown of them, and cards.

use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, usage};
use crate::verbs::ctx::address;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use synod_config::hex;
use synod_config::{Address, Broker, Card, Exit, Member, NodeKey, SynError, code, spki_pem};

/// Keys: make one, show its public half, sign a card with it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod keys show node.key")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    New(New),
    /// Shows the public half of a key; the secret is never printed.
    #[command(after_help = "Example:\n  synod keys show node.key")]
    Show {
        /// The key file.
        file: PathBuf,
    },
    Card(CardOf),
    Export(Export),
    Import(Import),
    /// Shows the key for multi-signatures (BLS12-381) that belongs to a key, and the proof that its holder has the
    /// secret, as a genesis of protocol chopchop states them.
    #[command(after_help = "Example:\n  synod keys pop node.key")]
    Pop {
        /// The key file.
        file: PathBuf,
    },
    /// Refused: a member's key changes only together with the membership, which is fixed in this release.
    #[command(after_help = "Example:\n  synod keys rotate node.key")]
    Rotate {
        /// The key file.
        file: PathBuf,
    },
}

/// Makes a key from the randomness of the system, in a new file of mode 0600.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod keys new --out fresh.key")]
struct New {
    /// The file, which must not exist.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// What the key is for.
    #[arg(long, value_enum, default_value = "ed25519")]
    kind: Kind,
    /// Shows the key for multi-signatures too, as `keys pop` does: the file holds the secrets of both.
    #[arg(long)]
    bls: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Signatures and transport identity.
    Ed25519,
}

/// Writes a card: name, addresses and public keys, signed by the key. It is public.
///
/// A member's card holds the key for multi-signatures too, with the proof that its holder has the secret, which a cluster of
/// protocol chopchop needs. With --broker it is the card of a broker.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  synod keys card node.key --name n0 --peer 10.0.0.1:7100 --out fresh.card"
)]
struct CardOf {
    /// The key file.
    file: PathBuf,
    /// Name of the member or broker.
    #[arg(long)]
    name: String,
    /// Where the other members connect.
    #[arg(long, value_name = "HOST:PORT", value_parser = address, required_unless_present = "broker")]
    peer: Option<Address>,
    /// Where clients reach a broker, which is whom the card is of.
    #[arg(
        long, value_name = "HOST:PORT", value_parser = address,
        conflicts_with_all = ["peer", "client", "http", "resp"]
    )]
    broker: Option<Address>,
    /// Where binary clients connect.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    client: Option<Address>,
    /// Where HTTP clients connect.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    http: Option<Address>,
    /// Where RESP clients connect.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    resp: Option<Address>,
    /// The card, which must not exist.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Prints the public half in a form other programs read.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod keys export --spki node.key")]
struct Export {
    /// The key file.
    file: PathBuf,
    /// As SubjectPublicKeyInfo in PEM, for TLS libraries and openssl.
    #[arg(long)]
    spki: bool,
}

/// Takes over a key made elsewhere, such as by openssl, into a new key file.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod keys import made.pem --out imported.key")]
struct Import {
    /// Ed25519 in PKCS #8, unencrypted, in PEM; mode 0600, own user, no link.
    file: PathBuf,
    /// The key file, which must not exist.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let report = match self.verb {
            Verb::New(New { out, kind: Kind::Ed25519, bls }) => {
                let key = NodeKey::generate()?;
                key.write_new(&out)?;
                let report = if bls { possessed(&key)? } else { shown(&key) };
                report.field("file", out.display().to_string())
            }
            Verb::Show { file } => shown(&NodeKey::read(&file)?).field("file", file.display().to_string()),
            Verb::Card(card) => card.write()?,
            Verb::Export(export) => export.report()?,
            Verb::Import(Import { file, out }) => {
                let key = NodeKey::read_pkcs8(&file)?;
                key.write_new(&out)?;
                shown(&key).field("file", out.display().to_string())
            }
            Verb::Pop { file } => {
                possessed(&NodeKey::read(&file)?)?.field("file", file.display().to_string())
            }
            Verb::Rotate { .. } => {
                return Err(unsupported(
                    "keys rotate",
                    "the genesis names the key of each member, and the members are fixed",
                ));
            }
        };
        session.output.print(&report)?;
        Ok(Exit::Success)
    }
}

fn unsupported(verb: &str, why: &str) -> SynError {
    SynError::of(code::UNSUPPORTED, &[("verb", verb)]).because(why)
}

fn shown(key: &NodeKey) -> Report {
    Report::new("synod-key/1").field("kind", "ed25519").field("public", hex(&key.public().0))
}

/// Both public keys, and the proof that the holder has the secret of the second.
fn possessed(key: &NodeKey) -> Result<Report, SynError> {
    let (bls, pop) = key.bls_card()?;
    Ok(shown(key).field("bls", hex(&bls)).field("pop", hex(&pop)))
}

impl CardOf {
    fn write(self) -> Result<Report, SynError> {
        let key = NodeKey::read(&self.file)?;
        let card = match (self.broker, self.peer) {
            (Some(datagram), _) => {
                let broker = Broker { name: self.name.clone(), datagram, ed25519: key.public() };
                Card::sign_broker(broker, &key)?
            }
            (None, Some(peer)) => {
                let mut member = Member::new(&self.name, peer, key.public());
                (member.client, member.http, member.resp) = (self.client, self.http, self.resp);
                let (bls, pop) = key.bls_card()?;
                (member.bls, member.pop) = (Some(bls), Some(pop));
                Card::sign(member, &key)?
            }
            (None, None) => return Err(usage("a card states --peer or --broker")),
        };
        // What is written is read back first: a name that no genesis takes is found here, not there.
        Card::parse(&self.out.display().to_string(), &card.to_toml())?;
        card.write_new(&self.out)?;
        Ok(shown(&key).field("name", self.name).field("file", self.out.display().to_string()))
    }
}

impl Export {
    fn report(self) -> Result<Report, SynError> {
        if !self.spki {
            return Err(usage("say in which form: --spki"));
        }
        let key = NodeKey::read(&self.file)?;
        let pem = spki_pem(&key.public());
        Ok(shown(&key).field("spki", pem.clone()).page(pem))
    }
}
