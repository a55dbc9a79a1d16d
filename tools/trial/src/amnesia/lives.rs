//! Cases that are a life in a cluster: a member loses what it promised while the others go on.

use synod_hotstuff::{Header, Message, Statement};
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Harm, Loss, Scenario};

use crate::oracle::{MarkSeen, Phase, Seen, Sighting, Signatures};
use crate::stage::{Event, Fate, Stage, What};

/// Who forgets.
const MEMBER: NodeId = NodeId(3);
/// How long load runs before and after what is lost.
const WHILE: Span = Span::millis(200);
/// In which a member must have rejoined.
const PATIENCE: Span = Span::secs(6);

/// Longer than a sync and the way of a frame.
const UNDER_WAY: Span = Span::millis(20);

type Outcome = Result<String, String>;

fn demand(held: bool, what: &str) -> Result<(), String> {
    if held { Ok(()) } else { Err(what.to_owned()) }
}

/// Four members, two clients with sessions.
fn stage(pack: &str, numbers: &[(&str, i64)]) -> Result<Stage, String> {
    let mut scenario = Scenario::quiet(pack, 7);
    (scenario.guests, scenario.requests, scenario.horizon) = (2, 0, Span::secs(60));
    let usual = [("checkpoint_every", 64), ("timeout_max_ms", 2_000), ("reputation", 0)];
    scenario.options.extend(usual.iter().chain(numbers).map(|(key, value)| ((*key).to_owned(), *value)));
    let mut stage = Stage::new(&scenario)?;
    stage.run(Span::millis(20));
    load(&mut stage, WHILE);
    demand(stage.answered(Span::secs(2)), "a cluster in which all is well does not answer")?;
    Ok(stage)
}

/// Both clients ask for something, again and again.
fn load(stage: &mut Stage, lasts: Span) {
    let until = stage.now() + lasts;
    while stage.now() < until {
        (0..2).for_each(|guest| stage.ask(guest));
        stage.run(Span::millis(20));
    }
}

/// What a message says under its sender's signature.
fn said(message: &Message) -> Option<Seen> {
    let mark = |view: synod_hotstuff::View, digest| MarkSeen { view: view.0, digest };
    Some(match message {
        Message::Propose { header, .. } => Seen::Proposed(mark(header.view, header.digest())),
        Message::Vote { kind, view, digest, .. } => Seen::Voted(mark(*view, *digest), phase(*kind)),
        Message::Order { view, digest, .. } => Seen::Voted(mark(*view, *digest), Phase::Order),
        Message::Complain { view, high, .. } => Seen::Complained { view: view.0, high: high.view.0 },
        _ => return None,
    })
}

const fn phase(kind: synod_hotstuff::Kind) -> Phase {
    use synod_hotstuff::Kind;
    match kind {
        Kind::Prepare => Phase::Prepare,
        Kind::Precommit => Phase::Precommit,
        Kind::Commit => Phase::Commit,
        Kind::Generic => Phase::Generic,
        Kind::Order => Phase::Order,
    }
}

/// Statements of all members, those that forgot included; the first conflict.
fn conflict(stage: &Stage) -> Option<String> {
    let mut oracle = Signatures::default();
    let diary = stage.diary();
    diary.events().iter().find_map(|event| {
        let What::Sent(_, message) = &event.what else { return None };
        let (node, seen) = (event.node.0, said(message)?);
        // A header that a member passes on is another's proposal.
        let foreign =
            matches!(message, Message::Propose { header, .. } if u32::from(header.proposer) != node);
        let sighting = Sighting { at: event.at.0, node, honest: true, incarnation: event.life, seen };
        if foreign { None } else { oracle.see(&sighting).map(|conflict| conflict.what) }
    })
}

/// How often a member signed a promise since then.
fn promises(stage: &Stage, member: NodeId, from: Time) -> usize {
    let promise = |event: &&Event| {
        event.at > from && matches!(&event.what, What::Sent(_, message) if said(message).is_some())
    };
    stage.diary().of(member).filter(promise).count()
}

fn noted(stage: &Stage, member: NodeId, name: &str, from: Time) -> Option<Time> {
    let is =
        |event: &&Event| event.at >= from && matches!(event.what, What::Noted(noted, _) if noted == name);
    stage.diary().of(member).find(is).map(|event| event.at)
}

/// How often a member was started.
fn lives(stage: &Stage, member: NodeId) -> usize {
    stage.diary().of(member).filter(|event| matches!(event.what, What::Started)).count()
}

/// The rest commits, and nobody contradicted itself.
fn goes_on(stage: &mut Stage) -> Result<(), String> {
    let before = stage.book().highest.0;
    load(stage, Span::secs(1));
    demand(stage.book().highest.0 > before, "the others commit nothing")?;
    demand(stage.answered(Span::secs(4)), "the others do not answer")?;
    conflict(stage).map_or(Ok(()), Err)
}

/// What an operator does with `synod node recover`: the member starts with an empty, damaged journal, listens, and
/// promises again by its rejoin rule.
fn repaired(stage: &mut Stage) -> Result<(), String> {
    stage.world().crash(MEMBER, Loss::Durable, Some(Span::millis(40)));
    demand(stage.world().harm(MEMBER, Harm::Wipe), "the disk cannot be replaced")?;
    let at = stage.now();
    load(stage, PATIENCE);
    let Some(back) = stage.diary().rule_at(MEMBER, "J_rejoin", at) else {
        return Err("repaired, it listens for ever".to_owned());
    };
    let early = stage.diary().of(MEMBER).any(|event| {
        event.at > at && event.at < back && matches!(&event.what, What::Sent(_, m) if said(m).is_some())
    });
    demand(!early, "it promised something while it listened")?;
    demand(promises(stage, MEMBER, back) > 5, "repaired, it takes no part")?;
    demand(stage.answered(Span::secs(4)), "commands wait after the repair")?;
    conflict(stage).map_or(Ok(()), Err)
}

/// A member that forgot something is shown it by its peers: it halts, says so, and promises nothing more.
fn halts(stage: &mut Stage, at: Time) -> Outcome {
    load(stage, WHILE);
    let Some(halted) = noted(stage, MEMBER, "rolled_back", at) else {
        return Err("nobody showed it what it forgot".to_owned());
    };
    goes_on(stage)?;
    // What it had written before leaves with the sync under way; a real process ends at once.
    let late = promises(stage, MEMBER, halted + UNDER_WAY);
    demand(late == 0, "it promised something after it was shown what it forgot")?;
    repaired(stage)?;
    let took = (halted.0 - at.0) / 1_000_000;
    Ok(format!(
        "alarm rolled_back {took} ms after the crash, no promise behind it, rejoined after the repair"
    ))
}

fn lying(pack: &str, hidden: bool) -> Result<(Stage, Time), String> {
    let mut stage = stage(pack, &[])?;
    if hidden {
        stage.direct(|sent| match sent.message {
            Message::Status(_) if sent.to == MEMBER => Fate::Drop,
            _ => Fate::Pass,
        });
    }
    demand(stage.world().harm(MEMBER, Harm::Lie(true)), "the disk cannot lie")?;
    load(&mut stage, WHILE);
    let at = stage.now();
    stage.world().crash(MEMBER, Loss::Durable, Some(Span::millis(40)));
    stage.world().harm(MEMBER, Harm::Lie(false));
    Ok((stage, at))
}

/// M1.
pub(super) fn lied_to(pack: &str) -> Outcome {
    let (mut shown, at) = lying(pack, false)?;
    let why = halts(&mut shown, at)?;
    // Where the peers hide what they hold, it is the one faulty member: the others' log has no fork, which the oracles
    // of the stage watch, and they contradict nothing.
    let (mut hidden, at) = lying(pack, true)?;
    let before = hidden.book().highest.0;
    load(&mut hidden, Span::secs(2));
    demand(hidden.book().highest.0 > before, "with the evidence hidden nothing commits")?;
    demand(hidden.answered(Span::secs(4)), "with the evidence hidden commands wait")?;
    let halted = noted(&hidden, MEMBER, "rolled_back", at).is_some();
    demand(!halted, "the evidence was not hidden")?;
    Ok(format!("{why}; with the evidence hidden the log has no fork"))
}

/// M2.
pub(super) fn rolled_back(pack: &str) -> Outcome {
    let mut stage = stage(pack, &[])?;
    demand(stage.world().harm(MEMBER, Harm::Image), "the disk has no image")?;
    load(&mut stage, Span::millis(400));
    let at = stage.now();
    stage.world().crash(MEMBER, Loss::Durable, Some(Span::millis(40)));
    demand(stage.world().harm(MEMBER, Harm::Rollback), "the image does not come back")?;
    halts(&mut stage, at)
}

/// M5.
pub(super) fn wiped(pack: &str) -> Outcome {
    let mut stage = stage(pack, &[])?;
    let at = stage.now();
    repaired(&mut stage)?;
    demand(noted(&stage, MEMBER, "listening", at).is_some(), "nobody is told that it listens")?;
    goes_on(&mut stage)?;
    Ok("listens, says so, rejoins, and promised nothing in between".to_owned())
}

/// M6: a member dies at each of many boundaries between what it writes and what it sends; and every member hears a
/// proposal that fits nothing.
pub(super) fn poisoned(pack: &str) -> Outcome {
    let mut stage = stage(pack, &[])?;
    let mut crashes = 0;
    for boundary in 0..24 {
        let before = lives(&stage, MEMBER);
        stage.world().crash_at(MEMBER, boundary, Loss::Durable, Some(Span::millis(15)));
        load(&mut stage, Span::millis(100));
        crashes += lives(&stage, MEMBER) - before;
    }
    demand(crashes >= 20, "it was not struck often enough")?;
    goes_on(&mut stage)?;
    let alone = (0..3).all(|id| lives(&stage, NodeId(id)) == 1);
    demand(alone, "a crash of one member ended another")?;
    let survivors = bad_proposals(pack)?;
    Ok(format!(
        "{crashes} crashes between effects, nothing said without its record; {survivors} bad proposals end nobody"
    ))
}

/// A liar's proposals fit nothing: their bodies, roots, counts and times are wrong in turn. How many there were.
fn bad_proposals(pack: &str) -> Result<u64, String> {
    let mut stage = stage(pack, &[])?;
    let mut turn = 0_u32;
    let lies = stage.corrupt(NodeId(0), move |sent, pen| {
        let Message::Propose { header, .. } = sent.message else { return Fate::Pass };
        turn += 1;
        let mut bad: Header = header.clone();
        match turn % 4 {
            0 => bad.count = u32::MAX,
            1 => bad.root.0[0] ^= 1,
            2 => bad.height = u64::MAX,
            _ => bad.time.0 = u64::MAX,
        }
        let signature = pen.sign(Statement::Proposal { view: bad.view, digest: bad.digest() });
        Fate::Say(vec![Message::Propose { header: bad, signature }])
    });
    load(&mut stage, Span::secs(3));
    demand(stage.answered(Span::secs(8)), "after bad proposals commands wait")?;
    demand((1..4).all(|id| lives(&stage, NodeId(id)) == 1), "a bad proposal ended a member")?;
    demand(lies.count() > 0, "nobody proposed anything bad")?;
    Ok(lies.count())
}

/// M7: the disk is full when the next promise is written; the process ends before it says it, and goes on afterwards.
pub(super) fn full(pack: &str) -> Outcome {
    let mut stage = stage(pack, &[("blocks", 1)])?;
    let at = stage.now();
    demand(stage.world().harm(MEMBER, Harm::Full(true)), "the disk cannot be full")?;
    load(&mut stage, Span::secs(2));
    demand(lives(&stage, MEMBER) == 2, "it did not end at the full disk")?;
    demand(noted(&stage, MEMBER, "listening", at).is_none(), "a full disk cost it its promises")?;
    let back = stage.now();
    goes_on(&mut stage)?;
    demand(promises(&stage, MEMBER, back) > 5, "it takes no part afterwards")?;
    Ok("ends with nothing said behind the failed write, starts clean, votes again".to_owned())
}
