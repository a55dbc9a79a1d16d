//! How a customer reaches nodes: what is said of them beside the genesis.

use crate::session::usage;
use clap::Args;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use synod_config::{Address, SynError, code};
use synod_gateway::Secret;

/// Longest token file that is read: as long as nodes read.
const TOKEN_BYTES_MAX: u64 = 4 << 10;

/// Options of every verb of payments.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every verb of payments")]
pub(in crate::verbs) struct Reach {
    /// Where the node of a member takes HTTP; repeat it. By default where the context or the genesis says.
    #[arg(long = "http", global = true, value_name = "NAME=HOST:PORT", value_parser = place)]
    pub(in crate::verbs) http: Vec<(String, Address)>,
    /// The file with the token that the node asks for (its access.http_token_file); by default that of the context.
    #[arg(long, global = true, value_name = "FILE")]
    pub(in crate::verbs) token_file: Option<PathBuf>,
}

fn place(text: &str) -> Result<(String, Address), String> {
    let pair = text.split_once('=').and_then(|(name, place)| Some((name.to_owned(), Address::parse(place)?)));
    pair.ok_or_else(|| "not of the form NAME=HOST:PORT".to_owned())
}

/// What a node's token file holds. It has no form for people: no log and no error can show it.
#[derive(Clone)]
pub(super) struct Token(String);

impl Token {
    /// Reads a token file by the rules by which nodes read theirs.
    ///
    /// # Errors
    /// Those of [`Secret::read`]; SYN-1103 for one that is not written in visible ASCII, SYN-1101 for one that changes meanwhile.
    pub(super) fn read(path: &Path) -> Result<Self, SynError> {
        let judged = Secret::read(path)?;
        let shown = path.display().to_string();
        let unreadable = |error: std::io::Error| {
            SynError::of(code::CONFIG_UNREADABLE, &[("file", shown.as_str())]).because(error)
        };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(TOKEN_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        let token = bytes.trim_ascii_end();
        if Secret::of(token) != judged {
            return Err(unreadable(std::io::Error::other("it changed while it was read")));
        }
        // Anything else would end the line of the head that it stands in.
        let text =
            std::str::from_utf8(token).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
        text.map(|text| Self(text.to_owned())).ok_or_else(|| {
            let problem = "not a word of visible ASCII characters";
            SynError::of(code::BAD_VALUE, &[("file", &*shown), ("key", "the token"), ("problem", problem)])
        })
    }

    /// The line of a request's head that shows it to a node.
    ///
    /// # Errors
    /// SYN-1001 for an address that others than this machine may hear of: requests are not encrypted.
    pub(super) fn header(&self, address: &Address) -> Result<String, SynError> {
        if !address.is_loopback() {
            return Err(usage(&format!(
                "a token is shown to nodes of this machine alone, and {address} is elsewhere"
            ))
            .because("requests are not encrypted: end TLS or a tunnel at a port of this machine"));
        }
        Ok(format!("Authorization: Bearer {}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_token_is_one_word_of_a_file_that_nobody_else_reads() {
        let path = std::env::temp_dir().join(format!("synod-token-{}", std::process::id()));
        let read = |content: &[u8], mode: u32| {
            std::fs::write(&path, content).expect("the file is written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
            Token::read(&path).map(|token| token.0).map_err(|error| error.code())
        };
        assert_eq!(read(b"0123456789abcdef\n", 0o600), Ok("0123456789abcdef".to_owned()));
        assert_eq!(read(b"0123456789abcdef\n", 0o644), Err(code::KEY_FILE_UNSAFE));
        for wrong in ["two words".as_bytes(), b"a\r\nX: y", b"\xff\xfe"] {
            assert_eq!(read(wrong, 0o600), Err(code::BAD_VALUE), "{wrong:?}");
        }
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(Token::read(&path).map_err(|error| error.code()).err(), Some(code::CONFIG_UNREADABLE));
    }

    #[test]
    fn a_token_does_not_leave_this_machine() {
        let token = Token("word".to_owned());
        assert_eq!(token.header(&Address::loopback(1)), Ok("Authorization: Bearer word".to_owned()));
        let elsewhere = Address::parse("10.0.0.1:7102").expect("an address");
        assert_eq!(token.header(&elsewhere).map_err(|error| error.code()), Err(code::BAD_USAGE));
    }
}
