//! `synod pixel`: the board of a cluster of Chop Chop that runs pixels.

use super::operation::{App, By, Since, other};
use crate::cluster::unwritable;
use crate::exit::{Done, bug};
use crate::output::Report;
use crate::png;
use crate::session::{Session, usage};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use synod_config::{Exit, SynError, code};
use synod_crypto::Hash;
use synod_pixels::{SIDE, text};

const APP: App = App { name: "pixels", words: text::code, refusal };
/// Bytes of a pixel: red, green, blue.
const COLOUR: usize = 3;

/// Painting, and the board of a cluster that runs pixels over brokers.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pixel paint 3 4 ff8800 --home alice")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Paints one pixel. Of strokes to one pixel in one batch, an order that nobody chose decides.
    #[command(after_help = "Example:\n  synod pixel paint 3 4 ff8800 --home alice")]
    Paint {
        /// From the left, below 2048.
        x: u32,
        /// From the top, below 2048.
        y: u32,
        /// Red, green and blue as six hexadecimal digits.
        #[arg(value_name = "RRGGBB")]
        colour: String,
        #[command(flatten)]
        by: By,
    },
    /// Shows the colour of one pixel, as f + 1 servers state it.
    #[command(after_help = "Example:\n  synod pixel show 3 4")]
    Show {
        /// From the left, below 2048.
        x: u32,
        /// From the top, below 2048.
        y: u32,
        #[command(flatten)]
        since: Since,
        #[command(flatten)]
        by: By,
    },
    /// Reads the whole board, 2,048 by 2,048, as f + 1 servers state it, and writes it as a picture.
    ///
    /// It is read row by row: rows further down may already show strokes that came meanwhile.
    #[command(after_help = "Example:\n  synod pixel board --png board.png")]
    Board {
        /// The picture, which is replaced; without it only the digest is shown.
        #[arg(long, value_name = "FILE")]
        png: Option<PathBuf>,
        #[command(flatten)]
        since: Since,
        #[command(flatten)]
        by: By,
    },
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        match self.verb {
            Verb::Paint { x, y, colour, by } => {
                let shown = format!("pixel {x} {y} {colour}");
                let asked = text::parse(&shown).map_err(|error| usage(&error.to_string()))?;
                by.send(session, &APP, asked, &shown)
            }
            Verb::Show { x, y, since, by } => show(session, (x, y), &since, &by),
            Verb::Board { png, since, by } => board(session, png, &since, &by),
        }
    }
}

fn show(session: &Session, (x, y): (u32, u32), since: &Since, by: &By) -> Done {
    let off = || usage(&format!("the board has places below {SIDE}"));
    let question = text::rows(y).filter(|_| x < SIDE).ok_or_else(off)?;
    let (height, answers) = by.read(session, &APP, since, [question])?;
    let at = usize::try_from(x).map_or(usize::MAX, |x| x * COLOUR);
    let colour = answers.first().and_then(|bytes| bytes.get(at..)?.first_chunk::<COLOUR>().copied());
    let colour = colour.ok_or_else(|| bug("board", &"servers gave no whole row"))?;
    let report = Report::new("synod-pixel/1")
        .field("x", x)
        .field("y", y)
        .field("colour", synod_config::hex(&colour))
        .field("since_height", height);
    session.output.print(&report)?;
    Ok(Exit::Success)
}

fn board(session: &Session, file: Option<PathBuf>, since: &Since, by: &By) -> Done {
    let (height, answers) = by.read(session, &APP, since, text::board())?;
    let pixels: Vec<u8> = answers.iter().flat_map(|tile| tile.iter().copied()).collect();
    let whole = usize::try_from(SIDE * SIDE).unwrap_or(usize::MAX).saturating_mul(COLOUR);
    if pixels.len() != whole {
        return Err(bug("board", &format!("servers gave {} of {whole} bytes", pixels.len())));
    }
    let painted = pixels.as_chunks::<COLOUR>().0.iter().filter(|colour| **colour != [0; COLOUR]).count();
    if let Some(file) = &file {
        std::fs::write(file, png::encode(SIDE, &pixels)).map_err(|error| unwritable(file, &error))?;
    }
    let report = Report::new("synod-board/1")
        .field("width", SIDE)
        .field("height", SIDE)
        .field("painted", painted)
        .field("digest", Hash::of(&pixels).to_string())
        .field("since_height", height)
        .field("png", file.map(|file| file.display().to_string()));
    session.output.print(&report)?;
    Ok(Exit::Success)
}

fn refusal(byte: u8, _: u64, _: &str) -> Option<SynError> {
    match byte {
        0 => None,
        1 => Some(SynError::of(code::OFF_BOARD, &[])),
        byte => Some(other(text::code(byte))),
    }
}

#[cfg(test)]
mod tests {
    use super::refusal;
    use synod_pixels::Code;

    #[test]
    fn a_stroke_beside_the_board_has_its_own_code() {
        let of = |code: Code| refusal(code.byte(), 0, "").map(|error| error.code().number());
        assert_eq!((of(Code::Painted), of(Code::Malformed)), (None, Some(3310)));
        assert_eq!(refusal(250, 0, "").map(|error| error.code().number()), Some(3001));
    }
}
