//! `contexts.toml`: the clusters a user talks to, one of them selected.
//!
//! The file stands in a directory that the caller names (the user's XDG configuration directory) and has mode
//! 0600, since addresses and directories are nobody else's business. At most 64 contexts.

use crate::address::Address;
use crate::errors::{SynError, code};
use crate::files;
use crate::table::{Key, Kind, Section, bad_value};
use rustix::fs::Mode;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Most contexts.
pub const CONTEXTS_MAX: usize = 64;

const FILE_NAME: &str = "contexts.toml";
const FILE_BYTES_MAX: usize = 256 << 10;
/// Most addresses of one context, one per member.
const ADDRESSES_MAX: usize = 128;

const CONTEXT_KEYS: &[Key] = &[
    Key::new("format", Kind::Count(1, 1), "", "Format of the file."),
    Key::new("current", Kind::Name(63), "", "The selected context."),
    Key::new("previous", Kind::Name(63), "", "The one selected before."),
    Key::new("context.name", Kind::Name(63), "", "Name of the context."),
    Key::new("context.genesis", Kind::Path, "", "The genesis of its cluster."),
    Key::new("context.addresses", Kind::Addresses(ADDRESSES_MAX), "", "Client addresses of its nodes."),
    Key::new("context.directory", Kind::PathOrNone, "", "Directory of the deployment."),
    Key::new("context.resp", Kind::AddressOrOff, "", "RESP gateway or proxy."),
    Key::new("context.http", Kind::AddressOrOff, "", "HTTP gateway or proxy."),
    Key::new("context.member", Kind::Name(63), "", "The member whose node takes HTTP there."),
    Key::new("context.token_file", Kind::PathOrNone, "", "Bearer token for HTTP."),
    Key::new("context.managed", Kind::Flag, "false", "Whether it goes when its directory does."),
];

/// One cluster as a user reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Its name, unique.
    pub name: String,
    /// The genesis that replies are verified against.
    pub genesis: PathBuf,
    /// Client addresses of the nodes, 128 at most; none where users speak HTTP alone.
    pub addresses: Vec<Address>,
    /// Directory of the deployment, if it is on this machine.
    pub directory: Option<PathBuf>,
    /// RESP gateway or proxy.
    pub resp: Option<Address>,
    /// HTTP gateway or proxy.
    pub http: Option<Address>,
    /// The member whose node takes HTTP there, where it matters who does.
    pub member: Option<String>,
    /// The file with the bearer token that it asks for.
    pub token_file: Option<PathBuf>,
    /// Whether the program that made the directory made this context too, so that it goes when the directory does.
    pub managed: bool,
}

impl Context {
    /// Whether it was made with its directory, and the directory is no longer there.
    fn is_gone(&self) -> bool {
        let directory = self.directory.as_ref().filter(|_| self.managed);
        // A directory that cannot be looked at may be there.
        directory.is_some_and(|path| {
            path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        })
    }
}

/// All contexts of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contexts {
    list: Vec<Context>,
    current: Option<String>,
    previous: Option<String>,
}

impl Contexts {
    /// Reads `contexts.toml` in `directory`; without the file there are no contexts.
    ///
    /// # Errors
    /// SYN-1101 to SYN-1103 for a file that is not one, SYN-1110 for a newer one.
    pub fn read(directory: &Path) -> Result<Self, SynError> {
        let path = directory.join(FILE_NAME);
        match path.symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            _ => Self::parse(&files::shown(&path), &files::read_text(&path, FILE_BYTES_MAX)?),
        }
    }

    /// Writes `contexts.toml` into `directory` with mode 0600 as one step, making the directory if need be.
    ///
    /// # Errors
    /// SYN-1101 if the system refuses.
    pub fn write(&self, directory: &Path) -> Result<(), SynError> {
        std::fs::create_dir_all(directory)
            .map_err(|error| files::failed(code::CONFIG_UNREADABLE, directory, error))?;
        files::replace(&directory.join(FILE_NAME), self.to_toml().as_bytes(), Mode::RUSR | Mode::WUSR)
    }

    /// Reads the text of a file; `file` names it in messages.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(file: &str, text: &str) -> Result<Self, SynError> {
        let mut top = Section::top_of_format(file, text, CONTEXT_KEYS, (1, FILE_BYTES_MAX))?;
        let mut contexts = Self::default();
        for section in top.list("context", CONTEXTS_MAX)? {
            contexts.add(read_context(&section)?)?;
        }
        contexts.current = top.text("current")?;
        contexts.previous = top.text("previous")?;
        for (leaf, name) in [("current", &contexts.current), ("previous", &contexts.previous)] {
            if let Some(name) = name.as_ref().filter(|name| contexts.get(name).is_none()) {
                return Err(top.refusal(leaf, &format!("{name:?}, which no context is called")));
            }
        }
        Ok(contexts)
    }

    /// The text of the file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let mut text = "format = 1\n".to_owned();
        for (key, name) in [("current", &self.current), ("previous", &self.previous)] {
            if let Some(name) = name {
                let _infallible = writeln!(text, "{key} = {}", quoted(name));
            }
        }
        for context in &self.list {
            let addresses: Vec<String> =
                context.addresses.iter().map(|address| quoted(&address.to_string())).collect();
            let lines = [
                ("name", Some(context.name.clone())),
                ("genesis", Some(context.genesis.display().to_string())),
                ("directory", context.directory.as_ref().map(|path| path.display().to_string())),
                ("resp", context.resp.as_ref().map(Address::to_string)),
                ("http", context.http.as_ref().map(Address::to_string)),
                ("member", context.member.clone()),
                ("token_file", context.token_file.as_ref().map(|path| path.display().to_string())),
            ];
            let _infallible = writeln!(text, "\n[[context]]\naddresses = [{}]", addresses.join(", "));
            if context.managed {
                text += "managed = true\n";
            }
            for (key, value) in lines {
                if let Some(value) = value {
                    let _infallible = writeln!(text, "{key} = {}", quoted(&value));
                }
            }
        }
        text
    }

    /// Adds a context.
    ///
    /// # Errors
    /// SYN-1109 if the name is taken, SYN-1103 if it is no name, if there are too many addresses, or if there are 64
    /// contexts already.
    pub fn add(&mut self, context: Context) -> Result<(), SynError> {
        Kind::Name(63)
            .read_text(&context.name)
            .map_err(|problem| bad_value(FILE_NAME, "context.name", &problem))?;
        if self.get(&context.name).is_some() {
            let path = format!("context {}", context.name);
            return Err(SynError::of(code::ALREADY_INITIALISED, &[("path", &path)]));
        }
        if context.addresses.len() > ADDRESSES_MAX {
            let found =
                format!("{} addresses long; {ADDRESSES_MAX} at most are allowed", context.addresses.len());
            return Err(bad_value(FILE_NAME, "context.addresses", &found));
        }
        if self.list.len() >= CONTEXTS_MAX {
            return Err(bad_value(
                FILE_NAME,
                "context",
                &format!("full; remove one of {CONTEXTS_MAX} first"),
            ));
        }
        self.list.push(context);
        Ok(())
    }

    /// Selects a context; the one selected so far becomes the previous.
    ///
    /// # Errors
    /// SYN-1103 with the nearest name.
    pub fn select(&mut self, name: &str) -> Result<&Context, SynError> {
        self.known(name)?;
        if self.current.as_deref() != Some(name) {
            self.previous = self.current.replace(name.to_owned());
        }
        self.show(name)
    }

    /// Selects the context selected before, as `ctx -` does.
    ///
    /// # Errors
    /// SYN-1103 if there is none.
    pub fn select_previous(&mut self) -> Result<&Context, SynError> {
        match self.previous.clone() {
            Some(name) => self.select(&name),
            None => Err(bad_value(FILE_NAME, "previous", "missing: no context was selected before")),
        }
    }

    /// Removes a context. If it was selected, none is.
    ///
    /// # Errors
    /// SYN-1103 with the nearest name.
    pub fn remove(&mut self, name: &str) -> Result<Context, SynError> {
        let at = self.known(name)?;
        for slot in [&mut self.current, &mut self.previous] {
            if slot.as_deref() == Some(name) {
                *slot = None;
            }
        }
        Ok(self.list.remove(at))
    }

    /// Removes the managed contexts whose directory is gone, and returns them. If the selected one is among them, the
    /// one selected before is selected, if it is still there.
    pub fn forget_gone(&mut self) -> Vec<Context> {
        let (gone, kept): (Vec<_>, Vec<_>) = self.list.drain(..).partition(Context::is_gone);
        self.list = kept;
        let left = |name: &String| self.list.iter().any(|context| context.name == *name);
        self.previous = self.previous.take().filter(left);
        self.current = self.current.take().filter(left).or_else(|| self.previous.take());
        gone
    }

    /// A context by name.
    ///
    /// # Errors
    /// SYN-1103 with the nearest name.
    pub fn show(&self, name: &str) -> Result<&Context, SynError> {
        let at = self.known(name)?;
        Ok(self.list.get(at).expect("the place of a known context is in the list"))
    }

    /// A context by name, if there is one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Context> {
        self.list.iter().find(|context| context.name == name)
    }

    /// The selected context.
    #[must_use]
    pub fn current(&self) -> Option<&Context> {
        self.current.as_deref().and_then(|name| self.get(name))
    }

    /// The context selected before.
    #[must_use]
    pub fn previous(&self) -> Option<&Context> {
        self.previous.as_deref().and_then(|name| self.get(name))
    }

    /// All contexts, in the order they were added.
    #[must_use]
    pub fn list(&self) -> &[Context] {
        &self.list
    }

    fn known(&self, name: &str) -> Result<usize, SynError> {
        let place = self.list.iter().position(|context| context.name == name);
        place.ok_or_else(|| {
            let short: String = name.chars().take(64).collect();
            let names = self.list.iter().map(|context| context.name.as_str());
            let problem = match names.min_by_key(|known| strsim::damerau_levenshtein(&short, known)) {
                Some(nearest) => format!("{short:?}, which does not exist; the nearest is {nearest:?}"),
                None => format!("{short:?}, which does not exist; there are no contexts"),
            };
            bad_value(FILE_NAME, "context", &problem)
        })
    }
}

fn read_context(section: &Section<'_>) -> Result<Context, SynError> {
    let address = |leaf: &str| Ok::<_, SynError>(section.text(leaf)?.and_then(|text| Address::parse(&text)));
    let path = |leaf: &str| {
        let text = section.text(leaf)?.filter(|text| !text.is_empty());
        Ok::<_, SynError>(text.map(PathBuf::from))
    };
    Ok(Context {
        name: section.required("name")?,
        genesis: PathBuf::from(section.required("genesis")?),
        addresses: section.addresses("addresses", ADDRESSES_MAX)?,
        directory: path("directory")?,
        resp: address("resp")?,
        http: address("http")?,
        member: section.text("member")?,
        token_file: path("token_file")?,
        managed: section.flag("managed")?.unwrap_or(false),
    })
}

#[cfg(test)]
mod tests;
