//! `synod client verify`: a proof checked offline, against a genesis and nothing else.

use super::behind::{behind, shown_behind};
use super::receipts::{self, Checked, Checker};
use super::two::{shown_two, two_entries};
use crate::exit::Done;
use crate::output::Report;
use crate::proof::{Proof, RECEIPT, invalid};
use crate::session::Session;
use clap::Args;
use std::path::PathBuf;
use synod_config::{Exit, Genesis, Rules, SynError, code};
use synod_crypto::{Evidence, Keys, Seed, verify_evidence};
use synod_host::pay;
use synod_hotstuff::{Anchor, CommitProof, Commitment, EntryProof, Pack, Qc, Statement};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Bytes, Limits, Wire};

/// Checks a proof offline and says what was proved, and by whom.
///
/// The receipt of a payment proves its level: payer, payee and amount, and the members who say so. A proof behind a cut proves how an
/// account stood, that it was not there, or what all accounts of a ledger were owed. Two entries prove that the holder of a key signed both for one
/// place of an account. A receipt of Chop Chop proves that f + 1 servers delivered a client's message. A file whose name ends in .jsonl holds
/// one receipt per line, and all of them are checked.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod client verify votes.proof --genesis cluster/genesis.toml")]
pub(super) struct Arguments {
    /// The proof, or receipts in a file that ends in .jsonl.
    file: PathBuf,
    /// The genesis of the cluster; by default that of the context.
    #[arg(long, value_name = "FILE")]
    genesis: Option<PathBuf>,
}

/// What signatures prove, in words.
struct Proved {
    what: String,
    view: Option<u64>,
    digest: String,
    position: Option<u64>,
}

impl Arguments {
    pub(super) fn run(self, session: &Session) -> Done {
        let genesis = crate::context::genesis_of(session, self.genesis.as_deref())?;
        if self.file.extension().is_some_and(|ending| ending == receipts::MANY) {
            let cluster = synod_host::chop::cluster(&genesis)?;
            let checked = Checker::new(&cluster).check_lines(&self.file, &genesis)?;
            return shown(session, &genesis, &checked);
        }
        let proof = Proof::read(&self.file)?;
        receipts::is_of(&proof, &genesis)?;
        if proof.kind == RECEIPT {
            let cluster = synod_host::chop::cluster(&genesis)?;
            let last = Checker::new(&cluster).check(&proof)?;
            let signers = last.certificate.aggregate.signers.set();
            return shown(session, &genesis, &Checked { count: 1, last, signers });
        }
        if proof.kind == pay::KIND {
            let proved = payment(&proof, &genesis)?;
            session.output.print(&shown_payment(&proved, &genesis))?;
            return Ok(Exit::Success);
        }
        if proof.kind == pay::CUT_KIND {
            let found = behind(proof, &genesis)?;
            session.output.print(&shown_behind(&found, &genesis))?;
            return Ok(Exit::Success);
        }
        if proof.kind == pay::TWO_ENTRIES {
            let two = two_entries(&proof, &genesis)?;
            session.output.print(&shown_two(&two, &genesis))?;
            return Ok(Exit::Success);
        }
        let (proved, signers) = check(&proof.kind, proof.bytes()?, &genesis)?;
        let names = signers.iter().map(|signer| name(&genesis, signer)).collect::<Vec<_>>();
        let report = Report::new("synod-verify/1")
            .field("kind", proof.kind)
            .field("cluster", genesis.cluster().name.clone())
            .field("epoch", proof.epoch)
            .field("proved", proved.what)
            .field("view", proved.view)
            .field("digest", proved.digest)
            .field("position", proved.position)
            .field("signers", names);
        session.output.print(&report)?;
        Ok(Exit::Success)
    }
}

/// Says what receipts prove.
fn shown(session: &Session, genesis: &Genesis, checked: &Checked) -> Done {
    let Checked { count, last, signers } = checked;
    let said = &last.certificate.statement;
    let names = signers.iter().map(|signer| name(genesis, signer)).collect::<Vec<_>>();
    let report = Report::new("synod-verify/1")
        .field("kind", RECEIPT)
        .field("cluster", genesis.cluster().name.clone())
        .field("epoch", genesis.roster().epoch().0)
        .field("proved", "this client's message was delivered")
        .field("receipts", *count)
        .field("client", last.id)
        .field("message", synod_config::hex(&last.message))
        .field("height", said.height)
        .field("batch", said.digest.to_string())
        .field("signers", names);
    session.output.print(&report)?;
    Ok(Exit::Success)
}

/// Checks the receipt of a payment.
///
/// # Errors
/// SYN-2101 for another cluster, SYN-6003 for another epoch, and those of [`pay::check`].
pub(crate) fn payment(proof: &Proof, genesis: &Genesis) -> Result<pay::Proved, SynError> {
    receipts::is_of(proof, genesis)?;
    if proof.kind != pay::KIND {
        return Err(invalid(&format!("it is a proof of kind {:?}", proof.kind)));
    }
    if proof.epoch != genesis.roster().epoch().0 {
        return Err(SynError::of(code::EPOCH_UNKNOWN, &[("epoch", &proof.epoch.to_string())]));
    }
    pay::check(proof.bytes()?, genesis)
}

/// Says what the receipt of a payment proves.
pub(crate) fn shown_payment(proved: &pay::Proved, genesis: &Genesis) -> Report {
    let level = match proved.level {
        pay::Level::Accepted | pay::Level::Certified => "certified",
        pay::Level::Settled => "settled",
        pay::Level::Stable => "stable",
    };
    // A receipt numbers the members of its shard.
    let shard = proved.entry.id.spender.shard;
    let member = |NodeId(number)| pay::Seat { shard, number }.member(genesis);
    let called = |signer| member(signer).map_or_else(|| "?".to_owned(), |member| name(genesis, member));
    let names = |members: NodeSet| members.iter().map(called).collect::<Vec<_>>();
    let known = pay::known(&proved.entry);
    let report = Report::new("synod-verify/1")
        .field("kind", pay::KIND)
        .field("cluster", genesis.cluster().name.clone())
        .field("epoch", genesis.roster().epoch().0)
        .field("proved", said(&known, level))
        .field("level", level)
        .field("payment", known.kind)
        .field("id", known.id.to_string())
        .field("from", known.from.to_string())
        .field("n", known.n.to_string())
        .field("to", known.to.map(|to| to.to_string()))
        .field("amount", known.amount.map(|amount| amount.to_string()));
    with_parts(report, &known)
        .field("ledger", known.ledger)
        .field("code", known.code)
        .field("digest", proved.digest.to_string())
        .field("batch", format!("{}-{}", proved.lot.source, proved.lot.sequence))
        .field("certified_by", names(proved.certified_by))
        .field("settled_by", names(proved.settled_by))
}

/// What an entry of this level does, in words: who reads them must not take money set aside for money paid.
fn said(known: &pay::Known, level: &str) -> String {
    let amount = known.amount.unwrap_or(0);
    match known.kind {
        "pay" => format!("this payment is {level}"),
        "multi" => format!("this payment to {} accounts is {level}", known.legs.len()),
        "hold" => format!("this hold is {level}: it sets {amount} aside and pays nothing"),
        "post" => format!("this verdict is {level}: it pays {amount} of what was held and frees the rest"),
        "void" => format!("this verdict is {level}: it frees what was held and pays nothing"),
        kind => format!("this entry of kind {kind} is {level}"),
    }
}

/// Adds what only some entries have: legs, holds by their places in the logs of their payers, and whose orders decide.
fn with_parts(mut report: Report, known: &pay::Known) -> Report {
    if !known.legs.is_empty() {
        let legs = known.legs.iter().map(|(to, amount)| format!("{to}={amount}"));
        report = report.field("legs", legs.collect::<Vec<_>>());
    }
    if !known.holds.is_empty() {
        let holds = known.holds.iter().map(|hold| format!("{}/{}", hold.spender, hold.n));
        report = report.field("holds", holds.collect::<Vec<_>>());
    }
    if let Some((resolver, expires_at)) = known.resolver {
        report = report.field("resolver", resolver.to_string()).field("expires_at", expires_at.to_string());
    }
    report
}

pub(super) fn name(genesis: &Genesis, signer: NodeId) -> String {
    let index = usize::try_from(signer.0).ok();
    index.and_then(|index| genesis.members().get(index)).map_or("?", |member| &member.name).to_owned()
}

fn check(kind: &str, bytes: Bytes, genesis: &Genesis) -> Result<(Proved, NodeSet), SynError> {
    match kind {
        "certificate" => prove(bytes, genesis, |qc: &Qc| {
            Ok(Proved {
                what: format!("a quorum cast its {:?} votes for this block", qc.kind),
                view: Some(qc.view.0),
                digest: qc.digest.to_string(),
                position: None,
            })
        }),
        "commit" => prove(bytes, genesis, |proof: &CommitProof| {
            of_rules(&proof.commitment, genesis.parameters().rules)?;
            Ok(Proved {
                what: "this block is committed".to_owned(),
                view: Some(proof.header.view.0),
                digest: proof.header.digest().to_string(),
                position: None,
            })
        }),
        "entry" => prove(bytes, genesis, |entry: &EntryProof| {
            of_rules(&entry.proof.commitment, genesis.parameters().rules)?;
            Ok(Proved {
                what: "this entry stands in a committed block".to_owned(),
                view: None,
                digest: entry.id.to_string(),
                position: None,
            })
        }),
        "checkpoint" => prove(bytes, genesis, |anchor: &Anchor| {
            let state = anchor.certificate.state();
            Ok(Proved {
                what: "a quorum has the state of this root at this position".to_owned(),
                view: Some(state.view.0),
                digest: state.root.to_string(),
                position: Some(state.position.0),
            })
        }),
        _ => Err(SynError::of(code::UNSUPPORTED, &[("what", &format!("a proof of kind {kind:?}"))])),
    }
}

/// The signatures of a commit say what was voted for; whether that commits is what the cluster's rules say.
fn of_rules(commitment: &Commitment, rules: Rules) -> Result<(), SynError> {
    if Pack::named(rules.as_str()).is_some_and(|pack| commitment.is_of(pack)) {
        return Ok(());
    }
    Err(invalid(&format!(
        "nothing commits for this reason under the rules of the cluster, {}",
        rules.as_str()
    )))
}

fn prove<E: Evidence<Statement = Statement> + Wire>(
    bytes: Bytes,
    genesis: &Genesis,
    tell: impl FnOnce(&E) -> Result<Proved, SynError>,
) -> Result<(Proved, NodeSet), SynError> {
    let evidence =
        E::decode(bytes, &Limits::default()).map_err(|malformed| invalid(&format!("{malformed:?}")))?;
    let told = tell(&evidence)?;
    let mut signers = NodeSet::EMPTY;
    for group in evidence.groups().map_err(|refusal| invalid(&refusal.to_string()))? {
        signers = group.signed.iter().fold(signers, |signers, (signer, ..)| signers.with(*signer));
    }
    // Only public keys are used: the secret is one that nobody has.
    let keys = Keys::ed25519(&Seed::new([0; 32]), [0; 32]);
    verify_evidence(evidence, &keys, genesis.id(), genesis.roster())
        .map_err(|refusal| invalid(&refusal.to_string()))?;
    Ok((told, signers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_crypto::Hash;
    use synod_hotstuff::{Header, Kind};
    use synod_quorum::Epoch;

    #[test]
    fn two_blocks_in_a_row_commit_nothing_where_the_rules_want_three() {
        let qc = |kind| Qc::empty(Epoch(0), kind, Hash::ZERO);
        let block = || Box::new(Header::genesis(Epoch(0), Kind::Generic));
        let two = Commitment::TwoChain { child: block(), qc: qc(Kind::Generic) };
        let three = Commitment::ThreeChain { child: block(), grandchild: block(), qc: qc(Kind::Generic) };
        let orders = Commitment::Direct(qc(Kind::Order));
        let decision = Commitment::Direct(qc(Kind::Commit));
        for (rules, reasons) in [
            (Rules::Chain3, [false, true, false, false]),
            (Rules::Chain2, [true, false, false, false]),
            (Rules::Chain2Order, [true, false, true, false]),
            (Rules::Basic, [false, false, false, true]),
        ] {
            let held = [&two, &three, &orders, &decision].map(|reason| of_rules(reason, rules).is_ok());
            assert_eq!(held, reasons, "{}", rules.as_str());
        }
        let told = of_rules(&two, Rules::Chain3).expect_err("a chain of two").to_string();
        assert!(told.contains("SYN-6002") && told.contains("chain3"), "{told}");
    }

    /// An entry as users see it, of this kind.
    fn known(kind: &'static str) -> pay::Known {
        let account = |text: &str| text.parse::<pay::AccountId>().expect("an account");
        pay::Known {
            id: 8,
            kind,
            from: account("0-0-2"),
            n: 3,
            to: Some(account("0-1-2")),
            amount: Some(60),
            legs: Vec::new(),
            resolver: None,
            holds: Vec::new(),
            owner: None,
            representative: None,
            limit: None,
            ledger: 1,
            code: 0,
        }
    }

    #[test]
    fn what_is_proved_is_said_by_kind_and_nothing_held_is_called_paid() {
        for (kind, word) in [("pay", "payment"), ("hold", "60 aside and pays nothing"), ("post", "pays 60")] {
            let told = said(&known(kind), "stable");
            assert!(told.contains("stable") && told.contains(word), "{told}");
        }
        for kind in ["hold", "post", "void", "close", "rekey"] {
            let told = said(&known(kind), "settled");
            assert!(told.contains("settled") && !told.contains("payment"), "{told}");
        }
    }

    #[test]
    fn legs_holds_and_who_decides_are_shown() {
        let shown = |known: &pay::Known| with_parts(Report::new("synod-verify/1"), known).to_json();
        let all = pay::Known {
            legs: vec![(known("pay").from, 5), (known("pay").from, 7)],
            resolver: Some((known("pay").from, 99)),
            ..known("multi")
        };
        let told = shown(&all);
        for part in [r#""legs":["0-0-2=5","0-0-2=7"]"#, r#""resolver":"0-0-2""#, r#""expires_at":"99""#] {
            assert!(told.contains(part), "{told}");
        }
        assert!(said(&all, "stable").contains("to 2 accounts"));
        let plain = shown(&known("pay"));
        assert!(["legs", "holds", "resolver"].iter().all(|part| !plain.contains(part)), "{plain}");
    }
}
