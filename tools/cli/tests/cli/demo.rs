//! The demo as a user meets it: what it prints works when pasted, and its end leaves nothing.

use crate::rig::Rig;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Lines};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

/// Speaks the one command of its arguments to a RESP server, as `redis-cli -p PORT VERB...` does.
const REDIS_CLIENT: &str = r#"#!/bin/bash
[ "$1" = -p ] || exit 2
exec 3<>"/dev/tcp/127.0.0.1/$2" || exit 1
shift 2
printf '%s\r\n' "$*" >&3
read -r -u 3 line
echo "$line"
case "$line" in -*) exit 1;; '$-1'*) exit 1;; '$'*) read -r -u 3 line; echo "$line";; esac
"#;

/// A demo that runs, and ends with the value.
struct Demo {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Demo {
    /// Starts `line` in a rig whose PATH begins with `path`.
    fn start(rig: &Rig, line: &str, path: &str) -> Self {
        let mut command = rig.command(line);
        command.env("PATH", path).stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().expect("the binary starts");
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    /// The next lines, up to and with the first that begins so.
    fn until(&mut self, start: &str) -> Vec<String> {
        let mut seen = Vec::new();
        for line in &mut self.lines {
            seen.push(line.expect("what is printed is text"));
            if seen.last().is_some_and(|line| line.starts_with(start)) {
                return seen;
            }
        }
        panic!("the demo ended before {start:?}: {seen:#?}")
    }

    fn end(&mut self, signal: Signal) -> Option<i32> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("it is our child");
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Where the test went through, it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A PATH with the binary under test first and a RESP client last, for machines without one.
fn path(rig: &Rig) -> String {
    let tools = rig.path("tools");
    std::fs::create_dir_all(&tools).expect("a directory");
    let client = tools.join("redis-cli");
    std::fs::write(&client, REDIS_CLIENT).expect("a file");
    std::fs::set_permissions(&client, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_synod"));
    let first = binary.parent().expect("the binary is in a directory").display();
    format!("{first}:{}:{}", std::env::var("PATH").unwrap_or_default(), tools.display())
}

/// Runs a line in a shell of its own, as if it were pasted there.
fn paste(rig: &Rig, line: &str, path: &str) -> (bool, String) {
    let mut shell = Command::new("sh");
    rig.furnish(&mut shell);
    let ran = shell.args(["-c", line]).env("PATH", path).stdin(Stdio::null()).output();
    let ran = ran.expect("a shell starts");
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    (ran.status.success(), said)
}

fn names_in(directory: &std::path::Path, start: &str) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(start)).collect()
}

#[test]
fn banner_lines_run() {
    let rig = Rig::new();
    let path = path(&rig);
    let mut demo = Demo::start(&rig, "demo --hold --base-port 0", &path);
    let banner = demo.until("ok   ready");
    let lines: Vec<&str> = banner.iter().filter_map(|line| line.strip_prefix("  ")).collect();
    for wanted in ["redis-cli", "kv put", "kv get", "status"] {
        assert!(lines.iter().any(|line| line.contains(wanted)), "no line with {wanted}: {banner:#?}");
    }
    // While the scenes lie and stop members, and again when the cluster stays up.
    for moment in ["during the scenes", "afterwards"] {
        for line in &lines {
            let (ok, said) = paste(&rig, line, &path);
            assert!(ok, "{moment}: {line}: {said}");
            let reads = line.ends_with("get greeting") || line.contains("/v1/kv/") && !line.contains("PUT");
            if reads {
                assert!(said.contains("hello"), "{moment}: {line}: {said}");
            }
        }
        if moment == "during the scenes" {
            demo.until("the cluster stays up");
        }
    }
    for line in ["fault lie n2", "kv put greeting again", "fault heal n2"] {
        rig.ok(line);
    }
    let temporary = format!("synod-demo-{}", demo.child.id());
    assert_eq!(names_in(&std::env::temp_dir(), &temporary).len(), 1);
    let asked = Instant::now();
    assert_eq!(demo.end(Signal::INT), Some(130));
    assert!(asked.elapsed() < Duration::from_secs(20), "it ended after {:?}", asked.elapsed());
    assert_eq!(names_in(&std::env::temp_dir(), &temporary), Vec::<String>::new());
    rig.refused("ctx show", "SYN-1001", 2);
}

#[test]
fn a_demo_that_is_terminated_while_it_starts_leaves_nothing() {
    let rig = Rig::new();
    let path = path(&rig);
    let mut demo = Demo::start(&rig, "demo --headless --base-port 0", &path);
    demo.until("hotstuff");
    let temporary = format!("synod-demo-{}", demo.child.id());
    assert_eq!(demo.end(Signal::TERM), Some(143));
    assert_eq!(names_in(&std::env::temp_dir(), &temporary), Vec::<String>::new());
    rig.refused("ctx show", "SYN-1001", 2);
}

#[test]
fn the_lines_of_the_demo_of_chop_chop_run_and_its_end_leaves_nothing() {
    let rig = Rig::new();
    let path = path(&rig);
    let mut demo = Demo::start(&rig, "demo chop --hold --painters 1024", &path);
    let shown = demo.until("the cluster stays up");
    for scene in ["ready", "signup", "storm", "broker", "server", "recover", "receipts", "audit"] {
        assert!(shown.iter().any(|line| line.starts_with(&format!("ok   {scene} "))), "{scene}: {shown:#?}");
    }
    let lines: Vec<&str> = shown.iter().filter_map(|line| line.strip_prefix("  ")).collect();
    for wanted in ["broker status", "client signup", "pixel paint", "pixel board", "client verify"] {
        assert!(lines.iter().any(|line| line.contains(wanted)), "no line with {wanted}: {shown:#?}");
    }
    for line in &lines {
        let (ok, said) = paste(&rig, line, &path);
        assert!(ok, "{line}: {said}");
        assert!(!line.contains("pixel show") || said.contains("ff8800"), "{line}: {said}");
    }
    let temporary = format!("synod-demo-chop-{}", demo.child.id());
    assert_eq!(names_in(&std::env::temp_dir(), &temporary).len(), 1);
    assert_eq!(demo.end(Signal::INT), Some(130));
    assert_eq!(names_in(&std::env::temp_dir(), &temporary), Vec::<String>::new());
    rig.refused("ctx show", "SYN-1001", 2);
}
