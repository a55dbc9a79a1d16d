//! Which options were given, and for which parts each of them means something.

use super::ChopOptions;
use crate::bench::Part;
use crate::session::usage;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use synod_config::SynError;

use Part::{Apps, Auth, Broker, E2e, Faults, Linerate, Partial, Real, Server};

/// Parts that `all` runs.
pub(super) const PARTS: [Part; 8] = [Auth, Server, Real, E2e, Linerate, Partial, Apps, Faults];

const EVERY: &[Part] = &[Auth, Server, Real, Broker, E2e, Linerate, Partial, Apps, Faults];
const GENERATED: &[Part] = &[Auth, Server, E2e, Linerate, Partial, Apps, Faults];
const LOAD: &[Part] = &[E2e, Linerate, Partial, Apps, Faults];
const CLIENTS: &[Part] = &[Real, Broker];

/// Every option but those of the result, and the parts that it goes with. Some parts take one of its values only and refuse the
/// others themselves.
pub(super) const MEANT: [(&str, &[Part]); 29] = [
    ("ids", GENERATED),
    ("distilled", GENERATED),
    ("batch", GENERATED),
    ("size", &[Auth, Server, Real, E2e, Linerate, Partial, Apps, Faults]),
    ("clients", EVERY),
    ("id_space", GENERATED),
    ("pool", GENERATED),
    ("share", &[Server]),
    ("window", &[Server, E2e, Linerate, Partial, Apps, Faults]),
    ("span", EVERY),
    ("warmup", EVERY),
    ("repeat", EVERY),
    ("no_ablations", EVERY),
    ("no_huge_pages", GENERATED),
    ("i_am_a_test", EVERY),
    ("rate", LOAD),
    ("ordering", &[E2e]),
    ("app", &[E2e, Linerate, Partial, Faults]),
    ("durability", LOAD),
    ("retain", &[Faults]),
    ("silent", CLIENTS),
    ("invalid", CLIENTS),
    ("sockets", CLIENTS),
    ("honest", CLIENTS),
    ("brokers", CLIENTS),
    ("pace", CLIENTS),
    ("enrol", CLIENTS),
    ("messages", CLIENTS),
    ("kill_broker", CLIENTS),
];
/// Options without a value.
const FLAGS: [&str; 4] = ["no_ablations", "no_huge_pages", "i_am_a_test", "kill_broker"];
/// Where receipts go is no option of a part that is run beside others.
pub(super) const RECEIPTS: (&str, &[Part]) = ("receipts", CLIENTS);

/// The options that stand on the command line, with their values as they stand there.
#[derive(Clone, Debug, Default)]
pub(super) struct Given(Vec<(&'static str, Vec<String>)>);

/// Its option as users write it.
fn long(id: &str) -> String {
    match id {
        "span" => "--for".to_owned(),
        _ => format!("--{}", id.replace('_', "-")),
    }
}

fn goes_with(part: Part, meant: &[Part]) -> bool {
    match part {
        Part::All => PARTS.iter().any(|part| meant.contains(part)),
        part => meant.contains(&part),
    }
}

impl Given {
    /// Refuses options that mean nothing for `part`, so that none is taken and forgotten.
    pub(super) fn check(&self, part: Part) -> Result<(), SynError> {
        let all = MEANT.iter().chain(std::iter::once(&RECEIPTS));
        for (id, meant) in all {
            if self.0.iter().any(|(given, _)| given == id) && !goes_with(part, meant) {
                let name = part.name();
                return Err(usage(&format!("{} means nothing with --part {name}", long(id))));
            }
        }
        Ok(())
    }

    /// The options that go with `part`, as words of a command line; those of the times are not among them.
    pub(super) fn words(&self, part: Part) -> Vec<String> {
        let timed = ["span", "warmup", "repeat"];
        let mut words = Vec::new();
        for (id, meant) in MEANT.iter().chain(std::iter::once(&RECEIPTS)) {
            let given = self.0.iter().find(|(given, _)| given == id);
            let Some((_, values)) = given.filter(|_| meant.contains(&part) && !timed.contains(id)) else {
                continue;
            };
            match FLAGS.contains(id) {
                true => words.push(long(id)),
                false => words.extend(values.iter().map(|value| format!("{}={value}", long(id)))),
            }
        }
        words
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for (id, _) in MEANT.iter().chain(std::iter::once(&RECEIPTS)) {
            if matches.value_source(id) == Some(ValueSource::CommandLine) {
                let values = matches.get_raw(id).into_iter().flatten();
                given.push((*id, values.map(|value| value.to_string_lossy().into_owned()).collect()));
            }
        }
        Ok(Self(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// No options of its own: it looks at those of others.
impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

/// The options of one part, from words.
pub(super) fn read(part: &str, words: &[String]) -> Result<ChopOptions, SynError> {
    let line = ["chop", "--part", part].into_iter().chain(words.iter().map(String::as_str));
    let matches = ChopOptions::augment_args(Command::new("chop")).try_get_matches_from(line);
    let options = matches.and_then(|matches| ChopOptions::from_arg_matches(&matches));
    options.map_err(|error| usage(&error.to_string()))
}
