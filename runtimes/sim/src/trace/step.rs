//! One call of one machine, in words.

use core::fmt::Write as _;

use synod_quorum::NodeId;

use super::words::{Mark, Said};

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $( $(#[$each:meta])* $variant:ident = $text:literal ),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name { $( $(#[$each])* $variant ),* }

        impl $name {
            /// Its name in JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $text ),* }
            }
        }
    };
}

named! {
    /// What a call was about.
    StepKind {
        /// The machine was rebuilt from its journal.
        Opened = "opened",
        /// The first event.
        Start = "start",
        /// The local user, or another machine of the node, asked.
        Input = "input",
        /// A peer spoke.
        Frame = "frame",
        /// Timers were due.
        Timer = "timer",
        /// A job was answered.
        Done = "done",
        /// A blob was read.
        Loaded = "loaded",
        /// A connection changed.
        Link = "link",
        /// The journal is durable up to a record.
        Durable = "durable",
        /// A strategy sends what it held back or made up.
        Strategy = "strategy",
    }
}

named! {
    /// What a machine did.
    EffectKind {
        /// A frame left.
        Send = "send",
        /// An operation for a memory node left.
        Register = "register",
        /// A record was appended.
        Persist = "persist",
        /// A blob was appended.
        Store = "store",
        /// A blob was released.
        Erase = "erase",
        /// A blob was asked for.
        Load = "load",
        /// The journal may be compacted.
        Compact = "compact",
        /// A job was queued.
        Submit = "submit",
        /// The user, or another machine of the node, was told.
        Output = "output",
        /// A peer was blamed.
        Blame = "blame",
        /// A rule was applied.
        Rule = "rule",
        /// Something an operator may want to see.
        Note = "note",
        /// A timer was armed.
        Arm = "arm",
        /// A timer was disarmed.
        Disarm = "disarm",
    }
}

named! {
    /// What happened beside the calls.
    AsideKind {
        /// A node's process died.
        Crash = "crash",
        /// A node stopped for good.
        Halt = "halt",
        /// A fault began.
        Begin = "begin",
        /// A fault ended.
        End = "end",
        /// The core was made whole.
        Heal = "heal",
    }
}

/// One effect of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// What kind of effect.
    pub kind: EffectKind,
    /// The receivers of a frame.
    pub to: Vec<NodeId>,
    /// What it says.
    pub said: Said,
    /// The strategy that made it up or changed it.
    pub lie: Option<&'static str>,
    /// The place of a record or blob in its lane.
    pub lsn: Option<u64>,
}

impl Effect {
    /// Whether anybody but the machine itself can see it.
    #[must_use]
    pub const fn is_visible(&self) -> bool {
        !matches!(
            self.kind,
            EffectKind::Rule
                | EffectKind::Note
                | EffectKind::Arm
                | EffectKind::Disarm
                | EffectKind::Load
                | EffectKind::Submit
                | EffectKind::Compact
        )
    }
}

/// One call of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of the event, from 1.
    pub event: u64,
    /// Number of the event that caused it: the send of a frame, the arming of a timer, the order of a job, the write
    /// that became durable; 0 for none.
    pub cause: u64,
    /// Virtual nanoseconds.
    pub time: u64,
    /// The node.
    pub node: NodeId,
    /// 0, or 1 for the second of two twins.
    pub twin: u8,
    /// The node's start, from 1.
    pub incarnation: u32,
    /// Whether the node follows its protocol on an intact disk.
    pub honest: bool,
    /// The machine's number.
    pub machine: u8,
    /// What the call was about.
    pub kind: StepKind,
    /// Who sent the frame.
    pub from: Option<NodeId>,
    /// What happened.
    pub what: Said,
    /// The strategy that touched the frame.
    pub lie: Option<&'static str>,
    /// The frame's name in its run; see [`Options::heard`](crate::Options).
    pub frame: Option<u32>,
    /// What the machine did.
    pub effects: Vec<Effect>,
    /// The highest place of the machine's lane that is durable.
    pub durable: u64,
    /// Whether the node crashed at the end of the effects.
    pub crashed: bool,
}

impl Step {
    /// The event as one JSON object, without a line end. Keys: `event`, `cause`, `ns`, `node`, `twin`, `incarnation`,
    /// `machine`, `honest`, `kind`, `from` (frames), `what`, `mark`, `lie` (where a strategy touched it), `frame`,
    /// `effects` (each `kind`, `what`, `mark`, and where they apply `to`, `lsn`, `lie`), `durable`, `crashed`.
    #[must_use]
    pub fn json(&self) -> String {
        let mut out = format!(
            r#"{{"event":{},"cause":{},"ns":{},"node":{},"twin":{},"incarnation":{},"machine":{},"honest":{},"kind":"{}""#,
            self.event,
            self.cause,
            self.time,
            self.node.0,
            self.twin,
            self.incarnation,
            self.machine,
            self.honest,
            self.kind.name(),
        );
        if let Some(from) = self.from {
            let _ = write!(out, r#","from":{}"#, from.0);
        }
        said(&mut out, &self.what, self.lie);
        if let Some(frame) = self.frame {
            let _ = write!(out, r#","frame":{frame}"#);
        }
        out.push_str(r#","effects":["#);
        for (at, effect) in self.effects.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let _ = write!(out, r#"{comma}{{"kind":"{}""#, effect.kind.name());
            if !effect.to.is_empty() {
                let to: Vec<String> = effect.to.iter().map(|id| id.0.to_string()).collect();
                let _ = write!(out, r#","to":[{}]"#, to.join(","));
            }
            if let Some(lsn) = effect.lsn {
                let _ = write!(out, r#","lsn":{lsn}"#);
            }
            said(&mut out, &effect.said, effect.lie);
            out.push('}');
        }
        let _ = write!(out, r#"],"durable":{},"crashed":{}}}"#, self.durable, self.crashed);
        out
    }

    /// The node's instance: its id and its twin number.
    #[must_use]
    pub const fn place(&self) -> (NodeId, u8) {
        (self.node, self.twin)
    }
}

fn said(out: &mut String, said: &Said, lie: Option<&str>) {
    let _ = write!(out, r#","what":"{}""#, escape(&said.text));
    if said.mark != Mark::Plain {
        let _ = write!(out, r#","mark":"{}""#, said.mark.name());
    }
    if let Some(lie) = lie {
        let _ = write!(out, r#","lie":"{}""#, escape(lie));
    }
}

/// Something that happened beside the calls: a crash between two events, the beginning of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// Virtual nanoseconds.
    pub time: u64,
    /// Number of the last event before it.
    pub after: u64,
    /// What kind of thing.
    pub kind: AsideKind,
    /// Whom it hits; empty for everybody.
    pub nodes: Vec<(NodeId, u8)>,
    /// A few words.
    pub what: String,
}

pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_escaped_json_object() {
        let step = Step {
            event: 7,
            cause: 3,
            time: 7_000,
            node: NodeId(2),
            twin: 0,
            incarnation: 1,
            honest: true,
            machine: 0,
            kind: StepKind::Frame,
            from: Some(NodeId(1)),
            what: Said::marked("vote \"\\\n", Mark::Promise),
            lie: Some("byz.B4"),
            frame: Some(9),
            effects: vec![Effect {
                kind: EffectKind::Send,
                to: vec![NodeId(0), NodeId(3)],
                said: Said::plain("x"),
                lie: None,
                lsn: None,
            }],
            durable: 4,
            crashed: true,
        };
        assert_eq!(
            step.json(),
            r#"{"event":7,"cause":3,"ns":7000,"node":2,"twin":0,"incarnation":1,"machine":0,"honest":true,"kind":"frame","from":1,"what":"vote \"\\\u000a","mark":"promise","lie":"byz.B4","frame":9,"effects":[{"kind":"send","to":[0,3],"what":"x"}],"durable":4,"crashed":true}"#
        );
    }
}
