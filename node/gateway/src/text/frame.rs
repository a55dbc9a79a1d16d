//! Where the first command of a stream of bytes ends.

use bytes::Bytes;
use synod_memcached_adapter::{KEY_MAX, KEYS_MAX, VALUE_MAX};

/// Most commands of one call.
pub const COMMANDS_MAX: usize = 128;
/// Longest line, in bytes.
const LINE_MAX: usize = 64 + KEYS_MAX * (KEY_MAX + 1);

/// A command as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framed {
    /// Bytes it took.
    pub length: usize,
    /// The command as the replicated server takes it: one blank between words, without `noreply`.
    pub body: Bytes,
    /// Whether nobody waits for its reply.
    pub is_quiet: bool,
    /// Whether it ends the connection.
    pub is_last: bool,
}

/// Why what follows cannot be told apart any more: the reply after which the connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub &'static str);

/// The command at the front of `bytes`; `None` while more has to come.
///
/// # Errors
/// [`Refused`] when no bytes make it a command with an end.
pub fn frame(bytes: &[u8]) -> Result<Option<Framed>, Refused> {
    let Some(end) = bytes.iter().take(LINE_MAX).position(|byte| *byte == b'\n') else {
        return if bytes.len() < LINE_MAX {
            Ok(None)
        } else {
            Err(Refused("CLIENT_ERROR line too long\r\n"))
        };
    };
    let line = bytes.get(..end).unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words: Vec<&[u8]> = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
    let is_quiet = words.len() > 1 && words.last() == Some(&&b"noreply"[..]);
    if is_quiet {
        words.pop();
    }
    let behind = end + 1;
    let mut body = words.join(&b' ');
    body.extend_from_slice(b"\r\n");
    let mut length = behind;
    if let Some(count) = data_of(&words) {
        if count > VALUE_MAX {
            return Err(Refused("SERVER_ERROR object too large for cache\r\n"));
        }
        let Some(data) = bytes.get(behind..behind + count + 2) else { return Ok(None) };
        if !data.ends_with(b"\r\n") {
            return Err(Refused("CLIENT_ERROR bad data chunk\r\n"));
        }
        body.extend_from_slice(data);
        length += data.len();
    }
    let is_last = words.first() == Some(&&b"quit"[..]);
    Ok(Some(Framed { length, body: body.into(), is_quiet, is_last }))
}

/// How many bytes of data follow the line of these words; `None` where none do.
fn data_of(words: &[&[u8]]) -> Option<usize> {
    let (name, words) = words.split_first()?;
    let stores = matches!(*name, b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas");
    let count = words.get(3).filter(|_| stores)?;
    let digits = !count.is_empty() && count.iter().all(u8::is_ascii_digit);
    let text = core::str::from_utf8(count).ok().filter(|_| digits)?;
    // A number beyond all limits is one that is too large.
    Some(text.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(bytes: &[u8]) -> (usize, String, bool) {
        let framed = frame(bytes).expect("a command").expect("a whole one");
        (framed.length, String::from_utf8_lossy(&framed.body).into_owned(), framed.is_quiet)
    }

    #[test]
    fn a_command_ends_where_its_data_does_and_waits_for_all_of_it() {
        let bytes = b"set k 5 0 4\r\na\r\nb\r\nget k\r\n";
        assert_eq!(framed(bytes), (19, "set k 5 0 4\r\na\r\nb\r\n".to_owned(), false));
        for end in 0..19 {
            assert_eq!(frame(&bytes[..end]), Ok(None), "cut at {end}");
        }
        assert_eq!(framed(&bytes[19..]), (7, "get k\r\n".to_owned(), false));
        assert_eq!(framed(b"cas k 0 0 1 7 noreply\r\nx\r\n").0, 26);
        // Without a length there is no data to wait for: the server's parser says what is wrong.
        assert_eq!(framed(b"set k 0 0\r\n").0, 11);
        assert_eq!(framed(b"set k 0 0 -1\r\n").0, 14);
    }

    #[test]
    fn blanks_and_bare_line_ends_are_put_right_and_noreply_is_taken_off() {
        assert_eq!(framed(b"  delete   k noreply\n"), (21, "delete k\r\n".to_owned(), true));
        assert_eq!(framed(b"noreply\r\n"), (9, "noreply\r\n".to_owned(), false));
        assert!(frame(b"quit\r\n").is_ok_and(|framed| framed.is_some_and(|framed| framed.is_last)));
    }

    #[test]
    fn what_has_no_end_is_refused_before_it_is_kept() {
        let large = format!("set k 0 0 {}\r\n", VALUE_MAX + 1);
        assert!(frame(large.as_bytes()).is_err());
        assert!(frame(b"set k 0 0 99999999999999999999999\r\n").is_err());
        assert_eq!(frame(format!("set k 0 0 {VALUE_MAX}\r\n").as_bytes()), Ok(None));
        assert_eq!(frame(b"set k 0 0 1\r\nxyz"), Err(Refused("CLIENT_ERROR bad data chunk\r\n")));
        assert_eq!(frame(&vec![b'x'; LINE_MAX - 1]), Ok(None));
        assert_eq!(frame(&vec![b'x'; LINE_MAX]), Err(Refused("CLIENT_ERROR line too long\r\n")));
    }
}
