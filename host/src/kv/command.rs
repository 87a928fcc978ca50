//! Commands about keys, out of their arguments. Not what they do (`execute`).

use std::borrow::Cow;

use super::reply::Reply;
use super::table::{self, Command, Kind};

/// Arguments of a command, its name first.
pub(super) type Args<'a> = &'a [&'a [u8]];

/// Later than any clock says, in milliseconds: what is added to a time does not overflow.
const MAX_MS: u64 = 1 << 60;

/// Bytes of a pattern: with the bytes of keys that a call looks at it says how long that may take.
const MAX_PATTERN: usize = 1024;

/// A command about keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Request<'a> {
    Read(Read<'a>),
    Write(Write<'a>),
}

/// Looks at the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Read<'a> {
    Get(&'a [u8]),
    MGet(Args<'a>),
    Exists(Args<'a>),
    StrLen(&'a [u8]),
    /// Bytes from the first to the last, which count from the end when they are negative.
    Range {
        key: &'a [u8],
        first: i64,
        last: i64,
    },
    /// How long a key lives.
    Life {
        key: &'a [u8],
        unit: Unit,
        absolute: bool,
    },
    Type(&'a [u8]),
    DbSize,
    Scan(Scan<'a>),
}

/// See SCAN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Scan<'a> {
    pub(super) cursor: u64,
    /// What keys have to match.
    pub(super) pattern: Option<&'a [u8]>,
    /// How many keys are looked at.
    pub(super) count: usize,
    /// The type asked for is one that no key has.
    pub(super) none: bool,
}

/// What a time is counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

/// Changes the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Write<'a> {
    Set {
        key: &'a [u8],
        value: &'a [u8],
        when: When,
        expiry: Expiry,
        answer: Answer,
    },
    /// Keys and values in turn.
    MSet {
        pairs: Args<'a>,
        when: When,
    },
    Add {
        key: &'a [u8],
        delta: i64,
    },
    Append {
        key: &'a [u8],
        value: &'a [u8],
    },
    Del(Args<'a>),
    GetDel(&'a [u8]),
    /// `Keep` leaves everything as it is.
    GetEx {
        key: &'a [u8],
        expiry: Expiry,
    },
    Expire {
        key: &'a [u8],
        expiry: Expiry,
        only: Only,
    },
    Persist(&'a [u8]),
    Flush,
}

/// Which keys are set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    Always,
    /// Those that are not there.
    Absent,
    /// Those that are.
    Present,
}

/// What becomes of the end of a key's life, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expiry {
    /// It lives for ever.
    Never,
    Keep,
    /// From the time of the entry.
    In(i64),
    /// Since the epoch.
    At(i64),
}

/// Which ends of lives are set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Only {
    pub(super) without: bool,
    pub(super) with: bool,
    pub(super) later: bool,
    pub(super) earlier: bool,
}

/// What a SET is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// OK, or nil when nothing was set.
    Ok,
    /// 1, or 0 when nothing was set.
    Flag,
    /// The value before.
    Old,
}

/// The command and what it says, or the error that its sender gets. `Ok(_, None)`: it is not about keys.
pub(super) fn parse<'a>(args: Args<'a>) -> Result<(&'static Command, Option<Request<'a>>), Reply<'static>> {
    let name = args.first().copied().unwrap_or_default();
    let Some(command) = table::find(name) else { return Err(unknown(args)) };
    if !command.takes(args.len()) {
        return Err(wrong_count(command.name));
    }
    let request = match command.kind {
        Kind::Local => None,
        Kind::Read => Some(Request::Read(read(command.name, args)?)),
        Kind::Write => Some(Request::Write(write(command.name, args)?)),
    };
    Ok((command, request))
}

/// The error for this command.
pub(super) fn wrong_count(name: &str) -> Reply<'static> {
    Reply::error(format!("ERR wrong number of arguments for '{}' command", name.to_lowercase()))
}

fn unknown(args: Args<'_>) -> Reply<'static> {
    let shown = |arg: &&[u8]| arg[..arg.len().min(64)].escape_ascii().to_string();
    let name = args.first().map(shown).unwrap_or_default();
    let mut text = format!("ERR unknown command '{name}', with args beginning with: ");
    for arg in args.iter().skip(1).take(4) {
        text.push_str(&format!("'{}' ", shown(arg)));
    }
    Reply::error(text)
}

/// The error for what nobody understands.
pub(super) const SYNTAX: Reply<'static> = Reply::Error(Cow::Borrowed("ERR syntax error"));
/// The error for what is no number.
pub(super) const NOT_A_NUMBER: Reply<'static> =
    Reply::Error(Cow::Borrowed("ERR value is not an integer or out of range"));

fn read<'a>(name: &str, args: Args<'a>) -> Result<Read<'a>, Reply<'static>> {
    let key = args.get(1).copied().unwrap_or_default();
    let life = |unit, absolute| Read::Life { key, unit, absolute };
    Ok(match name {
        "GET" => Read::Get(key),
        "MGET" => Read::MGet(&args[1..]),
        "EXISTS" | "TOUCH" => Read::Exists(&args[1..]),
        "STRLEN" => Read::StrLen(key),
        "GETRANGE" | "SUBSTR" => Read::Range { key, first: number(args[2])?, last: number(args[3])? },
        "TTL" => life(Unit::Seconds, false),
        "PTTL" => life(Unit::Milliseconds, false),
        "EXPIRETIME" => life(Unit::Seconds, true),
        "PEXPIRETIME" => life(Unit::Milliseconds, true),
        "TYPE" => Read::Type(key),
        "DBSIZE" => Read::DbSize,
        "SCAN" => Read::Scan(scan(args)?),
        _ => unreachable!("the table has no other reads: {name}"),
    })
}

fn scan<'a>(args: Args<'a>) -> Result<Scan<'a>, Reply<'static>> {
    let cursor = str::from_utf8(args[1]).ok().and_then(|text| text.parse().ok());
    let cursor = cursor.ok_or_else(|| Reply::error("ERR invalid cursor"))?;
    let mut scan = Scan { cursor, pattern: None, count: 10, none: false };
    for option in args[2..].chunks(2) {
        let [name, value] = *option else { return Err(SYNTAX) };
        if is(name, "MATCH") {
            if value.len() > MAX_PATTERN {
                return Err(Reply::error(format!("ERR a pattern of more than {MAX_PATTERN} bytes")));
            }
            scan.pattern = Some(value);
        } else if is(name, "COUNT") {
            scan.count = usize::try_from(number(value)?).unwrap_or(0);
            if scan.count == 0 {
                return Err(SYNTAX);
            }
        } else if is(name, "TYPE") {
            scan.none = !is(value, "STRING");
        } else {
            return Err(SYNTAX);
        }
    }
    Ok(scan)
}

fn write<'a>(name: &str, args: Args<'a>) -> Result<Write<'a>, Reply<'static>> {
    let key = args.get(1).copied().unwrap_or_default();
    let set = |value, when, expiry, answer| Write::Set { key, value, when, expiry, answer };
    let expire = |expiry| Ok(Write::Expire { key, expiry, only: only(&args[3..])? });
    Ok(match name {
        "SET" => set_with_options(args)?,
        "SETNX" => set(args[2], When::Absent, Expiry::Never, Answer::Flag),
        "GETSET" => set(args[2], When::Always, Expiry::Never, Answer::Old),
        "SETEX" => set(args[3], When::Always, expiry("setex", "EX", args[2])?, Answer::Ok),
        "PSETEX" => set(args[3], When::Always, expiry("psetex", "PX", args[2])?, Answer::Ok),
        "MSET" | "MSETNX" if args.len().is_multiple_of(2) => return Err(wrong_count(name)),
        "MSET" => Write::MSet { pairs: &args[1..], when: When::Always },
        "MSETNX" => Write::MSet { pairs: &args[1..], when: When::Absent },
        "INCR" => Write::Add { key, delta: 1 },
        "DECR" => Write::Add { key, delta: -1 },
        "INCRBY" => Write::Add { key, delta: number(args[2])? },
        "DECRBY" => {
            let delta = number(args[2])?.checked_neg();
            Write::Add { key, delta: delta.ok_or_else(|| Reply::error("ERR decrement would overflow"))? }
        }
        "APPEND" => Write::Append { key, value: args[2] },
        "DEL" | "UNLINK" => Write::Del(&args[1..]),
        "GETDEL" => Write::GetDel(key),
        "GETEX" => get_with_expiry(args)?,
        "EXPIRE" => return expire(Expiry::In(milliseconds("expire", args[2], Unit::Seconds)?)),
        "PEXPIRE" => return expire(Expiry::In(milliseconds("pexpire", args[2], Unit::Milliseconds)?)),
        "EXPIREAT" => return expire(Expiry::At(milliseconds("expireat", args[2], Unit::Seconds)?)),
        "PEXPIREAT" => return expire(Expiry::At(milliseconds("pexpireat", args[2], Unit::Milliseconds)?)),
        "PERSIST" => Write::Persist(key),
        "FLUSHALL" | "FLUSHDB" => match &args[1..] {
            [] => Write::Flush,
            [how] if is(how, "SYNC") || is(how, "ASYNC") => Write::Flush,
            _ => return Err(SYNTAX),
        },
        _ => unreachable!("the table has no other writes: {name}"),
    })
}

fn set_with_options<'a>(args: Args<'a>) -> Result<Write<'a>, Reply<'static>> {
    let (mut when, mut life, mut answer) = (When::Always, None, Answer::Ok);
    let mut options = args[3..].iter();
    while let Some(option) = options.next() {
        if is(option, "NX") && when != When::Present {
            when = When::Absent;
        } else if is(option, "XX") && when != When::Absent {
            when = When::Present;
        } else if is(option, "GET") {
            answer = Answer::Old;
        } else if is(option, "KEEPTTL") && life.is_none() {
            life = Some(Expiry::Keep);
        } else if let Some(unit) = ["EX", "PX", "EXAT", "PXAT"].into_iter().find(|unit| is(option, unit))
            && life.is_none()
            && let Some(value) = options.next()
        {
            life = Some(expiry("set", unit, value)?);
        } else {
            return Err(SYNTAX);
        }
    }
    let expiry = life.unwrap_or(Expiry::Never);
    Ok(Write::Set { key: args[1], value: args[2], when, expiry, answer })
}

fn get_with_expiry<'a>(args: Args<'a>) -> Result<Write<'a>, Reply<'static>> {
    let expiry = match &args[2..] {
        [] => Expiry::Keep,
        [option] if is(option, "PERSIST") => Expiry::Never,
        [option, value] => {
            let unit = ["EX", "PX", "EXAT", "PXAT"].into_iter().find(|unit| is(option, unit));
            expiry("getex", unit.ok_or(SYNTAX)?, value)?
        }
        _ => return Err(SYNTAX),
    };
    Ok(Write::GetEx { key: args[1], expiry })
}

/// Of SET and its like: in the future.
fn expiry(command: &str, unit: &str, value: &[u8]) -> Result<Expiry, Reply<'static>> {
    let count = if unit.starts_with('E') { Unit::Seconds } else { Unit::Milliseconds };
    match milliseconds(command, value, count)? {
        ..=0 => Err(invalid_expiry(command)),
        ms if unit.ends_with("AT") => Ok(Expiry::At(ms)),
        ms => Ok(Expiry::In(ms)),
    }
}

fn milliseconds(command: &str, value: &[u8], unit: Unit) -> Result<i64, Reply<'static>> {
    let factor = if unit == Unit::Seconds { 1000 } else { 1 };
    let ms = number(value)?.checked_mul(factor).filter(|ms| ms.unsigned_abs() <= MAX_MS);
    ms.ok_or_else(|| invalid_expiry(command))
}

fn invalid_expiry(command: &str) -> Reply<'static> {
    Reply::error(format!("ERR invalid expire time in '{command}' command"))
}

fn only(options: Args<'_>) -> Result<Only, Reply<'static>> {
    let mut only = Only::default();
    for option in options {
        let which = [
            ("NX", &mut only.without),
            ("XX", &mut only.with),
            ("GT", &mut only.later),
            ("LT", &mut only.earlier),
        ];
        let Some((_, which)) = which.into_iter().find(|(name, _)| is(option, name)) else {
            return Err(Reply::error(format!(
                "ERR Unsupported option {}",
                option[..option.len().min(64)].escape_ascii()
            )));
        };
        *which = true;
    }
    if only.without && (only.with || only.later || only.earlier) {
        return Err(Reply::error("ERR NX and XX, GT or LT options at the same time are not compatible"));
    }
    if only.later && only.earlier {
        return Err(Reply::error("ERR GT and LT options at the same time are not compatible"));
    }
    Ok(only)
}

/// A number as Redis takes one: digits and a sign that is none but a minus, nothing else.
pub(super) fn number(bytes: &[u8]) -> Result<i64, Reply<'static>> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let plain = digits == b"0" && digits.len() == bytes.len() || matches!(digits.first(), Some(b'1'..=b'9'));
    let text = str::from_utf8(bytes).ok().filter(|_| plain);
    text.and_then(|text| text.parse().ok()).ok_or(NOT_A_NUMBER)
}

/// Whether an argument is this word, which is in capital letters.
pub(super) fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said(line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        match parse(&args) {
            Err(Reply::Error(text)) => text.into_owned(),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn good(line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let parsed = parse(&args);
        format!("{:?}", parsed.expect("understood").1.expect("about keys"))
    }

    #[test]
    fn options_say_the_same_in_any_order() {
        assert_eq!(good("SET k v"), good("set k v"));
        assert_eq!(good("SET k v NX EX 5"), good("SET k v PX 5000 nx"));
        assert_eq!(good("SET k v EX 5"), good("SETEX k 5 v"));
        assert_eq!(good("SET k v GET"), good("GETSET k v"));
        assert_eq!(good("GETEX k EXAT 5"), good("GETEX k PXAT 5000"));
        assert_eq!(good("EXPIRE k 5 XX GT"), good("PEXPIRE k 5000 GT XX"));
        assert_eq!(good("INCRBY k -1"), good("DECR k"));
        assert_eq!(good("SCAN 0 COUNT 10"), good("SCAN 0 TYPE string"));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for line in [
            "SET k v NX XX",
            "SET k v EX 1 PX 1",
            "SET k v KEEPTTL EX 1",
            "SET k v EX",
            "SET k v what",
            "GETEX k EX",
            "GETEX k EX 1 2",
            "SCAN 0 COUNT",
            "SCAN 0 COUNT 0",
            "FLUSHALL now",
        ] {
            assert_eq!(said(line), "ERR syntax error", "{line}");
        }
        for line in ["SET k v EX 0", "SET k v PX -1", "SET k v EX 9223372036854775807", "SETEX k 0 v"] {
            assert!(said(line).starts_with("ERR invalid expire time in 'set"), "{line}");
        }
        for line in [
            "SET k v EX x",
            "SET k v EX 1.5",
            "INCRBY k +1",
            "INCRBY k 01",
            "INCRBY k -0",
            "INCRBY k 9223372036854775808",
        ] {
            assert_eq!(said(line), "ERR value is not an integer or out of range", "{line}");
        }
        assert_eq!(said("DECRBY k -9223372036854775808"), "ERR decrement would overflow");
        assert!(said("EXPIRE k 1 NX GT").contains("not compatible"));
        assert!(said("EXPIRE k 1 LT GT").contains("not compatible"));
        assert_eq!(said("SCAN x"), "ERR invalid cursor");
        assert!(said(&format!("SCAN 0 MATCH {}", "a".repeat(1025))).contains("more than 1024 bytes"));
        for line in ["GET", "GET a b", "MSET a", "MSET a b c", "MSETNX a b c"] {
            assert!(said(line).starts_with("ERR wrong number of arguments for '"), "{line}");
        }
        assert_eq!(said("FLY me"), "ERR unknown command 'FLY', with args beginning with: 'me' ");
        assert!(!said("FLY\r\n-ERR a\nb").contains(['\r', '\n']));
    }

    proptest! {
        /// No arguments make it panic, and every command of the table about keys is known to its parser.
        #[test]
        fn any_arguments_are_understood_or_refused(
            at in 0..table::COMMANDS.len(),
            rest in proptest::collection::vec(prop_oneof![
                Just(b"EX".to_vec()), Just(b"NX".to_vec()), Just(b"GET".to_vec()), Just(b"MATCH".to_vec()),
                Just(b"COUNT".to_vec()), Just(b"12".to_vec()), Just(b"-9223372036854775808".to_vec()),
                proptest::collection::vec(any::<u8>(), 0..10),
            ], 0..8),
        ) {
            let name = table::COMMANDS[at].name.as_bytes();
            let args: Vec<&[u8]> = std::iter::once(name).chain(rest.iter().map(Vec::as_slice)).collect();
            if let Ok((command, request)) = parse(&args) {
                prop_assert_eq!(command.kind == Kind::Local, request.is_none());
            }
        }
    }
}
