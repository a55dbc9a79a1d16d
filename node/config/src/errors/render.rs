//! An error as it is shown: text on standard error, a JSON object, an HTTP problem object. All three carry the
//! same fields.

use super::{Code, Entry, Retry, explain};
use crate::exits::Exit;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Causes kept per error; deeper ones are dropped.
const CAUSES_MAX: usize = 8;
/// Longest text of one cause or value in bytes; longer ones end in `...`.
const TEXT_BYTES_MAX: usize = 512;

/// An error with its code, the filled-in message and the chain of causes, outermost first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct SynError {
    code: Code,
    message: String,
    causes: Vec<String>,
}

impl SynError {
    /// An error whose message is its row's template with `{word}` replaced by the value of that word. A word
    /// without a value becomes `?`: a report with a gap is better than none.
    #[must_use]
    pub fn of(code: Code, values: &[(&str, &str)]) -> Self {
        let template = explain(code).map_or("an error without a row in the catalogue", |entry| entry.message);
        Self { code, message: filled(template, values), causes: Vec::new() }
    }

    /// An error with a message of its own, for rows outside the catalogue of this crate.
    #[must_use]
    pub fn with_message(code: Code, message: &str) -> Self {
        Self { code, message: bounded(message), causes: Vec::new() }
    }

    /// Adds a link to the chain of causes. Control characters are escaped; the ninth and later are dropped.
    #[must_use]
    pub fn because(mut self, cause: impl std::fmt::Display) -> Self {
        if self.causes.len() < CAUSES_MAX {
            self.causes.push(bounded(&cause.to_string()));
        }
        self
    }

    /// The permanent code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// The message, one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The chain of causes, outermost first.
    #[must_use]
    pub fn causes(&self) -> &[String] {
        &self.causes
    }

    /// The exit code of a verb that ends with this error.
    #[must_use]
    pub fn exit_code(&self) -> Exit {
        explain(self.code).map_or(Exit::Failure, |entry| entry.exit)
    }

    /// The HTTP status of a request that ends with this error; 500 where the row has none.
    #[must_use]
    pub fn http_status(&self) -> u16 {
        explain(self.code).and_then(|entry| entry.http).unwrap_or(500)
    }

    /// What a repetition does.
    #[must_use]
    pub fn retry(&self) -> Retry {
        explain(self.code).map_or(Retry::Unknown, |entry| entry.retry)
    }

    fn fix(&self) -> &'static str {
        explain(self.code).map_or("", |entry| entry.fix)
    }

    fn name(&self) -> &'static str {
        explain(self.code).map_or("", |entry| entry.name)
    }

    /// The lines for a terminal: `error SYN-2103: ...`, one `cause: ...` per link, `fix: ...`.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("error {}: {}\n", self.code, self.message);
        for cause in &self.causes {
            let _infallible = writeln!(text, "cause: {cause}");
        }
        let _infallible = writeln!(text, "fix: {}", self.fix());
        text
    }

    /// The object `{code, name, message, causes[], fix, retry, exit}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "code": self.code.to_string(),
            "name": self.name(),
            "message": self.message,
            "causes": self.causes,
            "fix": self.fix(),
            "retry": self.retry().letter(),
            "exit": self.exit_code().number(),
        })
    }

    /// The problem object of RFC 9457 with the fields of [`Self::to_json`]. `instance` is the request id;
    /// `retry_after_ms` is stated where a pause helps.
    #[must_use]
    pub fn to_problem(&self, instance: Option<&str>, retry_after_ms: Option<u64>) -> Value {
        let outcome = if self.retry() == Retry::Unknown { "unknown" } else { "rejected" };
        let mut problem = json!({
            "type": format!("urn:synod:error:{}", self.code),
            "title": self.name(),
            "status": self.http_status(),
            "detail": self.message,
            "code": self.code.to_string(),
            "outcome": outcome,
            "retry": self.retry().letter(),
            "fix": self.fix(),
            "causes": self.causes,
        });
        if let Some(id) = instance {
            problem["instance"] = json!(id);
        }
        if let Some(pause) = retry_after_ms {
            problem["retry_after_ms"] = json!(pause);
        }
        problem
    }
}

impl Entry {
    /// The page of `synod explain CODE`: meaning, causes, fix, retry, exit, HTTP status.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{} {}\nmeaning: {}\n", self.code, self.name, self.message);
        for cause in self.causes {
            let _infallible = writeln!(text, "cause: {cause}");
        }
        let _infallible = writeln!(text, "fix: {}", self.fix);
        if self.is_peer_fault() {
            text.push_str("shown in: logs, metrics and evidence\n");
            return text;
        }
        let _infallible = writeln!(text, "retry: {} ({})", self.retry.letter(), self.retry.meaning());
        let _infallible = writeln!(text, "exit: {}", self.exit.number());
        if let Some(status) = self.http {
            let _infallible = writeln!(text, "http: {status}");
        }
        text
    }

    /// The object `{code, name, message, causes[], fix, retry, exit, http}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "code": self.code.to_string(),
            "name": self.name,
            "message": self.message,
            "causes": self.causes,
            "fix": self.fix,
            "retry": self.retry.letter(),
            "exit": self.exit.number(),
            "http": self.http,
        })
    }

    /// Whether the row is a fault of a peer (40 to 46): it ends no verb and answers no request.
    #[must_use]
    pub fn is_peer_fault(&self) -> bool {
        (4000..4700).contains(&self.code.number())
    }
}

/// Replaces each `{word}` of the template once, left to right; values are never read as templates.
fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((word, behind)) = after.split_once('}') else {
            rest = after;
            break;
        };
        match values.iter().find(|(name, _)| *name == word) {
            Some((_, value)) => out.push_str(&bounded(value)),
            None => out.push('?'),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Text that may come from outside: control characters escaped, length bounded.
fn bounded(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if out.len() >= TEXT_BYTES_MAX {
            out.push_str("...");
            break;
        }
        if character.is_control() { out.extend(character.escape_default()) } else { out.push(character) }
    }
    out
}
