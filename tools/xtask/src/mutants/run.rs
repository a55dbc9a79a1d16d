//! The jobs that try mutants, and what they found.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::copy::Copy;
use super::list::{self, Mutant};
use super::past::{self, Past, Tried};
use super::suite::{Outcome, Suite};
use crate::score::Recorder;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    /// Mutants that compile, at this commit.
    count: usize,
    jobs: usize,
    /// No mutant is begun after so long.
    time_max: Option<Duration>,
    /// Tries the survivors of the past again instead.
    again: bool,
    /// Builds the copies and tries nothing.
    prepare: bool,
    json: bool,
}

impl Options {
    fn read(words: &[&str]) -> anyhow::Result<Self> {
        let mut options =
            Self { count: 20, jobs: 2, time_max: None, again: false, prepare: false, json: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut number = || -> anyhow::Result<usize> {
                let text = words.next().ok_or_else(|| anyhow::anyhow!("{word} needs a number"))?;
                text.parse().map_err(|_| anyhow::anyhow!("{word} needs a number, got `{text}`"))
            };
            match *word {
                "--count" => options.count = number()?,
                "--jobs" => options.jobs = number()?.clamp(1, 16),
                "--seconds" => options.time_max = Some(Duration::from_secs(number()? as u64)),
                "--again" => options.again = true,
                "--prepare" => options.prepare = true,
                "--json" => options.json = true,
                other => anyhow::bail!(
                    "`mutants` takes --count N, --jobs K, --seconds S, --again, --prepare, --json, not `{other}`"
                ),
            }
        }
        Ok(options)
    }
}

/// What the jobs share.
struct Pile<'a> {
    options: &'a Options,
    commit: &'a str,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Mutant>,
    /// Mutants that still have to compile.
    wanted: usize,
    past: Past,
    tried: Vec<Tried>,
    failure: Option<anyhow::Error>,
}

/// Runs the task.
pub(crate) fn run(root: &Path, words: &[&str]) -> anyhow::Result<ExitCode> {
    let options = Options::read(words)?;
    let recorder = Recorder::start(root);
    let file = root.join(past::FILE);
    let past = Past::read(&file)?;
    let all = list::all(root)?;
    if options.prepare {
        return prepare(root, &options, &all, recorder.commit());
    }
    let known = all.len();
    let (waiting, done) = if options.again {
        let names = past.survivors();
        (all.into_iter().filter(|one| names.contains(&one.name)).collect::<VecDeque<_>>(), 0)
    } else {
        let done = past.at(recorder.commit());
        let fresh = list::chosen(all, recorder.commit());
        (fresh.into_iter().filter(|one| !done.iter().any(|t| t.name == one.name)).collect(), viable(&done))
    };
    let wanted = if options.again { waiting.len() } else { options.count.saturating_sub(done) };
    let pile = Pile {
        options: &options,
        commit: recorder.commit(),
        started: Instant::now(),
        state: Mutex::new(State { waiting, wanted, past, ..State::default() }),
    };
    let jobs = options.jobs.min(wanted);
    std::thread::scope(|scope| {
        for job in 0..jobs {
            let copy = place(root, job);
            let (pile, file) = (&pile, &file);
            scope.spawn(move || work(pile, root, copy, file));
        }
    });
    let state = pile.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = state.failure {
        return Err(why);
    }
    let figures = figures(&state.past, &state.tried, recorder.commit(), known);
    if options.json {
        println!("{figures}");
    } else {
        print!("{}", page(&figures));
    }
    recorder.record("mutants", figures)?;
    Ok(ExitCode::SUCCESS)
}

/// Builds in every copy what the tests of every crate need, so that a limit on time is spent on mutants.
fn prepare(root: &Path, options: &Options, all: &[Mutant], commit: &str) -> anyhow::Result<ExitCode> {
    let packages: BTreeSet<&str> = all.iter().map(|mutant| mutant.package.as_str()).collect();
    let packages = &packages;
    let built = move |job: usize| {
        let copy = Copy::of(root, place(root, job))?;
        Suite::new(&copy, commit).prepare(packages.iter().copied())
    };
    std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..options.jobs).map(|job| scope.spawn(move || built(job))).collect();
        let ends = jobs.into_iter().map(|job| job.join().unwrap_or_else(|_| anyhow::bail!("a job panicked")));
        ends.collect::<anyhow::Result<Vec<()>>>()
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Where a job's copy is.
fn place(root: &Path, job: usize) -> PathBuf {
    root.join("target/mutants").join(job.to_string())
}

fn viable(tried: &[&Tried]) -> usize {
    tried.iter().filter(|one| one.outcome != Outcome::Unviable).count()
}

impl Pile<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next mutant, while there is time and one is wanted.
    fn next(&self) -> Option<Mutant> {
        let late = self.options.time_max.is_some_and(|most| self.started.elapsed() >= most);
        let mut state = self.state();
        if late || state.wanted == 0 || state.failure.is_some() {
            return None;
        }
        state.wanted -= 1;
        let mutant = state.waiting.pop_front();
        if mutant.is_none() {
            state.wanted += 1;
        }
        mutant
    }
}

fn work(pile: &Pile<'_>, root: &Path, place: PathBuf, file: &Path) {
    if let Err(why) = worked(pile, root, place, file) {
        pile.state().failure.get_or_insert(why);
    }
}

fn worked(pile: &Pile<'_>, root: &Path, place: PathBuf, file: &Path) -> anyhow::Result<()> {
    let copy = Copy::of(root, place)?;
    let mut suite = Suite::new(&copy, pile.commit);
    while let Some(mutant) = pile.next() {
        suite.baseline(&mutant.package)?;
        let (outcome, by) = copy.with(&mutant, || suite.run(&mutant.package))?;
        let tried =
            Tried { commit: pile.commit.to_owned(), name: mutant.name, package: mutant.package, outcome, by };
        eprintln!("xtask: {} {} ({})", tried.outcome.word(), tried.name, tried.by);
        let mut state = pile.state();
        tried.append(file)?;
        state.past.add(tried.clone());
        if outcome == Outcome::Unviable && !pile.options.again {
            state.wanted += 1;
        }
        state.tried.push(tried);
    }
    Ok(())
}

fn figures(past: &Past, tried: &[Tried], commit: &str, known: usize) -> Value {
    let at = past.at(commit);
    let count = |outcome: Outcome| at.iter().filter(|one| one.outcome == outcome).count();
    let (caught, over) = past.score();
    json!({
        "schema": "synod-mutants/1",
        "known": known,
        "tested": viable(&at),
        "caught": count(Outcome::Caught) + count(Outcome::Timeout),
        "timeouts": count(Outcome::Timeout),
        "unviable": count(Outcome::Unviable),
        "tried_now": tried.len(),
        "score_200": (caught * 100).checked_div(over),
        "score_caught": caught,
        "score_over": over,
        "survivors": past.survivors(),
    })
}

fn page(figures: &Value) -> String {
    let keys = figures.as_object().into_iter().flatten().filter(|(_, value)| !value.is_array());
    let mut text: String = keys.map(|(key, value)| format!("{key} {value}\n")).collect();
    for name in figures.get("survivors").and_then(Value::as_array).into_iter().flatten() {
        text.push_str(&format!("survivor {}\n", name.as_str().unwrap_or_default()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_others_refused() {
        let options = Options::read(&["--count", "5", "--jobs", "1", "--seconds", "60"]).expect("known");
        assert_eq!((options.count, options.jobs, options.time_max), (5, 1, Some(Duration::from_secs(60))));
        assert!(Options::read(&["--again", "--json"]).is_ok_and(|options| options.again && options.json));
        assert!(Options::read(&["--prepare"]).is_ok_and(|options| options.prepare && !options.again));
        assert!(Options::read(&["--count"]).is_err() && Options::read(&["now"]).is_err());
    }

    #[test]
    fn mutants_that_do_not_compile_are_no_tests() {
        let tried = |name: &str, outcome| Tried {
            commit: "c".to_owned(),
            name: name.to_owned(),
            package: "p".to_owned(),
            outcome,
            by: String::new(),
        };
        let mut past = Past::default();
        for one in [tried("a", Outcome::Caught), tried("b", Outcome::Missed), tried("c", Outcome::Unviable)] {
            past.add(one);
        }
        past.add(tried("d", Outcome::Timeout));
        let figures = figures(&past, &[], "c", 9);
        assert_eq!(
            (&figures["tested"], &figures["caught"], &figures["score_200"]),
            (&json!(3), &json!(2), &json!(66))
        );
        assert_eq!(figures["survivors"], json!(["b"]));
        assert!(page(&figures).contains("tested 3\n") && page(&figures).ends_with("survivor b\n"));
    }
}
