//! The rules of a request's head that two readers could read differently (RFC 9112, sections 2.2, 5 and 6).

use crate::proxy::refused::Refused;

/// How long the body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// That many bytes; none where nothing is said.
    Length(u64),
    /// Chunked.
    Chunked,
    /// The head was refused.
    Refused,
}

/// Where the first head ends.
pub(super) fn end(held: &[u8]) -> Option<usize> {
    held.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// Empty lines before a request are to be ignored (RFC 9112, 2.2).
pub(super) fn skip_empty_lines(held: &mut Vec<u8>) {
    while held.starts_with(b"\r\n") {
        held.drain(..2);
    }
}

/// Judges a whole head, its empty line included.
pub(super) fn judge(head: &[u8]) -> Result<Framing, Refused> {
    let text = head.strip_suffix(b"\r\n\r\n").unwrap_or(head);
    let mut lines = Lines(Some(text));
    let request = lines.next().unwrap_or_default();
    whole_line(request)?;
    if !request.ends_with(b" HTTP/1.1") {
        return Err(Refused::Version);
    }
    let mut said = Said::default();
    for line in lines {
        said.read(line)?;
    }
    said.framing()
}

/// Pieces between line ends.
struct Lines<'a>(Option<&'a [u8]>);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.0?;
        match text.windows(2).position(|two| two == b"\r\n") {
            Some(at) => {
                self.0 = text.get(at + 2..);
                text.get(..at)
            }
            None => self.0.take(),
        }
    }
}

/// What the head says about its body.
#[derive(Default)]
struct Said<'a> {
    length: Option<&'a [u8]>,
    coding: Option<&'a [u8]>,
    host: bool,
}

impl<'a> Said<'a> {
    fn read(&mut self, line: &'a [u8]) -> Result<(), Refused> {
        whole_line(line)?;
        let colon = line.iter().position(|byte| *byte == b':');
        let Some((name, value)) = colon.and_then(|at| line.split_at_checked(at)) else {
            return Err(Refused::Framing("a header line without a colon"));
        };
        if name.is_empty() || name.iter().any(u8::is_ascii_whitespace) {
            return Err(Refused::Framing("white space in or before a header's name"));
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            once(&mut self.length, value, "content-length twice")
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            once(&mut self.coding, value, "transfer-encoding twice")
        } else if name.eq_ignore_ascii_case(b"host") && std::mem::replace(&mut self.host, true) {
            Err(Refused::Framing("host twice"))
        } else {
            Ok(())
        }
    }

    fn framing(self) -> Result<Framing, Refused> {
        match (self.length, self.coding) {
            (None, None) => Ok(Framing::Length(0)),
            (Some(length), None) => length_of(length).map(Framing::Length),
            (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
            (None, Some(_)) => Err(Refused::TransferCoding),
            (Some(_), Some(_)) => Err(Refused::Framing("content-length and transfer-encoding together")),
        }
    }
}

fn once<'a>(slot: &mut Option<&'a [u8]>, value: &'a [u8], twice: &'static str) -> Result<(), Refused> {
    if slot.replace(value).is_some() { Err(Refused::Framing(twice)) } else { Ok(()) }
}

/// Digits alone: no sign, no list, no space.
fn length_of(text: &[u8]) -> Result<u64, Refused> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let length = digits.and_then(|digits| digits.parse().ok());
    length.ok_or(Refused::Framing("content-length is not a number"))
}

/// A line end that is not CR LF ends a line for some readers and not for others; NUL ends it for C.
fn whole_line(line: &[u8]) -> Result<(), Refused> {
    match line {
        line if line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) => {
            Err(Refused::Framing("a bare CR, LF or NUL"))
        }
        [b' ' | b'\t', ..] => Err(Refused::Framing("a folded header line")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(lines: &str) -> Result<Framing, Refused> {
        judge(format!("POST /v1/messages HTTP/1.1\r\nhost: a\r\n{lines}\r\n").as_bytes())
    }

    #[test]
    fn one_framing_is_read_and_two_are_refused_in_either_order() {
        assert_eq!(judged(""), Ok(Framing::Length(0)));
        assert_eq!(judged("Content-Length: 12\r\n"), Ok(Framing::Length(12)));
        assert_eq!(judged("transfer-ENCODING:\tChunked \r\n"), Ok(Framing::Chunked));
        let both = Err(Refused::Framing("content-length and transfer-encoding together"));
        assert_eq!(judged("content-length: 1\r\ntransfer-encoding: chunked\r\n"), both);
        assert_eq!(judged("transfer-encoding: chunked\r\ncontent-length: 1\r\n"), both);
    }

    #[test]
    fn a_length_is_digits_once() {
        for bad in ["+1", "-1", "1, 1", "0x1", "1 1", "", "18446744073709551616", "\u{661}"] {
            let wrong = Err(Refused::Framing("content-length is not a number"));
            assert_eq!(judged(&format!("content-length: {bad}\r\n")), wrong, "{bad}");
        }
        let twice = Err(Refused::Framing("content-length twice"));
        assert_eq!(judged("content-length: 1\r\ncontent-length: 1\r\n"), twice);
    }

    #[test]
    fn an_unknown_or_second_transfer_coding_is_refused() {
        for coding in ["gzip, chunked", "chunked, chunked", "identity", "xchunked", ""] {
            let refused = Err(Refused::TransferCoding);
            assert_eq!(judged(&format!("transfer-encoding: {coding}\r\n")), refused, "{coding}");
        }
        let twice = Err(Refused::Framing("transfer-encoding twice"));
        assert_eq!(judged("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n"), twice);
    }

    #[test]
    fn lines_that_two_readers_could_cut_differently_are_refused() {
        let bare = Err(Refused::Framing("a bare CR, LF or NUL"));
        assert_eq!(judged("a: 1\rb: 2\r\n"), bare);
        assert_eq!(judged("a: 1\nb: 2\r\n"), bare);
        assert_eq!(judged("a: 1\0\r\n"), bare);
        assert_eq!(judged("a: 1\r\n b\r\n"), Err(Refused::Framing("a folded header line")));
        let space = Err(Refused::Framing("white space in or before a header's name"));
        assert_eq!(judged("content-length : 1\r\n"), space);
        assert_eq!(judged(": 1\r\n"), space);
        assert_eq!(judged("nothing\r\n"), Err(Refused::Framing("a header line without a colon")));
        assert_eq!(judged("Host: b\r\n"), Err(Refused::Framing("host twice")));
    }

    #[test]
    fn other_versions_are_refused() {
        assert_eq!(judge(b"GET / HTTP/1.0\r\n\r\n"), Err(Refused::Version));
        assert_eq!(judge(b"PRI * HTTP/2.0\r\n\r\n"), Err(Refused::Version));
        assert_eq!(judge(b"GET /\r\n\r\n"), Err(Refused::Version));
    }
}
