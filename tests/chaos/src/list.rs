//! The replicated state machine: a list of all that was proposed to it, and where each client's commands took effect.
//!
//! A command that a client proposes again, because it does not know what became of it, stands in the log again as another
//! *attempt*; the first that is applied has the effect, and later ones have none. The list remembers both, so that the log
//! can be judged, and what the clients see of it.

use std::collections::BTreeMap;

/// What a client wants done, as one of its attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// Whose.
    pub client: u32,
    /// 1, 2, 3, … of that client.
    pub number: u32,
    /// Of all attempts of all clients none has the same. Not 0.
    pub attempt: u64,
}

/// Bytes of the smallest payload.
pub const MIN_LEN: usize = 16;

impl Command {
    /// As a payload of so many bytes, at least [`MIN_LEN`].
    pub fn encode(&self, len: usize, payload: &mut Vec<u8>) {
        payload.clear();
        payload.extend(self.attempt.to_le_bytes());
        payload.extend(self.client.to_le_bytes());
        payload.extend(self.number.to_le_bytes());
        payload.extend((MIN_LEN..len).map(|at| filler(self.attempt, at)));
    }

    /// Out of a payload; `None` when that is not what [`Command::encode`] makes.
    pub fn decode(payload: &[u8]) -> Option<Command> {
        let (head, rest) = payload.split_first_chunk::<MIN_LEN>()?;
        let (attempt, other) = head.split_at(8);
        let (client, number) = other.split_at(4);
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let attempt = word(attempt);
        let whole = rest.iter().enumerate().all(|(at, byte)| *byte == filler(attempt, MIN_LEN + at));
        (whole && attempt != 0).then(|| Command {
            client: word(client) as u32,
            number: word(number) as u32,
            attempt,
        })
    }
}

fn filler(attempt: u64, at: usize) -> u8 {
    (attempt as u8).wrapping_mul(31).wrapping_add(at as u8)
}

/// An entry as it was applied. What was no command has attempt 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Applied {
    /// Its number in the log.
    pub index: u64,
    /// The term of the leader that made it.
    pub term: u64,
    /// What it said.
    pub command: Command,
}

/// Bytes of a record.
pub const RECORD_LEN: usize = 32;

impl Applied {
    /// As bytes.
    pub fn record(&self) -> [u8; RECORD_LEN] {
        let numbers = u64::from(self.command.client) << 32 | u64::from(self.command.number);
        let mut bytes = [0; RECORD_LEN];
        for (chunk, word) in
            bytes.chunks_exact_mut(8).zip([self.index, self.term, self.command.attempt, numbers])
        {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// All of them out of a file; one that is cut off at the end, because its writer was killed, is none.
    pub fn all(bytes: &[u8]) -> Vec<Applied> {
        let (records, _) = bytes.as_chunks::<RECORD_LEN>();
        records.iter().map(Applied::from_record).collect()
    }

    fn from_record(record: &[u8; RECORD_LEN]) -> Applied {
        let (words, _) = record.as_chunks::<8>();
        let [index, term, attempt, numbers] = [0, 1, 2, 3].map(|at| u64::from_le_bytes(words[at]));
        let command = Command { client: (numbers >> 32) as u32, number: numbers as u32, attempt };
        Applied { index, term, command }
    }
}

/// What an entry came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It is the first attempt of its command.
    First,
    /// An earlier attempt had the effect.
    Repeated,
    /// The command before it is missing, which no client ever leaves out.
    Early,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct List {
    applied: Vec<Applied>,
    /// By client, at which index each of its commands took effect.
    effects: BTreeMap<u32, Vec<u64>>,
    digest: u64,
}

impl List {
    /// The list that begins with these entries.
    pub fn of(applied: &[Applied]) -> List {
        let mut list = List::default();
        for applied in applied {
            list.apply(*applied);
        }
        list
    }

    /// One more.
    pub fn apply(&mut self, applied: Applied) -> Effect {
        self.digest = digest(self.digest, &applied);
        self.applied.push(applied);
        let effects = self.effects.entry(applied.command.client).or_default();
        let number = applied.command.number as usize;
        if number != effects.len() + 1 {
            return if number <= effects.len() { Effect::Repeated } else { Effect::Early };
        }
        effects.push(applied.index);
        Effect::First
    }

    /// The index of the last entry; 0 when there is none.
    pub fn last(&self) -> u64 {
        self.applied.last().map_or(0, |applied| applied.index)
    }

    /// Stands for all entries in their order.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Where a client's command took effect.
    pub fn effect(&self, client: u32, number: u32) -> Option<u64> {
        self.effects.get(&client)?.get((number as usize).checked_sub(1)?).copied()
    }

    /// All entries.
    pub fn applied(&self) -> &[Applied] {
        &self.applied
    }

    /// The whole of it as bytes: the records of its entries, which is all that it is made of.
    pub fn save(&self) -> Vec<u8> {
        self.applied.iter().flat_map(Applied::record).collect()
    }

    /// What [`List::save`] saved.
    pub fn load(bytes: &[u8]) -> List {
        List::of(&Applied::all(bytes))
    }
}

fn digest(before: u64, applied: &Applied) -> u64 {
    let record = applied.record();
    let (words, _) = record.as_chunks::<8>();
    words.iter().fold(before, |digest, word| {
        (digest ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(27)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(index: u64, client: u32, number: u32, attempt: u64) -> Applied {
        Applied { index, term: 3, command: Command { client, number, attempt } }
    }

    #[test]
    fn a_command_comes_out_as_it_went_in_and_nothing_else_does() {
        let command = Command { client: 3, number: 70_000, attempt: 0x1234_5678_9abc };
        let mut payload = Vec::new();
        for len in [MIN_LEN, MIN_LEN + 1, 500] {
            command.encode(len, &mut payload);
            assert_eq!(payload.len(), len);
            assert_eq!(Command::decode(&payload), Some(command));
        }
        payload[400] ^= 1;
        assert_eq!(Command::decode(&payload), None);
        assert_eq!(Command::decode(&[0; MIN_LEN]), None);
        assert_eq!(Command::decode(&[1; MIN_LEN - 1]), None);
    }

    #[test]
    fn only_the_first_attempt_has_an_effect() {
        let mut list = List::default();
        assert_eq!(list.apply(applied(2, 7, 1, 10)), Effect::First);
        assert_eq!(list.apply(applied(3, 7, 1, 11)), Effect::Repeated);
        assert_eq!(list.apply(applied(5, 7, 3, 12)), Effect::Early);
        assert_eq!(list.apply(applied(6, 7, 2, 13)), Effect::First);
        assert_eq!((list.effect(7, 1), list.effect(7, 2), list.effect(7, 3)), (Some(2), Some(6), None));
        assert_eq!((list.effect(8, 1), list.effect(7, 0), list.last()), (None, None, 6));
    }

    #[test]
    fn it_is_loaded_as_it_was_saved_and_a_cut_record_is_none() {
        let list = List::of(&[applied(2, 7, 1, 10), applied(9, 8, 1, 11)]);
        let mut bytes = list.save();
        assert_eq!(List::load(&bytes), list);
        assert_ne!(List::load(&bytes).digest(), List::of(&list.applied()[..1]).digest());
        bytes.pop();
        assert_eq!(List::load(&bytes), List::of(&list.applied()[..1]));
    }
}
