//! The commands that there are: names, how many arguments, who answers them, and where their keys are. Clients ask for this table
//! (COMMAND).

/// Who answers a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The state, as it is when everything acknowledged before has been applied.
    Read,
    /// The state, after the command has gone through the log.
    Write,
    /// The node that is asked, at once.
    Local,
}

/// A command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Command {
    /// In capital letters.
    pub(super) name: &'static str,
    /// Arguments with the name: exactly so many, or at least when it is negative.
    pub(super) arity: i64,
    pub(super) kind: Kind,
    /// The first and the last argument that is a key, and the step between keys; 0 when there are none, and a last one from the
    /// end when it is negative.
    pub(super) keys: (i64, i64, i64),
}

const NONE: (i64, i64, i64) = (0, 0, 0);
const ONE: (i64, i64, i64) = (1, 1, 1);
const ALL: (i64, i64, i64) = (1, -1, 1);
const PAIRS: (i64, i64, i64) = (1, -1, 2);

const fn of(name: &'static str, arity: i64, kind: Kind, keys: (i64, i64, i64)) -> Command {
    Command { name, arity, kind, keys }
}

/// All of them, by name.
pub(super) static COMMANDS: [Command; 55] = [
    of("APPEND", 3, Kind::Write, ONE),
    of("ASKING", 1, Kind::Local, NONE),
    of("AUTH", -2, Kind::Local, NONE),
    of("CLIENT", -2, Kind::Local, NONE),
    of("CLUSTER", -2, Kind::Local, NONE),
    of("COMMAND", -1, Kind::Local, NONE),
    of("CONFIG", -2, Kind::Local, NONE),
    of("DBSIZE", 1, Kind::Read, NONE),
    of("DECR", 2, Kind::Write, ONE),
    of("DECRBY", 3, Kind::Write, ONE),
    of("DEL", -2, Kind::Write, ALL),
    of("ECHO", 2, Kind::Local, NONE),
    of("EXISTS", -2, Kind::Read, ALL),
    of("EXPIRE", -3, Kind::Write, ONE),
    of("EXPIREAT", -3, Kind::Write, ONE),
    of("EXPIRETIME", 2, Kind::Read, ONE),
    of("FLUSHALL", -1, Kind::Write, NONE),
    of("FLUSHDB", -1, Kind::Write, NONE),
    of("GET", 2, Kind::Read, ONE),
    of("GETDEL", 2, Kind::Write, ONE),
    of("GETEX", -2, Kind::Write, ONE),
    of("GETRANGE", 4, Kind::Read, ONE),
    of("GETSET", 3, Kind::Write, ONE),
    of("HELLO", -1, Kind::Local, NONE),
    of("INCR", 2, Kind::Write, ONE),
    of("INCRBY", 3, Kind::Write, ONE),
    of("INFO", -1, Kind::Local, NONE),
    of("MGET", -2, Kind::Read, ALL),
    of("MSET", -3, Kind::Write, PAIRS),
    of("MSETNX", -3, Kind::Write, PAIRS),
    of("PERSIST", 2, Kind::Write, ONE),
    of("PEXPIRE", -3, Kind::Write, ONE),
    of("PEXPIREAT", -3, Kind::Write, ONE),
    of("PEXPIRETIME", 2, Kind::Read, ONE),
    of("PING", -1, Kind::Local, NONE),
    of("PSETEX", 4, Kind::Write, ONE),
    of("PTTL", 2, Kind::Read, ONE),
    of("QUIT", -1, Kind::Local, NONE),
    of("READONLY", 1, Kind::Local, NONE),
    of("READWRITE", 1, Kind::Local, NONE),
    of("RESET", 1, Kind::Local, NONE),
    of("ROLE", 1, Kind::Local, NONE),
    of("SCAN", -2, Kind::Read, NONE),
    of("SELECT", 2, Kind::Local, NONE),
    of("SET", -3, Kind::Write, ONE),
    of("SETEX", 4, Kind::Write, ONE),
    of("SETNX", 3, Kind::Write, ONE),
    of("STRLEN", 2, Kind::Read, ONE),
    of("SUBSTR", 4, Kind::Read, ONE),
    of("TIME", 1, Kind::Local, NONE),
    of("TOUCH", -2, Kind::Read, ALL),
    of("TTL", 2, Kind::Read, ONE),
    of("TYPE", 2, Kind::Read, ONE),
    of("UNLINK", -2, Kind::Write, ALL),
    of("WAIT", 3, Kind::Local, NONE),
];

/// Letters of the longest name.
const MAX_NAME: usize = 16;

/// The command of this name, in whatever letters.
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut capitals = [0; MAX_NAME];
    let capitals = capitals.get_mut(..name.len())?;
    capitals.copy_from_slice(name);
    capitals.make_ascii_uppercase();
    COMMANDS.binary_search_by(|command| command.name.as_bytes().cmp(capitals)).ok().map(|at| &COMMANDS[at])
}

impl Command {
    /// Whether it may have so many arguments, its name included.
    pub(super) fn takes(&self, count: usize) -> bool {
        let (count, least) = (count as u64, self.arity.unsigned_abs());
        if self.arity < 0 { count >= least } else { count == least }
    }

    /// Where its keys are among so many arguments.
    pub(super) fn keys_of(&self, count: usize) -> impl Iterator<Item = usize> {
        let (first, last, step) = self.keys;
        let last = if last < 0 { count as i64 + last } else { last };
        let some = first > 0;
        (first..=last).step_by(step.max(1) as usize).filter(move |_| some).map(|at| at as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name() {
        assert!(COMMANDS.is_sorted_by(|one, next| one.name < next.name));
        for command in &COMMANDS {
            assert!(command.name.len() <= MAX_NAME);
            assert_eq!(find(command.name.to_lowercase().as_bytes()), Some(command));
            assert!(command.takes(command.arity.unsigned_abs() as usize));
            assert_eq!(command.takes(command.arity.unsigned_abs() as usize + 1), command.arity < 0);
        }
        assert_eq!(find(b""), None);
        assert_eq!(find(b"GETT"), None);
        assert_eq!(find(&[b'A'; 1000]), None);
    }

    #[test]
    fn keys_are_where_the_table_says() {
        let keys = |name: &[u8], count| find(name).expect("there").keys_of(count).collect::<Vec<_>>();
        assert_eq!(keys(b"get", 2), [1]);
        assert_eq!(keys(b"set", 5), [1]);
        assert_eq!(keys(b"mget", 4), [1, 2, 3]);
        assert_eq!(keys(b"mset", 5), [1, 3]);
        assert!(keys(b"ping", 2).is_empty());
    }
}
