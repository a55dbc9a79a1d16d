//! Runs the binary in a directory of its own: its configuration, its working directory, no colours from outside.

use serde_json::Value;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The private key of RFC 8410, section 10.3, as openssl would write it.
const MADE: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
    -----END PRIVATE KEY-----\n";

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A working directory with an empty user configuration; removed at the end.
pub(crate) struct Rig(PathBuf);

/// What a run gave.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        let Output { status, stdout, stderr } = output;
        let text = |bytes| String::from_utf8(bytes).expect("what is printed is text");
        Self { code: status.code().expect("it ended by itself"), out: text(stdout), err: text(stderr) }
    }
}

impl Rig {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("synod-cli-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the directory for temporary files is writable");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The command `synod` with these arguments, as a shell would split them.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_synod"));
        command.args(line.split_whitespace());
        self.furnish(&mut command);
        command
    }

    /// Gives a command the directory and the environment of this rig.
    pub(crate) fn furnish(&self, command: &mut Command) {
        command.current_dir(&self.0);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SYNOD_") {
                command.env_remove(name);
            }
        }
        command.env_remove("NO_COLOR").env("HOME", &self.0);
        command.env("XDG_CONFIG_HOME", self.path("xdg")).env("XDG_DATA_HOME", self.path("share"));
        command.env("XDG_STATE_HOME", self.path("state"));
    }

    pub(crate) fn run(&self, line: &str) -> Ran {
        Ran::of(self.command(line).output().expect("the binary starts"))
    }

    /// Runs a line in a shell whose `synod` is the binary under test.
    pub(crate) fn shell(&self, line: &str) -> Ran {
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_synod"));
        let first = binary.parent().expect("the binary is in a directory").display();
        let path = format!("{first}:{}", std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        self.furnish(&mut shell);
        let ran = shell.args(["-ec", line]).env("PATH", path).output().expect("a shell starts");
        Ran::of(ran)
    }

    /// Runs a line that must succeed.
    pub(crate) fn ok(&self, line: &str) -> String {
        let ran = self.run(line);
        assert_eq!(ran.code, 0, "synod {line}: {}", ran.err);
        ran.out
    }

    /// Runs a line that must succeed, and reads the one JSON object it prints.
    pub(crate) fn json(&self, line: &str) -> Value {
        let out = self.ok(&format!("{line} --json"));
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("synod {line} --json: {error}: {out}"))
    }

    /// Runs a line that must fail with this code, in text and in JSON, and returns the text.
    pub(crate) fn refused(&self, line: &str, code: &str, exit: i32) -> String {
        let ran = self.run(line);
        assert_eq!(ran.code, exit, "synod {line}: {}", ran.err);
        assert!(ran.err.starts_with(&format!("error {code}: ")), "synod {line}: {}", ran.err);
        assert!(ran.err.lines().last().is_some_and(|last| last.starts_with("fix: ")), "{}", ran.err);
        assert_eq!(ran.out, "", "synod {line} failed and still printed data");

        let again = self.run(&format!("{line} --json"));
        let object: Value = serde_json::from_str(&again.err).expect("an error in JSON is one object");
        assert_eq!(
            (again.code, &object["code"], &object["exit"]),
            (exit, &code.into(), &exit.into()),
            "{line}"
        );
        ran.err
    }

    /// Writes a file of mode 0600.
    pub(crate) fn write_private(&self, name: &str, text: &str) {
        let opened = std::fs::File::options().write(true).create_new(true).mode(0o600).open(self.path(name));
        opened.and_then(|mut file| file.write_all(text.as_bytes())).expect("the file is new");
    }

    /// A cluster of one node in `cluster/`, the key `node.key`, the foreign key `made.pem`, the card `node.card`, contexts `shop` and `old`.
    pub(crate) fn furnished() -> Self {
        let rig = Self::new();
        rig.ok("init --name shop --nodes 1 --out cluster");
        rig.ok("keys new --out node.key");
        rig.write_private("made.pem", MADE);
        rig.ok("keys card node.key --name n0 --peer 127.0.0.1:7100 --out node.card");
        rig.ok("ctx add old --genesis cluster/genesis.toml");
        rig.ok("ctx add shop --genesis cluster/genesis.toml --dir cluster");
        rig
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Every verb of the tree with its help text, which no rig changes: asked for once.
pub(crate) fn verbs() -> &'static [(String, String)] {
    static VERBS: OnceLock<Vec<(String, String)>> = OnceLock::new();
    VERBS.get_or_init(|| walk(&Rig::new()))
}

/// Every verb of the tree, from the `--help` of its parents, with its help text.
fn walk(rig: &Rig) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![String::new()];
    while let Some(path) = open.pop() {
        let help = rig.ok(&format!("{path} --help"));
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        for line in listed.take_while(|line| !line.is_empty()) {
            let name = line.split_whitespace().next().unwrap_or_default();
            let is_entry = line.starts_with("  ") && !line.starts_with("   ");
            if is_entry {
                open.push(format!("{path} {name}").trim().to_owned());
            }
        }
        found.push((path, help));
        assert!(found.len() < 500, "the tree does not end");
    }
    found.sort();
    found
}

/// The text of a file in a rig.
pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
