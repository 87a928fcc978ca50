//! All clients of a node: their places, whose turn it is, and what they keep of the memory together.

use std::net::SocketAddr;

use mio::net::TcpStream;

use super::client::{Client, MAX_OUT};

/// Bits of a client's id that are its place: a place has another id each time.
const PLACE_BITS: u32 = 20;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Clients {
    places: Vec<Place>,
    free: Vec<usize>,
    count: usize,
    max: usize,
    given_out: u64,
    /// Ids of clients for whom there may be something to do.
    listed: Vec<u64>,
    /// Bytes that wait in all of them; and what they may come to.
    kept: usize,
    max_kept: usize,
}

#[derive(Debug)]
struct Place {
    client: Option<Box<Client>>,
    /// Bytes of it in the sum.
    kept: usize,
}

impl Clients {
    /// Room for so many.
    pub(super) fn new(max: usize, max_kept: usize) -> Clients {
        let max = max.min((1 << PLACE_BITS) - 1);
        Clients {
            places: Vec::new(),
            free: Vec::new(),
            count: 0,
            max,
            given_out: 0,
            listed: Vec::new(),
            kept: 0,
            max_kept,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// Bytes that wait in all of them.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// A place for one more, if there is one.
    pub(super) fn vacancy(&mut self) -> Option<usize> {
        if self.count >= self.max {
            return None;
        }
        if self.free.is_empty() {
            self.places.push(Place { client: None, kept: 0 });
            self.free.push(self.places.len() - 1);
        }
        self.free.last().copied()
    }

    /// Takes a client in at its vacancy.
    pub(super) fn add(&mut self, at: usize, stream: TcpStream, address: SocketAddr, is_known: bool) {
        let vacant = self.free.pop();
        assert_eq!(vacant, Some(at), "the place was vacant");
        self.given_out += 1;
        let id = self.given_out << PLACE_BITS | at as u64;
        self.places[at].client = Some(Box::new(Client::new(id, stream, address, is_known)));
        self.count += 1;
        self.list(id);
    }

    /// The client of this id, if it is still there.
    pub(super) fn get(&mut self, id: u64) -> Option<&mut Client> {
        let at = (id & ((1 << PLACE_BITS) - 1)) as usize;
        self.places.get_mut(at)?.client.as_deref_mut().filter(|client| client.id == id)
    }

    /// The client at this place.
    pub(super) fn at(&mut self, at: usize) -> Option<&mut Client> {
        self.places.get_mut(at)?.client.as_deref_mut()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Client> {
        self.places.iter_mut().filter_map(|place| place.client.as_deref_mut())
    }

    /// There may be something to do for this one.
    pub(super) fn list(&mut self, id: u64) {
        if let Some(client) = self.get(id)
            && !client.is_listed
        {
            client.is_listed = true;
            self.listed.push(id);
        }
    }

    /// What this one waited for may have come.
    pub(super) fn unpark(&mut self, id: u64) {
        if let Some(client) = self.get(id) {
            client.is_parked = false;
        }
        self.list(id);
    }

    /// The same, for one that is lent.
    pub(super) fn list_lent(&mut self, client: &mut Client) {
        if !client.is_listed {
            client.is_listed = true;
            self.listed.push(client.id);
        }
    }

    /// Those who are to go are looked at again.
    pub(super) fn list_all_that_leave(&mut self) {
        let leaving: Vec<u64> =
            self.iter_mut().filter(|client| !client.stays()).map(|client| client.id).collect();
        leaving.into_iter().for_each(|id| self.list(id));
    }

    /// Those for whom there may be something to do.
    pub(super) fn take_list(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.listed)
    }

    /// Lends a client, which is not on the list any more.
    pub(super) fn lend(&mut self, id: u64) -> Option<Box<Client>> {
        self.get(id)?.is_listed = false;
        self.places[(id & ((1 << PLACE_BITS) - 1)) as usize].client.take()
    }

    /// One that was lent comes back.
    pub(super) fn give_back(&mut self, client: Box<Client>) {
        let at = (client.id & ((1 << PLACE_BITS) - 1)) as usize;
        self.places[at].client = Some(client);
        self.count_kept(at);
    }

    /// This one, which is not lent, keeps more or less than before.
    pub(super) fn recount(&mut self, id: u64) {
        if self.get(id).is_some() {
            self.count_kept((id & ((1 << PLACE_BITS) - 1)) as usize);
        }
    }

    fn count_kept(&mut self, at: usize) {
        let place = &mut self.places[at];
        let kept = place.client.as_ref().map_or(0, |client| client.kept());
        self.kept = self.kept - place.kept + kept;
        place.kept = kept;
    }

    /// One that was lent has gone.
    pub(super) fn remove(&mut self, client: Box<Client>) {
        let at = (client.id & ((1 << PLACE_BITS) - 1)) as usize;
        self.kept -= self.places[at].kept;
        self.places[at].kept = 0;
        self.free.push(at);
        self.count -= 1;
    }

    /// Whether all of them together keep more than they may, and this one, which is lent, more than its share.
    pub(super) fn keeps_too_much(&self, client: &Client) -> bool {
        let at = (client.id & ((1 << PLACE_BITS) - 1)) as usize;
        self.kept - self.places[at].kept + client.kept() > self.max_kept && client.kept() > self.share()
    }

    /// Bytes that each may keep, whatever the others do.
    pub(super) fn share(&self) -> usize {
        (self.max_kept / self.count.max(1)).min(MAX_OUT)
    }

    /// Bytes that may wait for one of them before no more is taken of it.
    pub(super) fn max_waiting(&self) -> usize {
        if self.kept > self.max_kept { self.share() } else { MAX_OUT }
    }

    /// Whether there is room for so many bytes more of this one.
    pub(super) fn has_room_for(&self, len: usize, client: &Client) -> bool {
        len <= self.room() || client.kept() + len <= self.share()
    }

    /// Bytes that may wait besides those that do.
    pub(super) fn room(&self) -> usize {
        self.max_kept.saturating_sub(self.kept)
    }

    /// This one is to go now.
    pub(super) fn drop_now(&mut self, id: u64) {
        if let Some(client) = self.get(id) {
            client.drop_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::reply::Reply;
    use std::net::{TcpListener, TcpStream as Plain};

    /// A client that takes nothing, and its other end.
    fn add(clients: &mut Clients) -> (u64, Plain) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let theirs = Plain::connect(listener.local_addr().expect("an address")).expect("connected");
        let (ours, address) = listener.accept().expect("accepted");
        let at = clients.vacancy().expect("a place");
        clients.add(at, TcpStream::from_std(ours), address, true);
        (*clients.listed.last().expect("it is new"), theirs)
    }

    #[test]
    fn all_together_keep_no_more_than_they_may_and_each_has_a_share() {
        let mut clients = Clients::new(10, 1000);
        let (a, _a) = add(&mut clients);
        let (b, _b) = add(&mut clients);
        assert_eq!((clients.room(), clients.share(), clients.max_waiting()), (1000, 500, MAX_OUT));
        let owe = |clients: &mut Clients, id, len| {
            clients.get(id).expect("there").owe(len);
            clients.recount(id);
        };
        owe(&mut clients, a, 800);
        owe(&mut clients, b, 100);
        assert_eq!((clients.kept(), clients.room()), (900, 100));
        let lent = clients.lend(b).expect("there");
        assert!(clients.has_room_for(100, &lent), "there is room");
        assert!(clients.has_room_for(400, &lent), "this is its share");
        assert!(!clients.has_room_for(401, &lent) && !clients.keeps_too_much(&lent));
        clients.give_back(lent);
        // Whoever has more than a share when there is no more room goes first.
        owe(&mut clients, b, 300);
        assert_eq!((clients.kept(), clients.room(), clients.max_waiting()), (1200, 0, 500));
        let (first, second) = (clients.lend(a).expect("there"), clients.lend(b).expect("there"));
        assert!(clients.keeps_too_much(&first) && !clients.keeps_too_much(&second));
        assert!(!first.has_room(clients.max_waiting()) && second.has_room(clients.max_waiting()));
        clients.remove(first);
        clients.give_back(second);
        assert_eq!((clients.kept(), clients.count()), (400, 1));
        // What was answered is not kept, and what is gone is not counted.
        clients.get(b).expect("there").answer_owed(0, &Reply::OK);
        clients.recount(b);
        clients.recount(a);
        assert_eq!(clients.kept(), 300 + "+OK\r\n".len());
    }
}
