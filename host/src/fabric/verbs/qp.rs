//! A reliable connected queue pair: its states, and posting to it. Not: who may change its state when (`ends`, `worker`).
//!
//! RESET -> INIT -> RTR -> RTS by [`QueuePair::connect`]; back by [`QueuePair::fail`] (ERR: everything outstanding completes)
//! and [`QueuePair::reset`] (RESET: nothing lands any more, completions not yet taken are thrown away).

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::io;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rdma_sys as sys;

use super::context::check;
use super::cq::CompletionQueue;
use super::domain::Domain;
use super::error::VerbsError;
use super::memory::Local;
use super::receives::Stock;

/// Requests handed to a device by one ring of its doorbell.
pub(super) const CHAIN: usize = 8;
/// Packet and queue pair numbers have 24 bits.
pub(super) const NUMBER_MASK: u32 = 0x00ff_ffff;
/// An inlined payload is worth its room in the send queue up to this: lines and small entries.
const INLINE: [u32; 5] = [256, 192, 128, 64, 0];
/// Retries of the transport. 7 would mean for ever on soft-RoCE.
const RETRIES: u8 = 6;
/// `rnr_retry` of a queue pair whose peer always has receives posted.
const RNR_RETRIES: u8 = 6;
/// Wait of a peer without receives, as `IBV_QP_MIN_RNR_TIMER` counts it: 0.64 ms.
const RNR_TIMER: u8 = 12;

/// What peers may do over a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Permission {
    Nothing,
    Read,
    ReadWrite,
}

impl Permission {
    fn flags(self) -> u32 {
        use sys::ibv_access_flags as Flags;
        match self {
            Permission::Nothing => 0,
            Permission::Read => Flags::IBV_ACCESS_REMOTE_READ.0,
            Permission::ReadWrite => Flags::IBV_ACCESS_REMOTE_WRITE.0 | Flags::IBV_ACCESS_REMOTE_READ.0,
        }
    }
}

/// The way to the other end, and its numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Path {
    pub(super) port: u8,
    /// Own row of the table of GIDs, and the peer's GID; by LID alone when `None`.
    pub(super) gid: Option<(u8, [u8; 16])>,
    pub(super) lid: u16,
    /// `IBV_MTU_*`: the smaller one of both ports.
    pub(super) mtu: u8,
    /// READs that both ends can have under way from here, and from there.
    pub(super) reads_started: u8,
    pub(super) reads_served: u8,
    /// 4.096 us times two to this power until a packet is sent again.
    pub(super) timeout: u8,
}

/// The number of a queue pair and the first packet number that it sends: what its peer must know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Numbers {
    pub(super) qp: u32,
    pub(super) packet: u32,
}

impl Numbers {
    /// Both in one word, as the core carries them.
    pub(super) fn pack(self) -> u64 {
        u64::from(self.qp & NUMBER_MASK) | u64::from(self.packet & NUMBER_MASK) << 24
    }

    pub(super) fn unpack(word: u64) -> Numbers {
        Numbers { qp: word as u32 & NUMBER_MASK, packet: (word >> 24) as u32 & NUMBER_MASK }
    }
}

/// What a writer must know of the end that was armed for it. Both directions begin with the writer's own packet number: the
/// acceptor never sends a request, and 64 bits have no room for a third number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Armed {
    pub(super) qp: u32,
    /// What opens the log area over this queue pair, from the grant to the fence.
    pub(super) key: u32,
}

impl Armed {
    /// Both in one word, as the core carries them.
    pub(super) fn pack(self) -> u64 {
        u64::from(self.qp & NUMBER_MASK) | u64::from(self.key) << 24
    }

    pub(super) fn unpack(word: u64) -> Armed {
        Armed { qp: word as u32 & NUMBER_MASK, key: (word >> 24) as u32 }
    }
}

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Write,
    /// A WRITE with immediate data, which takes a receive at the other end.
    WriteAndWake,
    Read,
}

/// A work request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) id: u64,
    pub(super) operation: Operation,
    pub(super) local: Local<'a>,
    pub(super) address: u64,
    pub(super) key: u32,
}

/// A queue pair.
#[derive(Debug)]
pub(super) struct QueuePair {
    raw: NonNull<sys::ibv_qp>,
    number: u32,
    /// Up to so many bytes of a WRITE are copied into the request itself.
    inline: u32,
    domain: Arc<Domain>,
    _cq: Arc<CompletionQueue>,
    _receives: Option<(Arc<CompletionQueue>, Arc<Stock>)>,
}

// SAFETY: as of `Context`: the pointer may be used from any thread, also by several at a time.
unsafe impl Send for QueuePair {}
// SAFETY: as above.
unsafe impl Sync for QueuePair {}

impl QueuePair {
    /// A queue pair in RESET with room for `depth` requests, whose completions all go to `cq`.
    pub(super) fn new(
        domain: &Arc<Domain>,
        cq: &Arc<CompletionQueue>,
        depth: u32,
        receives: Option<(&Arc<CompletionQueue>, &Arc<Stock>)>,
    ) -> Result<QueuePair, VerbsError> {
        let mut refused = io::Error::from_raw_os_error(libc::EINVAL);
        // No device says how much it inlines before it is asked to.
        for inline in INLINE {
            // SAFETY: a C structure of pointers and integers, for which zeros are a value.
            let mut init: sys::ibv_qp_init_attr = unsafe { mem::zeroed() };
            init.send_cq = cq.raw();
            init.recv_cq = cq.raw();
            if let Some((cq, stock)) = receives {
                init.recv_cq = cq.raw();
                init.srq = stock.raw();
            }
            init.cap.max_send_wr = depth;
            init.cap.max_recv_wr = 1;
            init.cap.max_send_sge = 1;
            init.cap.max_recv_sge = 1;
            init.cap.max_inline_data = inline;
            init.qp_type = sys::ibv_qp_type::IBV_QPT_RC;
            // SAFETY: domain and completion queue live, and are kept alive by the value made below.
            let raw = unsafe { sys::ibv_create_qp(domain.raw(), &mut init) };
            let Some(raw) = NonNull::new(raw) else {
                refused = io::Error::last_os_error();
                continue;
            };
            // SAFETY: just made; the number never changes.
            let number = unsafe { raw.as_ref() }.qp_num;
            let (domain, cq) = (Arc::clone(domain), Arc::clone(cq));
            // Devices round up: what was asked for is enough.
            let receives = receives.map(|(cq, stock)| (Arc::clone(cq), Arc::clone(stock)));
            return Ok(QueuePair { raw, number, inline, domain, _cq: cq, _receives: receives });
        }
        Err(VerbsError::call("ibv_create_qp", domain.context().name())(refused))
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// For the files that wrap what else belongs to a queue pair.
    pub(super) fn raw(&self) -> *mut sys::ibv_qp {
        self.raw.as_ptr()
    }

    fn error(&self, call: &'static str) -> impl FnOnce(io::Error) -> VerbsError {
        VerbsError::call(call, self.domain.context().name())
    }

    fn modify(&self, step: &'static str, attr: &mut sys::ibv_qp_attr, mask: u32) -> Result<(), VerbsError> {
        // SAFETY: the queue pair lives, and the structure is valid for the fields that the mask names.
        let code = unsafe { sys::ibv_modify_qp(self.raw.as_ptr(), attr, mask as i32) };
        check(code).map_err(self.error(step))
    }

    /// From RESET to RTS: connected to the end with the numbers `peer`, sending from packet number `packet`.
    pub(super) fn connect(
        &self,
        path: &Path,
        peer: Numbers,
        packet: u32,
        permission: Permission,
    ) -> Result<(), VerbsError> {
        use sys::ibv_qp_attr_mask as Mask;
        let mut attr = state(sys::ibv_qp_state::IBV_QPS_INIT);
        attr.port_num = path.port;
        attr.qp_access_flags = permission.flags();
        let mask = Mask::IBV_QP_STATE.0
            | Mask::IBV_QP_PKEY_INDEX.0
            | Mask::IBV_QP_PORT.0
            | Mask::IBV_QP_ACCESS_FLAGS.0;
        self.modify("ibv_modify_qp to INIT", &mut attr, mask)?;

        let mut attr = state(sys::ibv_qp_state::IBV_QPS_RTR);
        attr.path_mtu = u32::from(path.mtu);
        attr.dest_qp_num = peer.qp;
        attr.rq_psn = peer.packet;
        attr.max_dest_rd_atomic = path.reads_served;
        attr.min_rnr_timer = RNR_TIMER;
        attr.ah_attr.port_num = path.port;
        attr.ah_attr.dlid = path.lid;
        if let Some((index, gid)) = path.gid {
            attr.ah_attr.is_global = 1;
            attr.ah_attr.grh.sgid_index = index;
            attr.ah_attr.grh.hop_limit = 64;
            attr.ah_attr.grh.dgid = sys::ibv_gid { raw: gid };
        }
        let mask = Mask::IBV_QP_STATE.0
            | Mask::IBV_QP_AV.0
            | Mask::IBV_QP_PATH_MTU.0
            | Mask::IBV_QP_DEST_QPN.0
            | Mask::IBV_QP_RQ_PSN.0
            | Mask::IBV_QP_MAX_DEST_RD_ATOMIC.0
            | Mask::IBV_QP_MIN_RNR_TIMER.0;
        self.modify("ibv_modify_qp to RTR", &mut attr, mask)?;

        let mut attr = state(sys::ibv_qp_state::IBV_QPS_RTS);
        attr.timeout = path.timeout;
        attr.retry_cnt = RETRIES;
        attr.rnr_retry = RNR_RETRIES;
        attr.sq_psn = packet;
        attr.max_rd_atomic = path.reads_started;
        let mask = Mask::IBV_QP_STATE.0
            | Mask::IBV_QP_TIMEOUT.0
            | Mask::IBV_QP_RETRY_CNT.0
            | Mask::IBV_QP_RNR_RETRY.0
            | Mask::IBV_QP_SQ_PSN.0
            | Mask::IBV_QP_MAX_QP_RD_ATOMIC.0;
        self.modify("ibv_modify_qp to RTS", &mut attr, mask)
    }

    /// Changes what the peer may do, and nothing else. Takes nothing away for certain: writes under way are not waited for.
    pub(super) fn permit(&self, permission: Permission) -> Result<(), VerbsError> {
        use sys::ibv_qp_attr_mask as Mask;
        let mut attr = state(sys::ibv_qp_state::IBV_QPS_RTS);
        attr.qp_access_flags = permission.flags();
        let mask = Mask::IBV_QP_STATE.0 | Mask::IBV_QP_ACCESS_FLAGS.0;
        self.modify("ibv_modify_qp of the access flags", &mut attr, mask)
    }

    /// To ERR: everything outstanding completes, and everything posted from here on. Nothing to do in RESET.
    pub(super) fn fail(&self) -> Result<(), VerbsError> {
        if self.is_reset()? {
            return Ok(());
        }
        let mask = sys::ibv_qp_attr_mask::IBV_QP_STATE.0;
        self.modify("ibv_modify_qp to ERR", &mut state(sys::ibv_qp_state::IBV_QPS_ERR), mask)
    }

    /// To RESET: when it returns, nothing that came or comes over this queue pair is carried out any more.
    pub(super) fn reset(&self) -> Result<(), VerbsError> {
        let mask = sys::ibv_qp_attr_mask::IBV_QP_STATE.0;
        self.modify("ibv_modify_qp to RESET", &mut state(sys::ibv_qp_state::IBV_QPS_RESET), mask)
    }

    /// Whether the device says that it is in RESET.
    pub(super) fn is_reset(&self) -> Result<bool, VerbsError> {
        let mut attr = MaybeUninit::<sys::ibv_qp_attr>::zeroed();
        let mut init = MaybeUninit::<sys::ibv_qp_init_attr>::zeroed();
        let mask = sys::ibv_qp_attr_mask::IBV_QP_STATE.0 as i32;
        // SAFETY: the queue pair lives, and the structures are as large as the call expects.
        let code =
            unsafe { sys::ibv_query_qp(self.raw.as_ptr(), attr.as_mut_ptr(), mask, init.as_mut_ptr()) };
        check(code).map_err(self.error("ibv_query_qp"))?;
        // SAFETY: integers only; all were zeroed, and the call has filled in what it knows.
        Ok(unsafe { attr.assume_init() }.qp_state == sys::ibv_qp_state::IBV_QPS_RESET)
    }

    /// Packet size (`IBV_MTU_*`), READs that it starts and READs that it serves, as the device has them.
    #[cfg(test)]
    pub(super) fn in_force(&self) -> Result<(u8, u8, u8), VerbsError> {
        let mut attr = MaybeUninit::<sys::ibv_qp_attr>::zeroed();
        let mut init = MaybeUninit::<sys::ibv_qp_init_attr>::zeroed();
        use sys::ibv_qp_attr_mask as Mask;
        let mask =
            Mask::IBV_QP_PATH_MTU.0 | Mask::IBV_QP_MAX_QP_RD_ATOMIC.0 | Mask::IBV_QP_MAX_DEST_RD_ATOMIC.0;
        // SAFETY: as in `is_reset`.
        let code = unsafe {
            sys::ibv_query_qp(self.raw.as_ptr(), attr.as_mut_ptr(), mask as i32, init.as_mut_ptr())
        };
        check(code).map_err(self.error("ibv_query_qp"))?;
        // SAFETY: as in `is_reset`.
        let attr = unsafe { attr.assume_init() };
        Ok((attr.path_mtu as u8, attr.max_rd_atomic, attr.max_dest_rd_atomic))
    }

    /// Destroys it, and says whether that worked: then nothing of it is at the device any more.
    pub(super) fn destroy(self) -> Result<(), (QueuePair, VerbsError)> {
        // SAFETY: made once; only when this fails is it there to be destroyed again.
        let code = unsafe { sys::ibv_destroy_qp(self.raw.as_ptr()) };
        match check(code) {
            Ok(()) => {
                let parts = ManuallyDrop::new(self);
                // SAFETY: all are moved out once, of a value that is not dropped.
                unsafe {
                    drop((ptr::read(&parts.domain), ptr::read(&parts._cq), ptr::read(&parts._receives)))
                };
                Ok(())
            }
            Err(error) => {
                let error = self.error("ibv_destroy_qp")(error);
                Err((self, error))
            }
        }
    }

    /// Posts up to [`CHAIN`] requests, ringing once. On an error, how many of them were taken.
    #[inline]
    pub(super) fn post(&self, requests: &[Request<'_>]) -> Result<(), (usize, io::Error)> {
        assert!(requests.len() <= CHAIN, "a chain is posted at a time");
        let mut pieces = [const { MaybeUninit::<sys::ibv_sge>::uninit() }; CHAIN];
        let mut chain = [const { MaybeUninit::<sys::ibv_send_wr>::uninit() }; CHAIN];
        let mut next = ptr::null_mut();
        for (i, request) in requests.iter().enumerate().rev() {
            let Request { id, operation, local, address, key } = *request;
            let piece =
                pieces[i].write(sys::ibv_sge { addr: local.address, length: local.len, lkey: local.key });
            let inlined = operation != Operation::Read && local.len <= self.inline;
            let inline = if inlined { sys::ibv_send_flags::IBV_SEND_INLINE.0 } else { 0 };
            // SAFETY: a C structure of integers, pointers and unions of them, for which zeros are a value.
            let work = chain[i].write(unsafe { mem::zeroed() });
            work.wr_id = id;
            work.next = next;
            work.sg_list = piece;
            work.num_sge = 1;
            work.opcode = match operation {
                Operation::Write => sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE,
                Operation::WriteAndWake => sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM,
                Operation::Read => sys::ibv_wr_opcode::IBV_WR_RDMA_READ,
            };
            work.send_flags = sys::ibv_send_flags::IBV_SEND_SIGNALED.0 | inline;
            work.wr.rdma = sys::rdma_t { remote_addr: address, rkey: key };
            next = work;
        }
        if next.is_null() {
            return Ok(());
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the chain and its pieces live until the call returns, which copies what it needs; an inlined payload is
        // read now, and its region is borrowed; everything else is checked by the device against the region's key.
        let code = unsafe { sys::ibv_post_send(self.raw.as_ptr(), next, &mut bad) };
        check(code).map_err(|error| {
            let taken = (0..requests.len()).find(|i| chain[*i].as_ptr() == bad.cast_const());
            (taken.unwrap_or(0), error)
        })
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once; nobody posts to it any more.
        unsafe { sys::ibv_destroy_qp(self.raw.as_ptr()) };
    }
}

fn state(to: u32) -> sys::ibv_qp_attr {
    // SAFETY: a C structure of integers and unions of them, for which zeros are a value.
    let mut attr: sys::ibv_qp_attr = unsafe { mem::zeroed() };
    attr.qp_state = to;
    attr
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_their_word() {
        let numbers = Numbers { qp: 0x00ab_cdef, packet: 0x0012_3456 };
        assert_eq!(Numbers::unpack(numbers.pack()), numbers);
        assert_eq!(numbers.pack() >> 48, 0);
        let armed = Armed { qp: 0x00ab_cdef, key: 0x89ab_cdef };
        assert_eq!(Armed::unpack(armed.pack()), armed);
    }
}
