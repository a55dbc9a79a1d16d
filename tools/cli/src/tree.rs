//! The command line: the options of every verb, and from the arguments to a verb and its outcome.

use crate::exit::{Done, finish};
use crate::output::{Format, Output, Report};
use crate::score::record::Recorder;
use crate::session::{Session, usage};
use crate::verbs::Verb;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, ColorChoice, CommandFactory as _, FromArgMatches as _, Parser};
use std::process::ExitCode;
use std::time::Duration;
use synod_config::{Exit, SynError, parse_duration};

/// Keeps a service correct when some of its machines crash, lie or are broken into.
#[derive(Debug, Parser)]
#[command(name = "synod", version, subcommand_required = false, disable_help_subcommand = true)]
#[command(after_help = "Example:\n  synod explain 1109")]
struct Cli {
    #[command(flatten)]
    shared: Shared,
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// Options of every verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every verb")]
struct Shared {
    /// The context to use instead of the selected one.
    #[arg(short = 'c', long, global = true, value_name = "NAME")]
    context: Option<String>,
    /// Form of the data on standard output.
    #[arg(short = 'o', long, global = true, value_enum, value_name = "table|json|csv")]
    #[arg(default_value = "table", hide_possible_values = true, hide_default_value = true)]
    output: Format,
    /// Short for -o json.
    #[arg(long, global = true)]
    json: bool,
    /// How long to wait for answers, such as 500ms or 5s; not 0.
    #[arg(long, global = true, value_name = "TIME", value_parser = timeout)]
    timeout: Option<Duration>,
    /// No escape sequences, as with NO_COLOR or a standard output that is no terminal.
    #[arg(long, global = true)]
    no_color: bool,
    /// Tells progress on standard error.
    #[arg(short = 'v', long, global = true)]
    verbose: bool,
}

fn timeout(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Some(span) if !span.is_zero() => Ok(span),
        Some(_) => Err("a call without time to wait has no outcome".to_owned()),
        None => Err("not a duration such as 500ms or 5s".to_owned()),
    }
}

/// The tree as clap sees it: completions and the manual come from it.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// Reads the arguments of the process, runs the verb, reports.
pub(crate) fn main() -> ExitCode {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    let color = if has("--no-color") { ColorChoice::Never } else { ColorChoice::Auto };
    let matches = command().color(color).try_get_matches_from(&arguments);
    match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => {
            let format = if cli.shared.json { Format::Json } else { cli.shared.output };
            finish(run(cli, format), format)
        }
        Err(error) => {
            let json =
                has("--json") || has("-ojson") || arguments.windows(2).any(|pair| pair == ["-o", "json"]);
            finish(unread(&error), if json { Format::Json } else { Format::Table })
        }
    }
}

fn run(cli: Cli, format: Format) -> Done {
    let session = Session {
        output: Output::new(format, cli.shared.no_color),
        context: cli.shared.context,
        timeout: cli.shared.timeout,
        verbose: cli.shared.verbose,
        recorder: Recorder::start(),
    };
    match cli.verb {
        Some(verb) => verb.run(&session),
        None => greet(&session),
    }
}

/// Bare `synod`: where the user stands and what comes next.
fn greet(session: &Session) -> Done {
    let context = session.chosen()?;
    let steps = next_steps(context.is_some());
    let mut report = Report::new("synod/1").field("version", env!("CARGO_PKG_VERSION"));
    let name = context.map(|context| context.name);
    report = report.field("context", name.clone()).field("next", steps.clone());
    let about = command().get_about().map(ToString::to_string).unwrap_or_default();
    let page = format!("synod {}\n{about}.\n", env!("CARGO_PKG_VERSION"));
    let page = page + &name.as_ref().map_or(String::new(), |name| format!("context: {name}\n"));
    let lines: String = steps.iter().map(|step| format!("next: {step}\n")).collect();
    session.output.print(&report.page(page + &lines + "next: synod --help\n"))?;
    Ok(Exit::Success)
}

/// Commands worth running next. Only verbs of this build are named.
pub(crate) fn next_steps(has_context: bool) -> Vec<&'static str> {
    let first = [("demo", "synod demo"), ("up", "synod up")];
    let then = [("status", "synod status"), ("why", "synod why"), ("ctx", "synod ctx ls")];
    let wanted: &[(&str, &str)] = if has_context { &then } else { &first };
    let tree = command();
    let known = wanted.iter().filter(|(verb, _)| tree.find_subcommand(verb).is_some());
    let steps: Vec<&str> = known.map(|(_, step)| *step).collect();
    if steps.is_empty() { vec!["synod init --name shop --nodes 4 --out cluster"] } else { steps }
}

/// Help and version go to standard output; everything else is SYN-1001.
fn unread(error: &clap::Error) -> Done {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that has gone, as in `synod --help | head`, is no failure.
            drop(error.print());
            Ok(Exit::Success)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            Err(usage("a verb is missing").because(verbs_of(error)))
        }
        _ => Err(refusal(error)),
    }
}

fn verbs_of(error: &clap::Error) -> String {
    let text = error.to_string();
    let listed = text.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let names: Vec<&str> = listed
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    if names.is_empty() {
        "the verb takes one of its own verbs".to_owned()
    } else {
        format!("one of {}", names.join(", "))
    }
}

/// Clap's first paragraph is the message, its suggestions are the causes.
fn refusal(error: &clap::Error) -> SynError {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim);
    let paragraph = lines.collect::<Vec<_>>().join(" ");
    let refusal = usage(paragraph.strip_prefix("error: ").unwrap_or(&paragraph));
    let suggestions =
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    suggestions.into_iter().filter_map(|kind| error.get(kind)).fold(refusal, |refusal, value| match value {
        ContextValue::String(word) => refusal.because(format!("the nearest is {word}")),
        ContextValue::Strings(words) if !words.is_empty() => {
            refusal.because(format!("the nearest is {}", words.join(" or ")))
        }
        _ => refusal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_verb_has_an_about_line_and_an_example() {
        fn check(command: &clap::Command, path: &str, seen: &mut u32) {
            assert!(command.get_about().is_some(), "{path} says nothing about itself");
            let example = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(example.starts_with("Example:\n  synod"), "{path} has no example");
            *seen += 1;
            for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
                check(inner, &format!("{path} {}", inner.get_name()), seen);
            }
        }
        let mut seen = 0;
        check(&command(), "synod", &mut seen);
        assert!(seen > 20, "only {seen} verbs were checked");
    }

    #[test]
    fn the_next_step_is_a_line_of_this_tree() {
        for has_context in [false, true] {
            for step in next_steps(has_context) {
                let words = step.split_whitespace();
                assert!(command().try_get_matches_from(words).is_ok(), "{step}");
            }
        }
    }
}
