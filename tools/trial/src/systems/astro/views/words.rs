//! The words of a run: those of payments, with the view that they are of, and what is said to change it.

use core::any::Any;

use synod_astro::Profile;
use synod_astro::member::{Message, Output};
use synod_machine::Message as _;
use synod_sim::{Mark, Said, Words};
use synod_wire::{Bytes, Wire, Writer};

use super::judge::spoken;
use crate::systems::astro::sight::Spoken;
use crate::systems::astro::words::AstroWords;

/// Names everything of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct ViewWords;

const PAYMENTS: AstroWords = AstroWords { profile: Profile::Funded };

fn first_word(text: &str) -> String {
    text.chars().take_while(char::is_ascii_alphanumeric).collect()
}

impl Words for ViewWords {
    fn frame(&self, machine: u8, body: &Bytes) -> Option<Said> {
        match spoken(body)? {
            Message::In { view, message } => {
                let mut out = Writer::with_capacity(body.len());
                out.byte(Spoken::VERSION);
                message.write(&mut out);
                let said = PAYMENTS.frame(machine, &out.freeze())?;
                Some(Said { text: format!("v{view} {}", said.text), ..said })
            }
            Message::Views(message) => Some(Said::plain(first_word(&format!("{message:?}")))),
        }
    }

    fn output(&self, machine: u8, output: &dyn Any) -> Option<Said> {
        match output.downcast_ref::<Output>()? {
            Output::Pay(output) => PAYMENTS.output(machine, output),
            Output::Stopped(view) => Some(Said::marked(format!("stops in v{}", view.number), Mark::Promise)),
            Output::Resumed(roll) => {
                Some(Said::marked(format!("goes on in v{}", roll.id().number), Mark::Commit))
            }
            other => Some(Said::plain(first_word(&format!("{other:?}")))),
        }
    }
}
