//! What servers of Chop Chop say of the state they executed, believed once f + 1 of them say the same.
//!
//! *What a read is worth.* There is no barrier beside these servers, so a read names the height that it needs: whoever
//! holds a receipt reads what the receipt's height did. f + 1 equal answers hold one of a correct server; another server
//! may be further on.
//!
//! *Bounds.* One session per server, [`TOGETHER`] questions of each in flight, [`AT_ONCE`] of those that never wait.

use crate::context::client_addresses;
use crate::exit::bug;
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_config::{Genesis, SynError, code};
use synod_host::{ClientSetup, ClusterClient, Mode, Operation, Outcome};
use synod_quorum::NodeId;
use synod_service::{BatchQuestion, BatchStanding};
use synod_wire::{Blob, Bytes, Limits, Wire as _};

/// Questions in flight at one server, which lets 64 reads of one peer wait.
const TOGETHER: usize = 16;
/// Questions in flight at one server that it answers from the state it has.
const AT_ONCE: usize = 512;
/// Pause before servers that differed are asked again.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest wait for the answers to one lot of questions, so that a silent server is asked again.
const ANSWER: Duration = Duration::from_secs(2);

/// How questions are put to one server.
#[derive(Clone, Copy)]
struct Pace {
    /// How many at once: a lot.
    together: usize,
    /// How long a lot may take.
    answer: Duration,
}

/// For those who ask again what was not answered.
const LOOK: Pace = Pace { together: TOGETHER, answer: ANSWER };

/// One server and the session that asks it alone.
struct Server {
    name: String,
    client: Arc<ClusterClient>,
}

/// The servers of a cluster.
pub(crate) struct Servers {
    all: Vec<Server>,
    /// Servers of which one is correct: f + 1.
    need: usize,
}

/// The question of an application.
///
/// # Errors
/// SYN-3002 above the bound of a question.
pub(crate) fn ask(since: u64, question: Vec<u8>) -> Result<BatchQuestion, SynError> {
    let size = format!("{} bytes", question.len());
    let question = Blob::try_from(Bytes::from(question)).map_err(|_| {
        let values = [("what", "the question"), ("size", &*size), ("limit", "4096 bytes")];
        SynError::of(code::TOO_LARGE, &values)
    })?;
    Ok(BatchQuestion::Ask { since, question })
}

impl Servers {
    /// Opens a session with every server whose client address the genesis states.
    ///
    /// # Errors
    /// The code of whatever refused.
    pub(crate) fn connect(genesis: &Genesis) -> Result<Self, SynError> {
        let name = |id: NodeId| {
            let member = usize::try_from(id.0).ok().and_then(|at| genesis.members().get(at));
            member.map_or_else(|| id.0.to_string(), |member| member.name.clone())
        };
        let open = |(id, address): (NodeId, String)| {
            let setup = ClientSetup {
                genesis: genesis.clone(),
                addresses: vec![(id, address)],
                send_all: false,
                trust: "verified",
                nearest: id,
                sessions: 1,
                believe: Some(id),
            };
            Ok(Server { name: name(id), client: Arc::new(ClusterClient::connect(&setup)?) })
        };
        let all = client_addresses(genesis).into_iter().map(open).collect::<Result<_, SynError>>()?;
        let need = usize::try_from(genesis.f()).unwrap_or(usize::MAX).saturating_add(1);
        Ok(Self { all, need })
    }

    /// Asks one server lot after lot; none from the first lot on that lacks an answer, as a server that is behind with its
    /// answers is asked for no more.
    async fn one(
        client: Arc<ClusterClient>,
        questions: Vec<BatchQuestion>,
        pace: Pace,
        patience: Duration,
    ) -> Answers {
        let until = Instant::now() + patience;
        let mut answers = Vec::with_capacity(questions.len());
        for lot in questions.chunks(pace.together) {
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let left = left.min(pace.answer);
            let body = |question: &BatchQuestion| Operation { body: question.encode(), mode: Mode::Local };
            let outcomes = client.ask(lot.iter().map(body).collect(), left).await;
            answers.extend(outcomes.into_iter().map(|outcome| match outcome {
                Outcome::Accepted { value, .. } => Some(value),
                _ => None,
            }));
            if answers.iter().any(Option::is_none) {
                break;
            }
        }
        answers.resize(questions.len(), None);
        answers
    }

    /// What each server answers to each question, by the servers' order; none where it did not.
    pub(crate) async fn each(&self, questions: &[BatchQuestion], patience: Duration) -> Vec<(&str, Answers)> {
        self.tell(questions, Pace { together: TOGETHER, answer: patience }, patience).await
    }

    async fn tell(
        &self,
        questions: &[BatchQuestion],
        pace: Pace,
        patience: Duration,
    ) -> Vec<(&str, Answers)> {
        let start = |server: &Server| {
            tokio::spawn(Self::one(server.client.clone(), questions.to_vec(), pace, patience))
        };
        let asked: Vec<_> = self.all.iter().map(start).collect();
        let mut told = Vec::with_capacity(asked.len());
        for (server, answers) in self.all.iter().zip(asked) {
            let answers = answers.await.unwrap_or_else(|_| vec![None; questions.len()]);
            told.push((server.name.as_str(), answers));
        }
        told
    }

    /// Asks until f + 1 servers give the same answer to each question.
    ///
    /// # Errors
    /// SYN-3401 when too few servers answered in time, SYN-6001 when enough did and they differ.
    pub(crate) async fn believed(
        &self,
        questions: Vec<BatchQuestion>,
        patience: Duration,
    ) -> Result<Vec<Bytes>, SynError> {
        let until = Instant::now() + patience;
        let mut found: Vec<Option<Bytes>> = vec![None; questions.len()];
        loop {
            let open: Vec<usize> = (0..questions.len()).filter(|at| found[*at].is_none()).collect();
            let asked: Vec<BatchQuestion> = open.iter().map(|at| questions[*at].clone()).collect();
            let left = until.saturating_duration_since(Instant::now());
            let told = self.tell(&asked, LOOK, left).await;
            for (index, at) in open.iter().enumerate() {
                let answers = told.iter().filter_map(|(_, answers)| answers.get(index)?.clone());
                found[*at] = agreed(answers.collect(), self.need);
            }
            if found.iter().all(Option::is_some) {
                return Ok(found.into_iter().flatten().collect());
            }
            if Instant::now() >= until {
                return Err(self.refusal(&told));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A height that a correct server executed, and no correct server has to go back below: the (f + 1)-th highest that is
    /// stated.
    ///
    /// # Errors
    /// SYN-3401 when too few servers answered in time.
    pub(crate) async fn height(&self, patience: Duration) -> Result<u64, SynError> {
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let told = self.tell(&[BatchQuestion::Standing], LOOK, left).await;
            let mut heights: Vec<u64> = told.iter().filter_map(|(_, answers)| height_in(answers)).collect();
            heights.sort_unstable_by_key(|height| std::cmp::Reverse(*height));
            if let Some(height) = self.need.checked_sub(1).and_then(|at| heights.get(at)) {
                return Ok(*height);
            }
            if Instant::now() >= until {
                return Err(self.refusal(&told));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What every server answers to each question, by the servers' order.
    ///
    /// # Errors
    /// SYN-2003 with the first server that does not answer all of them in time.
    pub(crate) async fn all(
        &self,
        questions: &[BatchQuestion],
        patience: Duration,
    ) -> Result<Vec<Vec<Bytes>>, SynError> {
        whole(self.each(questions, patience).await)
    }

    /// Where each server stands, by the servers' order.
    ///
    /// # Errors
    /// SYN-2003 with the first server that does not answer in time.
    pub(crate) async fn standings(&self, patience: Duration) -> Result<Vec<BatchStanding>, SynError> {
        let told = self.all(&[BatchQuestion::Standing], patience).await?;
        let standing = |answers: Vec<Bytes>| {
            let answer = answers.into_iter().next().unwrap_or_default();
            BatchStanding::decode(answer, &Limits::default()).map_err(|error| bug("standing", &error))
        };
        told.into_iter().map(standing).collect()
    }

    /// Where each server stands, by the servers' order; none of one that does not say so in time.
    pub(crate) async fn standing_of_each(&self, patience: Duration) -> Vec<Option<BatchStanding>> {
        let told = self.each(&[BatchQuestion::Standing], patience).await;
        told.into_iter().map(|(_, answers)| standing_in(&answers)).collect()
    }

    /// The balances of these accounts at each server, by the servers' order.
    ///
    /// # Errors
    /// SYN-2003 with the first server that does not answer in time; an account that is none.
    pub(crate) async fn balances(&self, ids: &[u32], patience: Duration) -> Result<Vec<Vec<u64>>, SynError> {
        let questions = ids.iter().map(|id| ask(0, id.to_le_bytes().to_vec()));
        let questions = questions.collect::<Result<Vec<_>, _>>()?;
        let told =
            whole(self.tell(&questions, Pace { together: AT_ONCE, answer: patience }, patience).await)?;
        let balance = |(id, answer): (&u32, Bytes)| {
            let balance = answer.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            balance.ok_or_else(|| bug("audit", &format!("client {id} has no account")))
        };
        told.into_iter().map(|answers| ids.iter().zip(answers).map(balance).collect()).collect()
    }

    /// Waits until every server answers and all have executed the same height, twice in a row; that height.
    ///
    /// # Errors
    /// SYN-6006 with the heights when they do not come to one.
    pub(crate) async fn settled(&self, patience: Duration) -> Result<u64, SynError> {
        let until = Instant::now() + patience;
        let mut last = None;
        loop {
            let heights = self.heights(ANSWER).await;
            let same = same(&heights);
            if let Some(height) = same.filter(|_| same == last) {
                return Ok(height);
            }
            last = same;
            if Instant::now() >= until {
                let found = format!("heights {heights:?}");
                let values = [("height", "the end"), ("nodes", &*found)];
                let error = SynError::of(code::STATE_DIVERGENCE, &values);
                return Err(error.because("servers did not come to one height"));
            }
            tokio::time::sleep(2 * PAUSE).await;
        }
    }

    /// The height that each server states, by the servers' order; none where it does not answer.
    async fn heights(&self, patience: Duration) -> Vec<(&str, Option<u64>)> {
        let told = self.each(&[BatchQuestion::Standing], patience).await;
        told.into_iter().map(|(name, answers)| (name, height_in(&answers))).collect()
    }

    fn refusal(&self, told: &[(&str, Answers)]) -> SynError {
        let silent = |(_, answers): &&(&str, Answers)| answers.iter().any(Option::is_none);
        let names: Vec<&str> = told.iter().filter(silent).map(|(name, _)| *name).collect();
        let have = told.len().saturating_sub(names.len());
        if have >= self.need {
            let reply = [("id", "a read of executed state")];
            return SynError::of(code::REPLIES_DISAGREE, &reply)
                .because(format!("{have} servers answered, each from a state of its own"));
        }
        let values =
            [("have", &*have.to_string()), ("need", &*self.need.to_string()), ("names", &*names.join(", "))];
        SynError::of(code::NO_QUORUM, &values)
    }
}

/// What a server answered to each question.
type Answers = Vec<Option<Bytes>>;

/// All answers of all servers.
fn whole(told: Vec<(&str, Answers)>) -> Result<Vec<Vec<Bytes>>, SynError> {
    let of = |(name, answers): (&str, Answers)| {
        let silent = || SynError::of(code::NO_ANSWER, &[("address", name), ("stage", "audit")]);
        answers.into_iter().collect::<Option<Vec<_>>>().ok_or_else(silent)
    };
    told.into_iter().map(of).collect()
}

/// The height that every server states.
fn same(heights: &[(&str, Option<u64>)]) -> Option<u64> {
    let first = heights.first()?.1?;
    heights.iter().all(|(_, height)| *height == Some(first)).then_some(first)
}

fn height_in(answers: &Answers) -> Option<u64> {
    standing_in(answers).map(|standing| standing.height)
}

fn standing_in(answers: &Answers) -> Option<BatchStanding> {
    BatchStanding::decode(answers.first()?.clone()?, &Limits::default()).ok()
}

/// The answer that `need` servers gave, if there is one.
fn agreed(answers: Vec<Bytes>, need: usize) -> Option<Bytes> {
    let times = |answer: &Bytes| answers.iter().filter(|other| *other == answer).count();
    answers.iter().find(|answer| times(answer) >= need).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_liar_among_four_servers_is_never_believed() {
        let answers = |all: &[&'static [u8]]| all.iter().map(|one| Bytes::from_static(one)).collect();
        assert_eq!(agreed(answers(&[b"lie", b"a", b"a"]), 2), Some(Bytes::from_static(b"a")));
        assert_eq!(agreed(answers(&[b"lie", b"a", b"b"]), 2), None, "each from a state of its own");
        assert_eq!(agreed(answers(&[b"lie"]), 2), None);
        assert_eq!(agreed(Vec::new(), 2), None);
    }

    #[test]
    fn a_silent_server_is_at_no_height() {
        assert_eq!(same(&[("n0", Some(3)), ("n1", Some(3))]), Some(3));
        assert_eq!(same(&[("n0", Some(3)), ("n1", Some(4))]), None);
        assert_eq!(same(&[("n0", Some(3)), ("n1", None)]), None);
        assert_eq!(same(&[]), None);
    }

    #[test]
    fn a_server_that_leaves_one_question_open_is_named() {
        let said = || Some(Bytes::from_static(b"a"));
        let all = whole(vec![("n0", vec![said(), said()]), ("n1", vec![said(), said()])]);
        assert_eq!(all.map(|all| all.len()), Ok(2));
        let error = whole(vec![("n0", vec![said()]), ("n1", vec![None])]).expect_err("n1 is silent");
        assert!(error.code() == code::NO_ANSWER && error.message().contains("n1"), "{error:?}");
    }

    #[test]
    fn a_question_above_its_bound_is_refused_before_it_is_sent() {
        assert!(ask(0, vec![0; 4 << 10]).is_ok());
        let refused = ask(0, vec![0; (4 << 10) + 1]).map(drop).map_err(|error| error.code());
        assert_eq!(refused, Err(code::TOO_LARGE));
    }
}
