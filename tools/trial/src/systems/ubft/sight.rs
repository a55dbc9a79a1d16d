//! From what the simulator shows to what the oracles understand: frames, decoded.

use synod_crypto::Hash;
use synod_machine::Message as _;
use synod_ubft::certificate::{Certificate, Certified, Checkpoint, Left, Snapshotted, Subject, Summarized};
use synod_ubft::message::Message;
use synod_ubft::replica::Word;
use synod_ubft::{Body, ctb};
use synod_wire::{Bytes, Limits, Wire, Writer};

use crate::oracle::ubft::{About, Gaps, Heard, Spoken, Streamed};

const LIMITS: Limits = Limits { frame_max: 16 << 20 };

/// Decodes a frame body.
#[must_use]
pub fn opened(body: &Bytes) -> Option<Message> {
    let own = body.first() == Some(&Message::VERSION);
    own.then(|| Message::decode(body.slice(1..), &LIMITS).ok()).flatten()
}

/// A frame as it travels: the version, then the message.
#[must_use]
pub fn sealed(message: &Message) -> Bytes {
    let mut out = Writer::with_capacity(1 + message.size_hint());
    out.byte(Message::VERSION);
    message.write(&mut out);
    out.freeze()
}

/// A message of a stream, if it is one.
#[must_use]
pub fn streamed(body: &Bytes) -> Option<Body> {
    Body::decode(body.clone(), &LIMITS).ok()
}

fn proposal(epoch: u32, of: &Certified) -> (About, Hash) {
    (About::Proposal { epoch, view: of.view.0, slot: of.slot.0 }, of.digest)
}

fn checkpoint(of: &Checkpoint) -> (About, Hash) {
    (About::Checkpoint { epoch: of.epoch.0, low: of.low.0 }, of.digest())
}

fn summary(epoch: u32, of: &Summarized) -> (About, Hash) {
    (About::Summary { epoch, about: u32::from(of.about), k: of.k }, of.state)
}

/// Everything of where a replica stood, as one digest.
fn stood(low: u64, checkpoint: Hash, commits: Hash) -> Hash {
    Hash::of(&[&low.to_le_bytes()[..], &checkpoint.0, &commits.0].concat())
}

fn left(epoch: u32, of: &Left) -> (About, Hash) {
    let about = About::Left { epoch, view: of.view.0, about: u32::from(of.about) };
    let value = match of.statement(0) {
        synod_ubft::Statement::Left { low, checkpoint, commits, .. } => stood(low.0, checkpoint, commits),
        _ => Hash::ZERO,
    };
    (about, value)
}

fn snapshot(of: &Snapshotted) -> (About, Hash) {
    (About::Snapshot { low: of.low.0 }, of.root)
}

fn shown<T: Subject>((about, value): (About, Hash), certificate: &Certificate<T>) -> Spoken {
    let signers = certificate.signed.iter().map(|(member, _)| u32::from(*member)).collect();
    Spoken::Certificate(about, value, signers)
}

/// What a message of a stream says, and what it shows to be certified.
fn of_stream(epoch: u32, k: u64, body: &Body, spoken: &mut Vec<Spoken>) {
    let word = match body {
        Body::Prepare { view, slot, batch } => Streamed::Prepare(view.0, slot.0, batch.digest()),
        Body::Commit(certificate) => {
            spoken.push(shown(proposal(epoch, &certificate.subject), certificate));
            Streamed::Commit(certificate.subject.view.0, certificate.subject.slot.0)
        }
        Body::Checkpoint(certificate) => {
            spoken.push(shown(checkpoint(&certificate.subject), certificate));
            let Checkpoint { low, end, .. } = certificate.subject;
            Streamed::Checkpoint(low.0, end.map(|end| end.0))
        }
        Body::SealView(view) => Streamed::SealView(view.0),
        Body::NewView { view, left: shares } => {
            spoken.extend(shares.iter().map(|one| shown(left(epoch, &one.subject), one)));
            Streamed::NewView(view.0)
        }
        Body::Ref { .. } => Streamed::Ref,
    };
    spoken.push(Spoken::Streamed(epoch, k, word));
}

fn of_ctb(me: u32, (epoch, broadcaster): (u32, u32), word: &ctb::Message, spoken: &mut Vec<Spoken>) {
    match word {
        ctb::Message::Lock { k, body } if broadcaster == me => {
            spoken.push(Spoken::Signed(epoch, *k, Hash::of(body.bytes())));
            if let Some(body) = streamed(body.bytes()) {
                of_stream(epoch, *k, &body, spoken);
            }
        }
        ctb::Message::Signed { broadcaster, k, digest, .. } if u32::from(*broadcaster) == me => {
            spoken.push(Spoken::Signed(epoch, *k, *digest));
        }
        ctb::Message::Locked { broadcaster, k, told, promise } => {
            let (of, digest) = (u32::from(*broadcaster), locked(told));
            spoken.push(Spoken::Locked(epoch, of, *k, digest));
            if *promise {
                spoken.push(Spoken::Promised(epoch, of, *k, digest));
            }
        }
        _ => {}
    }
}

/// The digest of what a receiver says it locked.
fn locked(told: &ctb::Told) -> Hash {
    match told {
        ctb::Told::Raw(body) => Hash::of(body.bytes()),
        ctb::Told::Digest(digest) => *digest,
    }
}

/// What a replica hears in a frame of `from` that bears on what it promised with what it locked.
#[must_use]
pub fn heard(from: u32, message: &Message) -> Option<Heard> {
    let Message::Word { epoch, word: Word::Ctb { broadcaster, word } } = message else { return None };
    let (epoch, of) = (epoch.0, u32::from(*broadcaster));
    match word {
        ctb::Message::Lock { k, body } if of == from => match streamed(body.bytes()) {
            Some(Body::Prepare { view, slot, .. }) => {
                Some(Heard::Proposed(epoch, of, *k, Hash::of(body.bytes()), (view.0, slot.0)))
            }
            _ => None,
        },
        ctb::Message::Locked { broadcaster, k, told, .. } if u32::from(*broadcaster) == of && of != from => {
            Some(Heard::Locked(epoch, of, *k, locked(told)))
        }
        _ => None,
    }
}

/// What one life of a replica hears in a frame of `from` that takes it forward in a stream.
pub fn missed(gaps: &mut Gaps, life: (u32, u32), from: u32, message: &Message) {
    let Message::Word { epoch, word } = message else { return };
    match word {
        Word::Ctb { word: ctb::Message::Signed { broadcaster, k, .. }, .. } => {
            gaps.hear_signed((life, epoch.0, u32::from(*broadcaster)), *k);
        }
        Word::Ctb { word: ctb::Message::Locked { broadcaster, k, .. }, .. } => {
            gaps.hear_locked((life, epoch.0, u32::from(*broadcaster)), from, *k);
        }
        Word::Summary(of) => {
            let subject = &of.certificate.subject;
            let signers: Vec<u32> = of.certificate.signed.iter().map(|(id, _)| u32::from(*id)).collect();
            let lane = (life, epoch.0, u32::from(subject.about));
            gaps.hear_summary(lane, (subject.k, subject.state), &signers);
        }
        _ => {}
    }
}

/// What replica `me` says in a frame.
#[must_use]
pub fn spoken(me: u32, message: &Message) -> Vec<Spoken> {
    let mut spoken = Vec::new();
    match message {
        Message::Word { epoch, word } => of_word(me, epoch.0, word, &mut spoken),
        Message::CertifySnapshot { snapshot: of, .. } => {
            let (about, value) = snapshot(of);
            spoken.push(Spoken::Share(about, value));
        }
        Message::Standing(standing) => {
            for certificate in standing.start.iter().chain(&standing.newest) {
                spoken.push(shown(checkpoint(&certificate.subject), certificate));
            }
            if let Some(certificate) = &standing.snapshot {
                spoken.push(shown(snapshot(&certificate.subject), certificate));
            }
        }
        _ => {}
    }
    spoken
}

fn of_word(me: u32, epoch: u32, word: &Word, spoken: &mut Vec<Spoken>) {
    let mut share = |(about, value): (About, Hash)| spoken.push(Spoken::Share(about, value));
    match word {
        Word::Ctb { broadcaster, word } => of_ctb(me, (epoch, u32::from(*broadcaster)), word, spoken),
        Word::WillCertify { view, slot, tag } => {
            spoken.push(Spoken::WillCertify(epoch, view.0, slot.0, *tag));
        }
        Word::WillCommit { view, slot, tag } => {
            spoken.push(Spoken::WillCommit(epoch, view.0, slot.0, *tag));
        }
        Word::Certify { view, slot, digest, .. } => {
            share(proposal(epoch, &Certified { view: *view, slot: *slot, digest: *digest }));
        }
        Word::CertifyCheckpoint { checkpoint: of, .. } => share(checkpoint(of)),
        Word::CertifySummary { summarized, .. } => share(summary(epoch, summarized)),
        Word::CertifyLeft { view, about, low, checkpoint, commits, .. } => {
            let about = About::Left { epoch, view: view.0, about: u32::from(*about) };
            share((about, stood(low.0, *checkpoint, *commits)));
        }
        // One of another stream is passed on as it came, and checked by whoever asked for it.
        Word::Summary(of) if u32::from(of.certificate.subject.about) == me => {
            spoken.push(shown(summary(epoch, &of.certificate.subject), &of.certificate));
        }
        Word::Checkpoint(certificate) => {
            spoken.push(shown(checkpoint(&certificate.subject), certificate));
        }
        Word::Summary(_) | Word::Hint { .. } | Word::Fetch(_) | Word::Content { .. } | Word::Left(_) => {}
    }
}

/// The kind of message in a frame.
#[must_use]
pub fn kind(body: &Bytes) -> Option<&'static str> {
    Some(match opened(body)? {
        Message::Word { word, .. } => match word {
            Word::Ctb { word, .. } => match word {
                ctb::Message::Lock { .. } => "lock",
                ctb::Message::Signed { .. } => "signed",
                ctb::Message::Locked { .. } => "locked",
                ctb::Message::Nack { .. } => "nack",
                ctb::Message::Memory(_) => "memory",
            },
            Word::WillCertify { .. } => "will_certify",
            Word::WillCommit { .. } => "will_commit",
            Word::Certify { .. } => "certify",
            Word::CertifyCheckpoint { .. } => "certify_checkpoint",
            Word::CertifySummary { .. } => "certify_summary",
            Word::CertifyLeft { .. } => "certify_left",
            Word::Summary(_) => "summary",
            Word::Hint { .. } => "hint",
            Word::Fetch(_) => "fetch",
            Word::Content { .. } => "content",
            Word::Checkpoint(_) => "checkpoint",
            Word::Left(_) => "left",
        },
        Message::Echo { .. } => "echo",
        Message::Forward { .. } => "forward",
        Message::FetchLog { .. } => "fetch_log",
        Message::Log { .. } => "log",
        Message::Register { .. } => "register",
        Message::Attach { .. } => "attach",
        Message::Ask { .. } => "ask",
        Message::Read { .. } => "read",
        Message::Registered { .. } => "registered",
        Message::Reply { .. } => "reply",
        Message::NeedSigned { .. } => "need_signed",
        Message::Answer { .. } => "answer",
        Message::Hello { .. } => "hello",
        Message::Change(_) => "change",
        Message::FetchStanding => "fetch_standing",
        Message::Standing(_) => "standing",
        Message::CertifySnapshot { .. } => "certify_snapshot",
        Message::SawBoot { .. } => "saw_boot",
        Message::FetchChunk { .. } => "fetch_chunk",
        Message::Chunk { .. } => "chunk",
    })
}
