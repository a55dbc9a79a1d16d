//! `synod man`: the manual, made from the tree.

use crate::exit::Done;
use crate::session::Session;
use crate::tree;
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use synod_config::{EXITS, Exit, SynError, code};

/// The manual page of every verb, as roff.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod man --out man1")]
pub(crate) struct Arguments {
    /// Writes one page per verb into this directory instead of one page to standard output.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        match &self.out {
            Some(directory) => pages(directory)?,
            None => {
                let mut page = Vec::new();
                whole(&mut page).expect("a vector takes every write");
                session.output.raw(&String::from_utf8_lossy(&page))?;
            }
        }
        Ok(Exit::Success)
    }
}

fn pages(directory: &Path) -> Result<(), SynError> {
    let written = std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(tree::command().disable_help_subcommand(true), directory));
    written.map_err(|error| {
        SynError::of(code::CONFIG_UNREADABLE, &[("file", &directory.display().to_string())]).because(error)
    })
}

/// The page of `synod` with a section that lists every verb of every depth, and the exit codes.
fn whole(out: &mut dyn Write) -> io::Result<()> {
    let mut command = tree::command();
    command.build();
    let man = Man::new(command.clone());
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    let mut verbs = Roff::new();
    verbs.control("SH", ["VERBS"]);
    describe(&command, "synod", &mut verbs);
    verbs.control("SH", ["EXIT STATUS"]);
    for row in EXITS {
        verbs.control("TP", []);
        verbs.text([bold(row.exit.number().to_string())]).text([roman(row.meaning)]);
    }
    verbs.to_writer(&mut *out)?;
    man.render_version_section(out)
}

fn describe(command: &Command, path: &str, page: &mut Roff) {
    for verb in command.get_subcommands() {
        let path = format!("{path} {}", verb.get_name());
        page.control("TP", []);
        page.text([bold(path.clone())]);
        page.text([roman(verb.get_about().map(ToString::to_string).unwrap_or_default())]);
        if let Some(example) = verb.get_after_help() {
            page.control("IP", []);
            page.text([roman(example.to_string().replace('\n', " "))]);
        }
        describe(verb, &path, page);
    }
}
