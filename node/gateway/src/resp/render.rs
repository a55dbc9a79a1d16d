//! Rendering: the store's replies in the dialect a client speaks.

use bytes::{BufMut, BytesMut};
use synod_kv::{DEPTH_MAX, number};

/// The dialect of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// RESP2, what a connection starts with.
    #[default]
    Two,
    /// RESP3, chosen by `HELLO 3`.
    Three,
}

/// Appends a reply of the store in the given dialect. False, and nothing appended, when the bytes are not one
/// reply: no bytes of a reply reach a client that were not parsed.
pub fn render(reply: &[u8], protocol: Protocol, out: &mut BytesMut) -> bool {
    let start = out.len();
    let mut rest = reply;
    let whole = value(&mut rest, protocol, out, DEPTH_MAX).is_some() && rest.is_empty();
    if !whole {
        out.truncate(start);
    }
    whole
}

/// Renders the first value of `rest` and moves behind it.
pub(crate) fn value(rest: &mut &[u8], protocol: Protocol, out: &mut BytesMut, depth: u8) -> Option<()> {
    let (tag, text) = line(rest)?;
    let three = protocol == Protocol::Three;
    match tag {
        b'+' | b'-' => simple(out, tag, text),
        b':' => {
            number::parse(text)?;
            simple(out, tag, text);
        }
        // As a Redis server says that there is nothing.
        b'$' | b'*' if text == b"-1" => {
            let nothing: &[u8] = if tag == b'$' { b"$-1\r\n" } else { b"*-1\r\n" };
            out.put_slice(if three { b"_\r\n" } else { nothing });
        }
        b'$' => {
            let length = size(text)?;
            let (bytes, behind) = rest.split_at_checked(length)?;
            *rest = behind.strip_prefix(b"\r\n")?;
            bulk(out, bytes);
        }
        b'_' if text.is_empty() => out.put_slice(if three { b"_\r\n" } else { b"$-1\r\n" }),
        b'^' if text.is_empty() => out.put_slice(if three { b"_\r\n" } else { b"*-1\r\n" }),
        b',' if three => simple(out, tag, text),
        b',' => bulk(out, text),
        b'*' | b'~' | b'%' | b'&' => return container(tag, size(text)?, (rest, protocol), out, depth),
        _ => return None,
    }
    Some(())
}

fn container(
    tag: u8,
    count: usize,
    (rest, protocol): (&mut &[u8], Protocol),
    out: &mut BytesMut,
    depth: u8,
) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let three = protocol == Protocol::Three;
    let values = if matches!(tag, b'%' | b'&') { count.checked_mul(2)? } else { count };
    match tag {
        b'&' if three => header(out, b'*', count),
        b'~' | b'%' if three => header(out, tag, count),
        _ => header(out, b'*', values),
    }
    for index in 0..values {
        if tag == b'&' && three && index % 2 == 0 {
            header(out, b'*', 2);
        }
        value(rest, protocol, out, depth)?;
    }
    Some(())
}

/// Takes a line off: its tag and its text.
fn line<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let end = rest.iter().position(|byte| *byte == b'\r')?;
    let (line, behind) = rest.split_at_checked(end)?;
    *rest = behind.strip_prefix(b"\r\n")?;
    let (tag, text) = line.split_first()?;
    if text.contains(&b'\n') { None } else { Some((*tag, text)) }
}

fn size(text: &[u8]) -> Option<usize> {
    usize::try_from(number::parse(text)?).ok()
}

fn simple(out: &mut BytesMut, tag: u8, text: &[u8]) {
    out.put_u8(tag);
    out.put_slice(text);
    out.put_slice(b"\r\n");
}

fn header(out: &mut BytesMut, tag: u8, count: usize) {
    let mut text = Vec::with_capacity(20);
    number::write(&mut text, i64::try_from(count).unwrap_or(i64::MAX));
    simple(out, tag, &text);
}

fn bulk(out: &mut BytesMut, bytes: &[u8]) {
    header(out, b'$', bytes.len());
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}

/// Where the first value of a reply ends; `None` when it is not a value.
pub(crate) fn end_of_value(reply: &[u8]) -> Option<usize> {
    let mut rest = reply;
    let mut values = 1_usize;
    while values > 0 {
        let (tag, text) = line(&mut rest)?;
        values -= 1;
        match tag {
            b'$' | b'*' if text == b"-1" => {}
            b'$' => rest = rest.get(size(text)?.checked_add(2)?..)?,
            b'*' | b'~' => values = values.checked_add(size(text)?)?,
            b'%' | b'&' => values = values.checked_add(size(text)?.checked_mul(2)?)?,
            _ => {}
        }
    }
    Some(reply.len() - rest.len())
}
