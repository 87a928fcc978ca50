//! What somebody asks, judged from the bytes that came so far; and what is answered, as bytes. A question has no body, and a
//! connection one question.

use httparse::{EMPTY_HEADER, Error, Status};

/// Bytes of the longest question.
pub(super) const MAX_LEN: usize = 8 << 10;
const MAX_HEADERS: usize = 64;

/// What the bytes are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// The beginning of a question.
    More,
    /// One that is answered: the path, and whether its answer has a body.
    Path { path: String, has_body: bool },
    /// One that is not.
    Refused(Code),
}

/// How an answer begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Code {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    TooLarge,
    Unavailable,
}

impl Code {
    pub(super) fn text(self) -> &'static str {
        match self {
            Code::Ok => "200 OK",
            Code::BadRequest => "400 Bad Request",
            Code::NotFound => "404 Not Found",
            Code::MethodNotAllowed => "405 Method Not Allowed",
            Code::TooLarge => "431 Request Header Fields Too Large",
            Code::Unavailable => "503 Service Unavailable",
        }
    }
}

pub(super) fn judge(bytes: &[u8]) -> Asked {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) if bytes.len() < MAX_LEN => return Asked::More,
        Ok(Status::Partial) | Err(Error::TooManyHeaders) => return Asked::Refused(Code::TooLarge),
        Err(_) => return Asked::Refused(Code::BadRequest),
    }
    let (Some(method), Some(path)) = (request.method, request.path) else {
        return Asked::Refused(Code::BadRequest);
    };
    if !["GET", "HEAD"].contains(&method) {
        return Asked::Refused(Code::MethodNotAllowed);
    }
    let path = path.split('?').next().unwrap_or_default().to_owned();
    Asked::Path { path, has_body: method == "GET" }
}

/// A whole answer.
pub(super) fn answer(code: Code, kind: &str, body: &str, has_body: bool) -> Vec<u8> {
    let allow = if code == Code::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n{allow}Connection: close\r\n\r\n",
        code.text(),
        body.len()
    );
    let mut bytes = head.into_bytes();
    if has_body {
        bytes.extend_from_slice(body.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn questions_are_told_from_what_is_none() {
        let path = |path: &str, has_body| Asked::Path { path: path.to_owned(), has_body };
        for (bytes, asked) in [
            ("", Asked::More),
            ("GET /healthz HTTP/1.1\r\nHost: a\r\n", Asked::More),
            ("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", path("/healthz", true)),
            ("GET /readyz?verbose=1 HTTP/1.0\r\n\r\n", path("/readyz", true)),
            ("HEAD /metrics HTTP/1.1\r\n\r\nwhat comes behind", path("/metrics", false)),
            ("POST /healthz HTTP/1.1\r\n\r\n", Asked::Refused(Code::MethodNotAllowed)),
            ("GET /healthz\r\n\r\n", Asked::Refused(Code::BadRequest)),
            ("\u{16}\u{3}\u{1}", Asked::Refused(Code::BadRequest)),
            ("GET / HTTP/9.9\r\n\r\n", Asked::Refused(Code::BadRequest)),
        ] {
            assert_eq!(judge(bytes.as_bytes()), asked, "{bytes:?}");
        }
        let long = format!("GET /{}", "x".repeat(MAX_LEN));
        assert_eq!(judge(&long.as_bytes()[..MAX_LEN - 1]), Asked::More);
        assert_eq!(judge(&long.as_bytes()[..MAX_LEN]), Asked::Refused(Code::TooLarge));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1));
        assert_eq!(judge(many.as_bytes()), Asked::Refused(Code::TooLarge));
    }

    #[test]
    fn an_answer_has_its_length_and_head_alone_when_asked_for_that() {
        let whole = String::from_utf8(answer(Code::Ok, "text/plain", "alive\n", true)).expect("text");
        assert!(whole.starts_with("HTTP/1.1 200 OK\r\n") && whole.ends_with("\r\n\r\nalive\n"), "{whole}");
        assert!(whole.contains("\r\nContent-Length: 6\r\n"), "{whole}");
        let head = String::from_utf8(answer(Code::Ok, "text/plain", "alive\n", false)).expect("text");
        assert_eq!(head, whole.strip_suffix("alive\n").expect("its end"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever comes, in whatever pieces: an answer, and what was refused or understood stays so.
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), head in any::<bool>()) {
            let mut all = if head { b"GET /metrics HTTP/1.1\r\n".to_vec() } else { Vec::new() };
            all.extend(bytes);
            let mut before = Asked::More;
            for len in 0..=all.len() {
                let now = judge(&all[..len]);
                if before != Asked::More {
                    prop_assert_eq!(&now, &before);
                }
                before = now;
            }
        }
    }
}
