//! What a wallet says to members: its words as requests to their nodes, their answers as words.
//!
//! Two threads per member, one for entries that it is to carry, whose answers take until they settle, and one for the rest. A word finds
//! no place behind [`DEPTH`] others: links may lose, and the wallet says everything again.

use super::super::institution::System;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use synod_config::{Code, SynError, code, hex, unhex};
use synod_host::pay::wallet::{Answer, Log, OPEN_MAX, Word};
use synod_host::pay::{AccountId, Auth, LINE_BYTES_MAX, Line, digest};
use synod_machine::To;
use synod_quorum::NodeId;
use synod_wire::{Limits, List, Wire as _};

/// Words that wait for one thread: all open entries.
const DEPTH: usize = OPEN_MAX;
/// Answers that wait for the wallet.
const HEARD: usize = 256;

/// What came of a word: the answer, or why there is none.
type Heard = (NodeId, Result<Word, SynError>);

/// See the module.
pub(super) struct Links {
    /// Of each member of which somebody says where it is: for entries, and for the rest.
    lines: BTreeMap<NodeId, [SyncSender<Word>; 2]>,
    heard: Receiver<Heard>,
    /// Why members gave no answer last, by their names.
    pub(super) silent: BTreeMap<String, SynError>,
    names: BTreeMap<NodeId, String>,
}

impl Links {
    /// Begins to speak with every member of a shard of which somebody says where it is.
    ///
    /// # Errors
    /// SYN-1001 where nobody says so of any, SYN-9001 where no thread can start.
    pub(super) fn open(system: &Arc<System>, shard: u16) -> Result<Self, SynError> {
        system.all_of(shard)?;
        let (said, heard) = sync_channel(HEARD);
        let (mut lines, mut names) = (BTreeMap::new(), BTreeMap::new());
        for (member, number) in system.members_of(shard).iter().zip(0..) {
            if system.named(Some(&member.name)).is_err() {
                continue;
            }
            let id = NodeId(number);
            let line = |what: &str| {
                let (line, words) = sync_channel::<Word>(DEPTH);
                let (system, name, said) = (Arc::clone(system), member.name.clone(), said.clone());
                let thread = std::thread::Builder::new().name(format!("wallet-{what}-{number}"));
                let speaks = move || speak(&system, (&name, id), &words, &said);
                // It ends with the process: whoever waits for an answer that nobody needs any more is not waited for.
                thread.spawn(speaks).map(|_| line).map_err(|error| crate::exit::bug("wallet", &error))
            };
            lines.insert(id, [line("carry")?, line("ask")?]);
            names.insert(id, member.name.clone());
        }
        Ok(Self { lines, heard, silent: BTreeMap::new(), names })
    }

    pub(super) fn send(&self, to: To, word: &Word) {
        let is_for = |id: &NodeId| match to {
            To::Node(node) => node == *id,
            To::Set(set) => set.contains(*id),
        };
        let which = usize::from(!matches!(word, Word::Submit(_)));
        for (_, line) in self.lines.iter().filter(|(id, _)| is_for(id)) {
            match line.get(which).map(|line| line.try_send(word.clone())) {
                // It is full of what was said before, or its thread ended with an answer that nobody took.
                None | Some(Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) => {}
            }
        }
    }

    /// The next answer; none where the time passes first.
    pub(super) fn hear(&mut self, patience: Duration) -> Option<(NodeId, Word)> {
        match self.heard.recv_timeout(patience) {
            Ok((from, Ok(word))) => {
                self.names.get(&from).map(|name| self.silent.remove(name));
                Some((from, word))
            }
            Ok((from, Err(error))) => {
                let name = self.names.get(&from).cloned();
                name.map(|name| self.silent.insert(name, error));
                None
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                unreachable!("threads end with their lines, which stand here")
            }
        }
    }
}

/// Says words to a member, one after another.
fn speak(system: &System, (name, id): (&str, NodeId), words: &Receiver<Word>, said: &SyncSender<Heard>) {
    for word in words {
        if said.send((id, answer(system, name, &word))).is_err() {
            return;
        }
    }
}

fn answer(system: &System, name: &str, word: &Word) -> Result<Word, SynError> {
    let at = system.named(Some(name))?;
    match word {
        Word::Check { entry, key } => {
            let body = json!({ "entry": hex(&entry.encode()), "ed25519": hex(&key.0) });
            let answer = judged(at.post("/v1/pay/check", (&body, "the question")))?;
            Ok(Word::Checked { digest: digest(entry), answer })
        }
        Word::Submit(Line { entry, auth: Auth::Owner(signature) }) => {
            let body = json!({ "entry": hex(&entry.encode()), "signature": hex(&signature.0) });
            let what = format!("transfer {}", entry.transfer);
            let answer = judged(at.post("/v1/pay/entries", (&body, &what)))?;
            Ok(Word::Submitted { digest: digest(entry), answer })
        }
        Word::Read(account) => {
            let shown = at.get(&format!("/v1/pay/accounts/{account}/log"))?;
            let strange = || SynError::with_message(code::BUG, "the answer is not that of a node");
            log(*account, &shown).map(|log| Word::Here(Box::new(log))).ok_or_else(strange)
        }
        Word::Submit(_)
        | Word::Checked { .. }
        | Word::Submitted { .. }
        | Word::Here(_)
        | Word::Distil(_)
        | Word::Share { .. } => {
            unreachable!("a wallet asks, and carries what its owner signed")
        }
    }
}

/// What a node says of an entry; an error where it says nothing of it.
fn judged(told: Result<Value, SynError>) -> Result<Answer, SynError> {
    match told {
        Ok(_) => Ok(Answer::Yes),
        Err(error) if error.code() == code::BUSY => Ok(Answer::Busy(0)),
        Err(error) if is_of_ledger(error.code()) => Ok(Answer::No(error.code().number())),
        Err(error) => Err(error),
    }
}

fn is_of_ledger(code: Code) -> bool {
    (3_100..3_200).contains(&code.number())
}

/// A log as a node shows it.
fn log(account: AccountId, shown: &Value) -> Option<Log> {
    let line = |text: &Value| {
        let bytes = unhex(text.as_str()?)?;
        Line::decode(bytes.into(), &Limits { frame_max: LINE_BYTES_MAX }).ok()
    };
    let open: Option<Vec<Line>> = shown["open"].as_array()?.iter().map(line).collect();
    let head = unhex(shown["head"].as_str()?).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())?;
    (shown["account"].as_str()? == account.to_string()).then_some(())?;
    Some(Log {
        account,
        sequence: shown["n"].as_str()?.parse().ok()?,
        head: synod_crypto::Hash(head),
        open: List::try_from(open?).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_says_of_an_entry_is_told_apart_from_no_word_of_it() {
        let of = |code| judged(Err(SynError::of(code, &[]))).map_err(|error| error.code());
        assert_eq!(judged(Ok(json!({ "answer": "ok" }))).map_err(|error| error.code()), Ok(Answer::Yes));
        assert_eq!(of(code::INSUFFICIENT_FUNDS), Ok(Answer::No(3_115)));
        assert_eq!(of(code::BUSY), Ok(Answer::Busy(0)));
        for none in [code::REFUSED, code::DEADLINE_PASSED, code::CONNECTION_LOST, code::NO_CREDENTIALS] {
            assert_eq!(of(none), Err(none));
        }
    }

    #[test]
    fn a_log_that_no_node_would_show_is_none() {
        let account: AccountId = "0-0-2".parse().expect("an account");
        let shown = json!({ "account": "0-0-2", "n": "3", "head": "07".repeat(32), "open": [] });
        let read = log(account, &shown).expect("a log");
        assert_eq!((read.sequence, read.head.0, read.open.len()), (3, [7; 32], 0));
        for (field, wrong) in [
            ("account", json!("0-0-3")),
            ("n", json!(3)),
            ("n", json!("-1")),
            ("head", json!("07")),
            ("open", json!(["00"])),
            ("open", json!(null)),
        ] {
            let mut shown = shown.clone();
            shown[field] = wrong;
            assert!(log(account, &shown).is_none(), "{shown}");
        }
    }
}
