//! Rendering in both dialects.

use bytes::BytesMut;

use super::{Numbers, shown};
use crate::resp::{Protocol, render};

fn rendered(reply: &str, protocol: Protocol) -> Option<String> {
    let mut out = BytesMut::new();
    render(reply.as_bytes(), protocol, &mut out).then(|| shown(&out))
}

#[test]
fn each_kind_has_its_form_in_both_dialects() {
    for (reply, two, three) in [
        ("+OK\r\n", "+OK", "+OK"),
        ("-ERR no\r\n", "-ERR no", "-ERR no"),
        (":-5\r\n", ":-5", ":-5"),
        ("$3\r\na\r\n\r\n", "$3 a", "$3 a"),
        ("_\r\n", "$-1", "_"),
        ("^\r\n", "*-1", "_"),
        (",1.5\r\n", "$3 1.5", ",1.5"),
        (",-inf\r\n", "$4 -inf", ",-inf"),
        ("*2\r\n:1\r\n_\r\n", "*2 :1 $-1", "*2 :1 _"),
        ("~1\r\n$1\r\na\r\n", "*1 $1 a", "~1 $1 a"),
        ("%1\r\n$1\r\nf\r\n$1\r\nv\r\n", "*2 $1 f $1 v", "%1 $1 f $1 v"),
        ("&2\r\n$1\r\na\r\n,1\r\n$1\r\nb\r\n,2\r\n", "*4 $1 a $1 1 $1 b $1 2", "*2 *2 $1 a ,1 *2 $1 b ,2"),
        ("*1\r\n&1\r\n$1\r\na\r\n,1\r\n", "*1 *2 $1 a $1 1", "*1 *1 *2 $1 a ,1"),
        ("*0\r\n", "*0", "*0"),
    ] {
        assert_eq!(rendered(reply, Protocol::Two).as_deref(), Some(two), "{reply:?}");
        assert_eq!(rendered(reply, Protocol::Three).as_deref(), Some(three), "{reply:?}");
    }
}

#[test]
fn bytes_that_are_not_one_reply_do_not_reach_the_client() {
    for reply in [
        "",
        "+OK",
        "+OK\r\n+OK\r\n",
        "$1\r\nab\r\n",
        "$5\r\nab\r\n",
        "*1\r\n",
        "*9223372036854775807\r\n:1\r\n",
        ":x\r\n",
        "_x\r\n",
        "!3\r\nabc\r\n",
        "+a\nb\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        "&9223372036854775807\r\n",
    ] {
        let mut out = BytesMut::from(&b"before"[..]);
        assert!(!render(reply.as_bytes(), Protocol::Three, &mut out), "{reply:?}");
        assert_eq!(out, "before");
    }
}

#[test]
fn noise_is_refused_without_harm() {
    let mut numbers = Numbers(3);
    let pieces = [
        "+a\r\n",
        ":1\r\n",
        "$1\r\nx\r\n",
        "_\r\n",
        "^\r\n",
        ",2\r\n",
        "*2\r\n",
        "~1\r\n",
        "%1\r\n",
        "&1\r\n",
        "\r\n",
        "$",
    ];
    let mut taken = 0;
    for _ in 0..20_000 {
        let mut bytes = Vec::new();
        for _ in 0..numbers.below(6) {
            let piece = pieces[usize::try_from(numbers.below(pieces.len() as u64)).expect("small")];
            bytes.extend_from_slice(piece.as_bytes());
        }
        if numbers.below(4) == 0 && !bytes.is_empty() {
            let at = usize::try_from(numbers.below(bytes.len() as u64)).expect("small");
            bytes[at] = numbers.byte();
        }
        let mut out = BytesMut::new();
        taken += u32::from(render(&bytes, Protocol::Two, &mut out));
        assert!(out.len() <= 8 * bytes.len());
    }
    assert!((1_000..15_000).contains(&taken), "{taken} of 20,000 were replies");
}
