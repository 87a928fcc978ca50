//! One message each way, with peers that are well, silent, dying, or hostile.
#![cfg(stand_in)]

mod common;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use common::{Machine, say, shortly, soon};
use ringleader_doca::channel::{
    Answer, ChannelError, Client, Exported, MAX_NOTE_LEN, MESSAGE_LEN, Note, Offer, Server,
};
use ringleader_doca::stand_in::{self, Memory};
use ringleader_doca::{Access, Code, Descriptor, Device, Domain, Error, Export, Import, Library, Range};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, connect,
    listen, recv, send, socket_with,
};

const NAME: &str = "ringleader";

fn offer() -> Offer {
    let descriptor = Descriptor::new(b"a secret of the host").expect("a descriptor");
    let exports = vec![Exported { descriptor, range: Range::new(4096, 4096).expect("a range") }];
    Offer { exports, note: Note::new(b"card of the host") }
}

fn accepted() -> Answer {
    Answer::Accepted { note: Note::new(b"card of the DPU") }
}

/// A peer that sends and hears bytes as it likes.
struct Raw(OwnedFd);

impl Raw {
    fn socket() -> OwnedFd {
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket")
    }

    fn address(dir: &Path) -> SocketAddrUnix {
        SocketAddrUnix::new(dir.join(format!("comch-{NAME}"))).expect("an address")
    }

    fn client(machine: &Machine) -> Raw {
        let socket = Raw::socket();
        connect(&socket, &Raw::address(machine.dir.path())).expect("connected");
        Raw(socket)
    }

    fn listener(dir: &Path) -> OwnedFd {
        let socket = Raw::socket();
        bind(&socket, &Raw::address(dir)).expect("bound");
        listen(&socket, 4).expect("listens");
        socket
    }

    fn say(&self, bytes: &[u8]) {
        assert_eq!(send(&self.0, bytes, SendFlags::NOSIGNAL).expect("sent"), bytes.len());
    }

    /// Nothing once the other side has hung up.
    fn hear(&self) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 16];
        let (len, _) = recv(&self.0, &mut bytes[..], RecvFlags::empty()).expect("a message");
        bytes.truncate(len);
        bytes
    }
}

/// What a client hears of a server that does this with its connection.
fn asked(machine: &Machine, hostile: impl FnOnce(Raw) + Send) -> Result<Note, ChannelError> {
    let listener = Raw::listener(machine.dir.path());
    thread::scope(|scope| {
        scope.spawn(move || hostile(Raw(accept(&listener).expect("a client"))));
        let client = Client::connect(&machine.host(), NAME, soon()).expect("connected");
        client.exchange(&offer(), soon())
    })
}

/// The bytes of the answer, as the real server sends them.
fn answer_bytes(answer: &Answer) -> Vec<u8> {
    let machine_dir = tempfile::tempdir().expect("a directory");
    stand_in::set_directory(machine_dir.path());
    let library = Library::load().expect("the stand-in");
    let dpu = Device::open(&library, common::DPU).expect("a device");
    let representor = ringleader_doca::Representor::open(&dpu, common::HOST_PCI).expect("the host");
    let mut server = Server::listen(&representor, NAME).expect("listens");
    let client = Raw::socket();
    connect(&client, &Raw::address(machine_dir.path())).expect("connected");
    let client = Raw(client);
    client.say(&offer_bytes());
    server.offer(soon()).expect("an offer");
    thread::scope(|scope| {
        let heard = scope.spawn(move || client.hear());
        server.answer(answer, soon()).expect("answered");
        heard.join().expect("heard")
    })
}

/// The bytes of an offer, by hand: the layout is that of `channel/message.rs`.
fn offer_bytes() -> Vec<u8> {
    let Offer { exports, note } = offer();
    let mut bytes = b"rl-doca\0\x01\0\x01\x01".to_vec();
    bytes.extend_from_slice(&(note.secret().len() as u16).to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&exports[0].range.address().to_le_bytes());
    bytes.extend_from_slice(&exports[0].range.len().to_le_bytes());
    bytes.extend_from_slice(&(exports[0].descriptor.secret().len() as u16).to_le_bytes());
    bytes.extend_from_slice(exports[0].descriptor.secret());
    bytes.extend_from_slice(note.secret());
    bytes
}

/// The host of the whole, as a process of its own.
#[test]
#[ignore = "a part of others"]
fn host() {
    let library = Library::load().expect("the stand-in");
    let device = Device::open(&library, "3b:00.0").expect("a device");
    let export =
        Export::new(&device, Memory::new(1 << 16).expect("memory"), Access::Write).expect("exported");
    let client = Client::connect(&device, NAME, soon()).expect("connected");
    let offer = Offer {
        exports: vec![Exported { descriptor: export.descriptor().clone(), range: export.range() }],
        note: Note::new(b"boot 7"),
    };
    let note = client.exchange(&offer, soon()).expect("accepted");
    say(&String::from_utf8_lossy(note.secret()));
    io::stdin().read_line(&mut String::new()).expect("a line");
    say(&String::from_utf8_lossy(&export.memory().bytes(100, 7)));
    drop((export, device));
    say(&format!("{} left", stand_in::live()));
}

#[test]
fn a_host_hands_its_memory_to_its_dpu() {
    let machine = Machine::new();
    let representor = machine.representor();
    let mut server = Server::listen(&representor, NAME).expect("listens");
    let mut host = machine.other("host");
    let offer = server.offer(soon()).expect("an offer");
    assert_eq!((offer.exports.len(), offer.note.secret()), (1, &b"boot 7"[..]));
    let Exported { descriptor, range } = &offer.exports[0];
    let import = Import::new(representor.device(), descriptor, *range).expect("imported");
    let key = import.key(&Domain::new(representor.device()).expect("a domain")).expect("a key");
    stand_in::write(key, range.address() + 100, b"written").expect("written");
    let note = Note::new(b"log at 0x1000");
    server.answer(&Answer::Accepted { note }, soon()).expect("answered");
    assert_eq!(host.hear(), "log at 0x1000");
    host.tell("look");
    assert_eq!(host.hear(), "written");
    assert_eq!(host.hear(), "0 left");
    host.end();
    import.revoke().expect("revoked");
}

#[test]
fn what_is_said_on_either_side_is_heard_on_the_other() {
    let machine = Machine::new();
    for answer in [accepted(), Answer::Refused { why: "another group's host".to_owned() }] {
        let mut server = Server::listen(&machine.representor(), NAME).expect("listens");
        let heard = thread::scope(|scope| {
            let host = scope.spawn(|| {
                let client = Client::connect(&machine.host(), NAME, soon()).expect("connected");
                client.exchange(&offer(), soon())
            });
            assert_eq!(server.offer(soon()).expect("an offer"), offer());
            server.answer(&answer, soon()).expect("answered");
            host.join().expect("ended")
        });
        match answer {
            Answer::Accepted { note } => assert_eq!(heard.expect("accepted"), note),
            Answer::Refused { .. } => assert_eq!(
                heard.expect_err("refused").to_string(),
                "the DPU has refused: another group's host"
            ),
        }
    }
}

#[test]
fn a_host_that_is_early_waits_for_its_dpu() {
    let machine = Machine::new();
    thread::scope(|scope| {
        let host = scope.spawn(|| {
            let client = Client::connect(&machine.host(), NAME, soon()).expect("connected");
            client.exchange(&offer(), soon())
        });
        thread::sleep(Duration::from_millis(120));
        let mut server = Server::listen(&machine.representor(), NAME).expect("listens");
        server.offer(soon()).expect("an offer");
        server.answer(&accepted(), soon()).expect("answered");
        assert_eq!(host.join().expect("ended").expect("accepted").secret(), b"card of the DPU");
    });
}

#[test]
fn nobody_is_waited_for_beyond_the_deadline() {
    let machine = Machine::new();
    let error = Client::connect(&machine.host(), NAME, shortly()).expect_err("nobody listens");
    assert_eq!(error.to_string(), "no connection in time");
    let mut server = Server::listen(&machine.representor(), NAME).expect("listens");
    let error = server.offer(shortly()).expect_err("nobody comes");
    assert!(matches!(error, ChannelError::Deadline { what: "offer" }), "{error}");
    // One that connects and is silent is no better; what it says later is heard where it is waited for again.
    let silent = Raw::client(&machine);
    for _ in 0..2 {
        assert!(matches!(server.offer(shortly()), Err(ChannelError::Deadline { .. })));
    }
    silent.say(&offer_bytes());
    assert_eq!(server.offer(soon()).expect("an offer"), offer());
    // It takes the answer, and never hangs up.
    let error = server.answer(&accepted(), shortly()).expect_err("it stays");
    assert!(matches!(error, ChannelError::Deadline { what: "answer read" }), "{error}");
}

#[test]
fn a_dpu_that_is_silent_is_not_waited_for_beyond_the_deadline() {
    let machine = Machine::new();
    let listener = Raw::listener(machine.dir.path());
    let client = Client::connect(&machine.host(), NAME, soon()).expect("connected");
    let silent = Raw(accept(&listener).expect("a client"));
    let error = client.exchange(&offer(), shortly()).expect_err("silent");
    assert!(matches!(error, ChannelError::Deadline { what: "answer" }), "{error}");
    assert_eq!(silent.hear(), offer_bytes());
    assert_eq!(silent.hear(), b"", "it has hung up");
}

/// A host that reaches its DPU, and says nothing.
#[test]
#[ignore = "a part of others"]
fn silent_host() {
    let library = Library::load().expect("the stand-in");
    let device = Device::open(&library, "3b:00.0").expect("a device");
    let _client = Client::connect(&device, NAME, soon()).expect("connected");
    say("connected");
    io::stdin().read_line(&mut String::new()).expect("a line");
}

/// A DPU that takes an offer, and does not answer.
#[test]
#[ignore = "a part of others"]
fn silent_dpu() {
    let library = Library::load().expect("the stand-in");
    let device = Device::open(&library, common::DPU).expect("a device");
    let representor = ringleader_doca::Representor::open(&device, common::HOST_PCI).expect("the host");
    let mut server = Server::listen(&representor, NAME).expect("listens");
    say("listens");
    server.offer(soon()).expect("an offer");
    say("heard");
    io::stdin().read_line(&mut String::new()).expect("a line");
}

#[test]
fn a_host_that_dies_is_noticed() {
    let machine = Machine::new();
    let mut server = Server::listen(&machine.representor(), NAME).expect("listens");
    let mut host = machine.other("silent_host");
    assert!(matches!(server.offer(shortly()), Err(ChannelError::Deadline { .. })));
    // It connects while it is looked for.
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(host.hear(), "connected");
            host.kill();
        });
        let error = server.offer(soon()).expect_err("dead");
        assert!(matches!(error, ChannelError::Gone { what: "offer" }), "{error}");
    });
    // Dead between offer and answer.
    drop(server);
    let mut server = Server::listen(&machine.representor(), NAME).expect("listens");
    let host = Raw::client(&machine);
    host.say(&offer_bytes());
    server.offer(soon()).expect("an offer");
    drop(host);
    let answered = server.answer(&accepted(), soon());
    assert!(matches!(answered, Ok(()) | Err(ChannelError::Gone { .. })), "{answered:?}");
}

#[test]
fn a_dpu_that_dies_is_noticed() {
    let machine = Machine::new();
    let mut dpu = machine.other("silent_dpu");
    assert_eq!(dpu.hear(), "listens");
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(dpu.hear(), "heard");
            dpu.kill();
        });
        let client = Client::connect(&machine.host(), NAME, soon()).expect("connected");
        client.exchange(&offer(), soon()).expect_err("dead")
    });
    assert!(matches!(error, ChannelError::Gone { what: "answer" }), "{error}");
}

#[test]
fn a_host_that_says_too_much_or_nonsense_is_refused() {
    let machine = Machine::new();
    let heard = |said: &[&[u8]]| {
        let mut server = Server::listen(&machine.representor(), NAME).expect("listens");
        let host = Raw::client(&machine);
        said.iter().for_each(|bytes| host.say(bytes));
        server.offer(soon()).expect_err("refused")
    };
    let too_long = vec![1; MESSAGE_LEN + 1];
    assert!(matches!(heard(&[&too_long]), ChannelError::TooMuch { len: 4081 }));
    assert!(matches!(heard(&[&vec![1; 1 << 16]]), ChannelError::TooMuch { len: 65536 }));
    assert!(matches!(heard(&[&offer_bytes(), &offer_bytes()]), ChannelError::TooMany));
    assert!(matches!(heard(&[b"GET / HTTP/1.1\r\n\r\n"]), ChannelError::Malformed(_)));
    assert!(matches!(heard(&[&vec![0; MESSAGE_LEN]]), ChannelError::Malformed(_)));
    assert!(matches!(heard(&[&answer_bytes_of_a_dpu()]), ChannelError::Malformed(_)));
    let cut = offer_bytes();
    assert!(matches!(heard(&[&cut[..cut.len() - 1]]), ChannelError::Malformed(_)));
}

fn answer_bytes_of_a_dpu() -> Vec<u8> {
    b"rl-doca\0\x01\0\x02\0\0\0\0\0".to_vec()
}

#[test]
fn a_host_that_says_more_and_more_does_not_hold_its_dpu_up() {
    let machine = Machine::new();
    let mut server = Server::listen(&machine.representor(), NAME).expect("listens");
    thread::scope(|scope| {
        let host = Raw::client(&machine);
        // Until nobody listens any more.
        let flood = scope.spawn(move || while send(&host.0, &[7; 4000], SendFlags::NOSIGNAL).is_ok() {});
        // The first is heard, or more of them at once.
        let error = server.offer(soon()).expect_err("refused");
        assert!(matches!(error, ChannelError::Malformed(_) | ChannelError::TooMany), "{error}");
        drop(server);
        flood.join().expect("ended");
    });
}

#[test]
fn a_dpu_that_says_too_much_or_nonsense_is_refused() {
    let machine = Machine::new();
    let dir = machine.dir.path().to_owned();
    let answers = |said: Vec<Vec<u8>>| {
        let heard = asked(&machine, move |dpu| {
            assert_eq!(dpu.hear(), offer_bytes());
            // It may have heard enough before the last.
            let _ = said.iter().try_for_each(|bytes| send(&dpu.0, bytes, SendFlags::NOSIGNAL).map(drop));
            dpu.hear();
        });
        std::fs::remove_file(dir.join(format!("comch-{NAME}"))).expect("the socket");
        heard
    };
    assert!(matches!(answers(vec![vec![1; 1 << 16]]), Err(ChannelError::TooMuch { .. })));
    assert!(matches!(answers(vec![b"rl-doca".to_vec()]), Err(ChannelError::Malformed(_))));
    assert!(matches!(answers(vec![offer_bytes()]), Err(ChannelError::Malformed(_))));
    let refusal = b"rl-doca\0\x01\0\x03\0\x0a\0\0\0no\x1b[31mway".to_vec();
    let error = answers(vec![refusal]).expect_err("refused");
    assert_eq!(error.to_string(), "the DPU has refused: no[31mway");
    // One that is well is understood, too.
    let well = b"rl-doca\0\x01\0\x02\0\x03\0\0\0yes".to_vec();
    assert_eq!(answers(vec![well]).expect("accepted").secret(), b"yes");
}

#[test]
fn bytes_of_an_answer() {
    let machine = Machine::new();
    assert_eq!(answer_bytes(&Answer::Accepted { note: Note::default() }), answer_bytes_of_a_dpu());
    drop(machine);
}

#[test]
fn a_dpu_that_hangs_up_is_noticed() {
    let machine = Machine::new();
    let error = asked(&machine, |dpu| drop(dpu.hear())).expect_err("gone");
    assert!(matches!(error, ChannelError::Gone { .. }), "{error}");
}

#[test]
fn whoever_comes_second_is_not_heard() {
    let machine = Machine::new();
    let mut server = Server::listen(&machine.representor(), NAME).expect("listens");
    let first = Raw::client(&machine);
    assert!(matches!(server.offer(shortly()), Err(ChannelError::Deadline { .. })));
    let second = Raw::client(&machine);
    second.say(&offer_bytes());
    second.say(&vec![1; 1 << 16]);
    assert!(matches!(server.offer(shortly()), Err(ChannelError::Deadline { .. })));
    first.say(&offer_bytes());
    server.offer(soon()).expect("of the first");
}

#[test]
fn what_is_too_long_is_not_sent() {
    let machine = Machine::new();
    let offer = Offer { note: Note::new(&[1; MAX_NOTE_LEN + 1]), ..offer() };
    let error = asked_with(&machine, &offer).expect_err("too long");
    assert!(matches!(error, ChannelError::TooLong { .. }), "{error}");
}

fn asked_with(machine: &Machine, offer: &Offer) -> Result<Note, ChannelError> {
    let _listener = Raw::listener(machine.dir.path());
    Client::connect(&machine.host(), NAME, soon()).expect("connected").exchange(offer, soon())
}

#[test]
fn names_that_no_device_takes_are_refused() {
    let machine = Machine::new();
    for name in ["", "with\0zero", &"x".repeat(120)] {
        let error = Server::listen(&machine.representor(), name).expect_err("no name");
        assert!(matches!(error, ChannelError::Name { most: 119, .. }), "{error}");
        let error = Client::connect(&machine.host(), name, soon()).expect_err("no name");
        assert!(matches!(error, ChannelError::Name { most: 119, .. }), "{error}");
    }
}

#[test]
fn each_side_can_do_its_own_part_only() {
    let machine = Machine::new();
    let error = Client::connect(&machine.dpu(), NAME, soon()).expect_err("no host");
    assert!(matches!(error, ChannelError::Doca(Error::Unable { .. })), "{error}");
}

#[test]
fn whatever_fails_is_named_and_leaves_nothing() {
    let machine = Machine::new();
    let representor = machine.representor();
    let before = machine.live();
    let named = |error: ChannelError, call: &str| match error {
        ChannelError::Doca(Error::Call { call: found, code, .. }) => {
            assert_eq!((found, code.number()), (call, 77));
        }
        other => panic!("{call}: {other}"),
    };
    for call in [
        "doca_comch_cap_get_max_name_len",
        "doca_comch_cap_server_is_supported",
        "doca_comch_cap_get_max_msg_size",
        "doca_comch_server_create",
        "doca_pe_create",
        "doca_ctx_set_user_data",
        "doca_pe_connect_ctx",
        "doca_comch_server_set_max_msg_size",
        "doca_comch_server_task_send_set_conf",
        "doca_comch_server_event_msg_recv_register",
        "doca_comch_server_event_connection_status_changed_register",
        "doca_ctx_start",
    ] {
        stand_in::fail(call, 77);
        named(Server::listen(&representor, NAME).expect_err(call), call);
        stand_in::mend();
        assert_eq!(machine.live(), before, "{call}");
    }
    let host = machine.host();
    let before = machine.live();
    let _listener = Raw::listener(machine.dir.path());
    for call in [
        "doca_comch_cap_client_is_supported",
        "doca_comch_client_create",
        "doca_comch_client_set_max_msg_size",
        "doca_comch_client_task_send_set_conf",
        "doca_comch_client_event_msg_recv_register",
        "doca_comch_client_get_connection",
    ] {
        stand_in::fail(call, 77);
        named(Client::connect(&host, NAME, soon()).expect_err(call), call);
        stand_in::mend();
        assert_eq!(machine.live(), before, "{call}");
    }
    for call in ["doca_comch_client_task_send_alloc_init", "doca_task_submit"] {
        let client = Client::connect(&host, NAME, soon()).expect("connected");
        stand_in::fail(call, 77);
        named(client.exchange(&offer(), soon()).expect_err(call), call);
        stand_in::mend();
        assert_eq!(machine.live(), before, "{call}");
    }
}

#[test]
fn a_context_that_does_not_come_to_rest_is_left_alone() {
    let mut machine = Machine::new();
    let server = Server::listen(&machine.representor(), NAME).expect("listens");
    stand_in::fail("doca_ctx_stop", Code::UNKNOWN.number());
    drop(server);
    stand_in::mend();
    assert_eq!(machine.live(), 4, "server, engine, device and representor");
    assert!(!stand_in::freed().iter().any(|function| function.starts_with("doca_comch")));
    machine.leave();
}
