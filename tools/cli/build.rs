//! Records what the binary was built from, for `synod version --verbose`. Works without git and without a
//! network: what cannot be found is `unknown`.

use std::env;
use std::process::Command;

fn main() {
    let commit = env::var("SYNOD_COMMIT").ok().or_else(commit).unwrap_or_else(|| "unknown".to_owned());
    let compiler = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let rustc = output(&compiler, &["--version"]).unwrap_or_else(|| "unknown".to_owned());
    let variable = |name: &str| env::var(name).unwrap_or_else(|_| "unknown".to_owned());
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let build = if flags.contains("target-cpu=native") { "native" } else { "portable" };
    let facts = [
        ("SYNOD_BUILD_COMMIT", commit),
        ("SYNOD_BUILD_RUSTC", rustc),
        ("SYNOD_BUILD_TARGET", variable("TARGET")),
        ("SYNOD_BUILD_TARGET_FEATURES", variable("CARGO_CFG_TARGET_FEATURE")),
        ("SYNOD_BUILD_PROFILE", variable("PROFILE")),
        ("SYNOD_BUILD_KIND", build.to_owned()),
    ];
    for (name, value) in facts {
        println!("cargo::rustc-env={name}={value}");
    }
    println!("cargo::rerun-if-env-changed=SYNOD_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = output("git", &["rev-parse", "--git-path", file]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

fn commit() -> Option<String> {
    output("git", &["rev-parse", "--short=12", "HEAD"])
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
