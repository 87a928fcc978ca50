/*
 * Ringleader: microsecond state machine replication over one-sided RDMA.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * CONVENTIONS, which hold for every function here unless it says otherwise.
 *
 * Status.    Functions return a status: RINGLEADER_OK (0) or why not. `ringleader_status_name` and `_text` say it in words, and
 *            `ringleader_error_text` what there is to say beyond. RINGLEADER_NOTHING, _TIMEOUT and _FULL are no errors.
 * Outputs.   Are written on success, and only then. They may not be NULL, but where that is said.
 * Handles.   Whatever ..._open, ..._start, ..._polled or ringleader_open puts out is a handle, which its ..._close takes back, always:
 *            a lane outlives its node, and tells how its proposals have ended. A handle is no address; copy it as you like. NULL, closed,
 *            foreign and reused ones are told (RINGLEADER_NULL, _CLOSED_HANDLE, _FOREIGN), at any time, from any thread.
 *            Only `ringleader_core` is an address, of storage that is yours: a pointer that never led to one can only be told as long as
 *            there is memory to look at.
 * Memory.    What you pass in is yours, and is not kept after the call: texts, payloads, options. What the library hands out is lent:
 *            for the time of a callback (entries, states, log lines), or as long as its function says (drafts). Texts end with a zero, and
 *            are UTF-8 or paths. Lengths are in bytes. Times are in nanoseconds, UINT64_MAX means without end.
 * Structs.   That you pass begin with their size: set `size` to sizeof before every call. Put all other members to 0 first: 0 is the
 *            default, and new members come at the end. A library that is older than your header refuses what it does not know with
 *            RINGLEADER_SIZE, unless it is 0; a newer one fills in the default. Structs within such a struct do not grow; those that
 *            only the library makes (ringleader_entry) may, at their end.
 * Threads.   Agents and nodes may be used by any threads at the same time. Lanes and readers are for one thread at a time, and may
 *            change hands; who comes second gets RINGLEADER_BUSY, and so does who closes what another thread uses. An agent
 *            without a thread (ringleader_agent_polled) belongs to the thread that made it: only that one polls it, opens and
 *            closes nodes on it, and calls what waits for them; others get RINGLEADER_WRONG_THREAD. What waits says so. A core is for
 *            one call at a time, from any thread; who comes second gets RINGLEADER_BUSY.
 * Callbacks. Come from the thread that their type names, never two of one application, or of one lane, at the same time. They may propose,
 *            ask, look and log; they may not wait, poll an agent, or open or close a node or an agent (RINGLEADER_IN_CALLBACK), nor throw
 *            or longjmp out. A context is passed on as it is: that it may be used from those threads is your word.
 * Panics.    None crosses: RINGLEADER_PANICKED is a bug of the library, caught; in a function of a core, which has nothing to catch it
 *            with, it ends the process. One thing else does (abort): a former writer that could not be fenced in time, for then only
 *            the end of the process is a fence (docs/protocol.md, section 4).
 * Forks.     Handles are the process's that made them: a child may not use them.
 * Versions.  The soname has the major version, and before 1.0 the minor one as well: as long as it is the same, functions, statuses and
 *            members of structs only come. RINGLEADER_VERSION_... is this header's version, ringleader_version() the library's.
 */


#ifndef RINGLEADER_H
#define RINGLEADER_H

/* Made by cbindgen of ffi/ and ffi/acceptor/: `make header` makes it anew. */

#include <stddef.h>
#include <stdint.h>

// The version of this header: major.
#define RINGLEADER_VERSION_MAJOR 0

// Minor.
#define RINGLEADER_VERSION_MINOR 1

// Patch.
#define RINGLEADER_VERSION_PATCH 0

// Nothing is logged.
#define RINGLEADER_LOG_NOTHING 0

// What ends a node, or a group.
#define RINGLEADER_LOG_ERROR 1

// What an operator should look at.
#define RINGLEADER_LOG_WARN 2

// What changes rarely: who leads, who is a member.
#define RINGLEADER_LOG_INFO 3

// What helps to understand the former.
#define RINGLEADER_LOG_DEBUG 4

// Everything, every commit.
#define RINGLEADER_LOG_TRACE 5

// Several nodes on one shared machine, whose pollers lose their processor for milliseconds.
#define RINGLEADER_TIMING_LOCAL 0

// The kernel's software NIC, in virtual machines.
#define RINGLEADER_TIMING_SOFT_ROCE 1

// Nodes on NICs of their own, pinned pollers.
#define RINGLEADER_TIMING_HARDWARE 2

// Of a later version.
#define RINGLEADER_EVENT_OTHER 0

// This node is in a group: `group_low`, `group_high`.
#define RINGLEADER_EVENT_FORMED 1

// A node refused to be part of the group that this one was told to form.
#define RINGLEADER_EVENT_FORM_REFUSED 2

// Another promise is in force here: `term`, of `node`.
#define RINGLEADER_EVENT_PROMISED 3

// The leader of that promise is silent and could not be excused: `term`, `node`.
#define RINGLEADER_EVENT_QUIET 4

// This node asks for votes in `term`.
#define RINGLEADER_EVENT_CAMPAIGN 5

// A fence ended that a vote or an access of `node` waited for.
#define RINGLEADER_EVENT_FENCED 6

// This node leads in `term`.
#define RINGLEADER_EVENT_ELECTED 7

// Everything up to `index`, whose end is `position`, is committed by this node as leader of `term`.
#define RINGLEADER_EVENT_COMMITTED 8

// Reads of kind `detail` are to be answered, all up to `number`. Of a core; a node has readers.
#define RINGLEADER_EVENT_READ_READY 9

// Reads of kind `detail` end without an answer, all up to `number`. Of a core, too.
#define RINGLEADER_EVENT_READ_FAILED 10

// `node` was not elected in time, to which the lead was to be handed over: this one leads on.
#define RINGLEADER_EVENT_TRANSFER_FAILED 11

// This node does not lead any more in `term`: what it proposed and was not reported committed is unknown. `detail`: 1 its own acceptor
// promised another, 2 another acceptor did, 3 no majority was reached in time, 4 it was told to, 5 it is no member any more.
#define RINGLEADER_EVENT_GAVE_UP 12

// Follower `node` is below what can be served from the ring: it needs a snapshot.
#define RINGLEADER_EVENT_BEHIND 13

// `node` came back without its memory, and is kept out.
#define RINGLEADER_EVENT_FORGETFUL 14

// Another configuration is in force here, of the entry at `index`.
#define RINGLEADER_EVENT_MEMBERS 15

// This node is no member of its group any more, since the configuration at `index`.
#define RINGLEADER_EVENT_REMOVED 16

// `number` of `position` voters came back without their memory, and the others are no majority: the group has stopped.
#define RINGLEADER_EVENT_MAJORITY_LOST 17

// A new group was made of this node: `group_low`, `group_high`.
#define RINGLEADER_EVENT_NEW_GROUP 18

// The application is to write its state, snapshot `number`.
#define RINGLEADER_EVENT_SAVE_SNAPSHOT 19

// The application is to become what the `position` bytes of snapshot `number` say.
#define RINGLEADER_EVENT_LOAD_SNAPSHOT 20

// The log cannot be applied any further, at `position`.
#define RINGLEADER_EVENT_STUCK 21

// `node` could not be fenced in time, and only the end of this process is a fence: a node of the library ends it by itself, who
// embeds a core has to, or has to reset whatever that node writes by.
#define RINGLEADER_EVENT_ABORT 22

// By the leader: it READs the promises of a majority. Needs no clock.
#define RINGLEADER_READ_QUORUM 0

// By any node, and without the leader's processor. Needs no clock.
#define RINGLEADER_READ_FOLLOWER 1

// By the leader, without a READ. Hangs on clocks, and must be allowed by an option.
#define RINGLEADER_READ_LEASE 2

// Spins, then yields, then sleeps for short times.
#define RINGLEADER_IDLE_ADAPTIVE 0

// Never gives the processor away: for one of its own.
#define RINGLEADER_IDLE_BUSY 1

// Memory that the processes of one machine share.
#define RINGLEADER_FABRIC_SHARED_MEMORY 0

// An RDMA device.
#define RINGLEADER_FABRIC_VERBS 1

// A member that lost its memory waits for an operator.
#define RINGLEADER_READMIT_ASK 0

// The leader readmits it.
#define RINGLEADER_READMIT_AUTO 1

// The agent looks whether a peer has written.
#define RINGLEADER_NOTIFY_POLL 0

// Peers' writes wake it, and it may sleep in between.
#define RINGLEADER_NOTIFY_WAKE 1

// The node neither gives nor takes a saved state.
#define RINGLEADER_NO_SNAPSHOTS UINT64_MAX

// Nobody, or not known.
#define RINGLEADER_NOBODY 0

// The most nodes that there can be in a group.
#define RINGLEADER_MAX_NODES 15

// Not connected.
#define RINGLEADER_FOLLOWER_DOWN 0

// Asked for write access, or being prepared for.
#define RINGLEADER_FOLLOWER_ASKING 1

// Being written to.
#define RINGLEADER_FOLLOWER_WINDOW 2

// A write failed; being asked anew.
#define RINGLEADER_FOLLOWER_BROKEN 3

// Too far behind to be served from the ring.
#define RINGLEADER_FOLLOWER_BEHIND 4

// Nothing is done about it, and nothing has to be.
#define RINGLEADER_CATCH_UP_NONE 0

// Nothing now: it is not connected, or the next attempt is due in a moment.
#define RINGLEADER_CATCH_UP_WAITING 1

// A node saves its state for it.
#define RINGLEADER_CATCH_UP_SAVING 2

// It takes that.
#define RINGLEADER_CATCH_UP_TAKING 3

// No node can save its state.
#define RINGLEADER_CATCH_UP_NO_SOURCE 4

// It cannot take one.
#define RINGLEADER_CATCH_UP_UNABLE 5

// It votes.
#define RINGLEADER_MEMBER_VOTER 0

// It gets the log, and does not vote.
#define RINGLEADER_MEMBER_LEARNER 1

// A learner that becomes a voter by itself.
#define RINGLEADER_MEMBER_RETURNING 2

// A fresh node becomes a learner.
#define RINGLEADER_CHANGE_ADD 0

// A learner that has caught up becomes a voter.
#define RINGLEADER_CHANGE_PROMOTE 1

// A member is none any more, in this life.
#define RINGLEADER_CHANGE_REMOVE 2

// A member that lost its memory becomes a learner, and a voter by itself once it has caught up, if it was one.
#define RINGLEADER_CHANGE_READMIT 3

// Find the peer, and bring the control queue pair up; what was outstanding on a former one is drained first. The completion's value is
// a number for the initiator's end of the log queue pair, which is closed.
#define RINGLEADER_VERB_CONNECT 1

// WRITE `len` bytes of the own area `source` at `from` to the peer's area of `plane` at `to`. The bytes are read when they are sent.
#define RINGLEADER_VERB_WRITE 2

// READ `len` bytes of the peer's control area at `from` into the staging area at `to`, over the control queue pair.
#define RINGLEADER_VERB_READ 3

// READ `len` bytes of the peer's snapshot area at `from` into the own one at `to`, over the control queue pair.
#define RINGLEADER_VERB_FETCH 4

// READ the word of the peer's log area at `from` into the staging area at `to`, over the log queue pair: when it is back, all bytes of
// the WRITEs posted there before it are placed.
#define RINGLEADER_VERB_CONFIRM 5

// Initiator: bring the own end of the log queue pair up, with the acceptor's `numbers`.
#define RINGLEADER_VERB_OPEN 6

// Initiator: take the own end down. When it completes, all that was posted before has completed, and no byte of it is read or sent any
// more. The completion's value is a new number, as of a CONNECT.
#define RINGLEADER_VERB_CLOSE 7

// Acceptor: bring the own end of the peer's log queue pair to life, without permission to write, with the initiator's `numbers`. The
// completion's value is the number that the initiator opens its end with.
#define RINGLEADER_VERB_ARM 8

// Acceptor: add permission to write.
#define RINGLEADER_VERB_GRANT 9

// Acceptor: when it completes, no write that came or comes over this queue pair lands any more.
#define RINGLEADER_VERB_FENCE 10

// The control queue pair, and the peer's control area.
#define RINGLEADER_PLANE_CONTROL 0

// The own log queue pair, and the peer's log area.
#define RINGLEADER_PLANE_LOG 1

// The own staging area.
#define RINGLEADER_FROM_STAGING 0

// The own log area.
#define RINGLEADER_FROM_LOG 1

// Done; of a WRITE: every byte is placed.
#define RINGLEADER_DONE 0

// Not carried out: something before it on the same queue pair failed, or the queue pair is down.
#define RINGLEADER_DONE_FLUSHED 1

// The other end refused it.
#define RINGLEADER_DONE_REFUSED 2

// The other end does not answer, or is gone. A WRITE may have landed, whole or in part.
#define RINGLEADER_DONE_UNREACHABLE 3

// Anything else; nothing may be assumed.
#define RINGLEADER_DONE_FAILED 4

// All whose processor was seen to run lately count for a commit.
#define RINGLEADER_QUORUM_LIVE 0

// All whose memory has an entry count for its commit, for logs that outlive their hosts.
#define RINGLEADER_QUORUM_STORED 1

// A completion says that the bytes of a WRITE are placed.
#define RINGLEADER_CONFIRM_COMPLETION 0

// A READ behind it says so.
#define RINGLEADER_CONFIRM_READBACK 1

// Follows, or waits for a leader.
#define RINGLEADER_ROLE_FOLLOWER 0

// Asks for votes.
#define RINGLEADER_ROLE_CANDIDATE 1

// Leads.
#define RINGLEADER_ROLE_LEADER 2

// What became of a call. 0 is success. The numbers stay what they are in all versions; new ones may come.
enum ringleader_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Done.
    RINGLEADER_OK = 0,
    // There is nothing now: no outcome, event, verb or entry. No error.
    RINGLEADER_NOTHING = 1,
    // It did not come about in time, and may still.
    RINGLEADER_TIMEOUT = 2,
    // No room now: poll for outcomes, and try again.
    RINGLEADER_FULL = 3,
    // Another thread uses it at this moment, or another such thing is under way.
    RINGLEADER_BUSY = 4,
    // A pointer is NULL that may not be.
    RINGLEADER_NULL = 10,
    // A pointer is not aligned to its type.
    RINGLEADER_MISALIGNED = 11,
    // The member `size` of a struct is none that this library knows: set it to `sizeof`.
    RINGLEADER_SIZE = 12,
    // The pointer is no handle of this library, or one of another kind.
    RINGLEADER_FOREIGN = 13,
    // The handle was closed before, also where another one has its place by now.
    RINGLEADER_CLOSED_HANDLE = 14,
    // It is to be called by the thread that made the agent.
    RINGLEADER_WRONG_THREAD = 15,
    // A callback may not wait, or close what calls it: it would wait for itself.
    RINGLEADER_IN_CALLBACK = 16,
    // Something depends on it: close that first.
    RINGLEADER_IN_USE = 17,
    // An option, argument or configuration file has a value that cannot be; `ringleader_error_text` names it.
    RINGLEADER_OPTION = 18,
    // A payload of so many bytes fits no entry.
    RINGLEADER_TOO_LARGE = 19,
    // A draft of this lane is open: commit or drop it first.
    RINGLEADER_DRAFT_OPEN = 20,
    // No draft of this lane is open.
    RINGLEADER_NO_DRAFT = 21,
    // The agent has a thread of its own, and is not polled.
    RINGLEADER_NOT_POLLED = 22,
    // There are as many open handles of a kind as there can be.
    RINGLEADER_HANDLES = 23,
    // This build has no such thing.
    RINGLEADER_UNSUPPORTED = 24,
    // The node does not lead. What was to be proposed was not, and never will be.
    RINGLEADER_NOT_LEADER = 40,
    // The lead was lost on the way: it may come about by the next leader, or never.
    RINGLEADER_UNKNOWN = 41,
    // The node is closed, or has ended.
    RINGLEADER_CLOSED = 42,
    // The node is in no group yet.
    RINGLEADER_NOT_FORMED = 43,
    // The node is in a group already, or was asked to form one before.
    RINGLEADER_NOT_FRESH = 44,
    // A member refused to form a group: it is in another one, or part of another forming.
    RINGLEADER_REFUSED = 45,
    // The node is the leader itself, or no voter of the group.
    RINGLEADER_NOT_VOTER = 46,
    // The node is not reached, lags, or was not seen to run lately.
    RINGLEADER_NOT_READY = 47,
    // The node was not elected in time: the leader leads on.
    RINGLEADER_NOT_ELECTED = 48,
    // The leader was just elected.
    RINGLEADER_TOO_EARLY = 49,
    // There is no such node id: they are 1 to 15.
    RINGLEADER_NO_SUCH_NODE = 50,
    // The node is a member already.
    RINGLEADER_MEMBER = 51,
    // The node is no member.
    RINGLEADER_NOT_MEMBER = 52,
    // The node is a voter already.
    RINGLEADER_VOTER = 53,
    // The leader cannot reach the node: it does not run, or belongs to another group.
    RINGLEADER_NOT_CONNECTED = 54,
    // The node came back without its memory: readmit it.
    RINGLEADER_LOST_MEMORY = 55,
    // The node was removed before: end it, and start it anew, without its memory.
    RINGLEADER_REMOVED_LIFE = 56,
    // The node has not lost its memory.
    RINGLEADER_SAME_LIFE = 57,
    // The node has not caught up.
    RINGLEADER_NOT_CAUGHT_UP = 58,
    // Nobody would be left to vote.
    RINGLEADER_LAST_VOTER = 59,
    // The group would stop: too few of the voters that there would be run and have caught up.
    RINGLEADER_WOULD_STOP = 60,
    // An address has at most 48 bytes.
    RINGLEADER_ADDRESS = 61,
    // A leader is heard, or was a moment ago.
    RINGLEADER_LEADER_ALIVE = 62,
    // A majority of the voters runs: the group can go on by itself.
    RINGLEADER_MAJORITY_ALIVE = 63,
    // Lease reads were not allowed when the node was opened.
    RINGLEADER_NO_LEASE_READS = 70,
    // A read was not answered: the lead was lost.
    RINGLEADER_LOST_LEAD = 71,
    // A read was not answered: no leader was found in time.
    RINGLEADER_NO_LEADER = 72,
    // A read was not answered: no majority was found in time.
    RINGLEADER_NO_MAJORITY = 73,
    // A read was not answered: what it must see was not applied in time.
    RINGLEADER_NOT_APPLIED = 74,
    // The machine has too little memory for the rings.
    RINGLEADER_MEMORY = 80,
    // The region file cannot be made or removed.
    RINGLEADER_REGION = 81,
    // The RDMA device cannot be used, or broke.
    RINGLEADER_DEVICE = 82,
    // The exchange, by which nodes find each other, cannot be started.
    RINGLEADER_EXCHANGE = 83,
    // A thread cannot be started or pinned.
    RINGLEADER_THREAD = 84,
    // The system gives no random numbers.
    RINGLEADER_RANDOM = 85,
    // The agent hosts as many groups as it has room for.
    RINGLEADER_ROOM = 86,
    // The process logs by a `tracing` subscriber of its own.
    RINGLEADER_LOG_TAKEN = 87,
    // A callback of the application failed: the node has ended, its region stays.
    RINGLEADER_APPLICATION = 88,
    // A bug of this library: it panicked and caught itself. What was called may have been done or not.
    RINGLEADER_PANICKED = 89,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ringleader_status ringleader_status;
#else
typedef int32_t ringleader_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What gives nodes their turns: a thread of the library, or a loop of the caller.
typedef struct ringleader_agent ringleader_agent;

// One node of a group, in memory that the caller lends.
typedef struct ringleader_core ringleader_core;

// A way to propose, for one thread at a time: payloads one way, outcomes the other, in the same order.
typedef struct ringleader_lane ringleader_lane;

// One replica: its memory, and what gives it its turns.
typedef struct ringleader_node ringleader_node;

// A way to read, for one thread at a time.
typedef struct ringleader_reader ringleader_reader;

// Where a `save` callback writes to, until it returns.
typedef struct ringleader_snapshot ringleader_snapshot;

// Is handed a line: its level, the part of the library, and the text. The texts are lent until it returns.
typedef void (*ringleader_log_callback)(void *context, uint32_t level, const char *target, const char *text);

// All durations and sizes that tune the protocol; the same on all nodes. Take a profile by `ringleader_timing_profile`, and change
// what has to be changed. Durations are in nanoseconds, sizes in bytes.
typedef struct ringleader_timing {
    // `sizeof(ringleader_timing)`.
    uint32_t size;
    // So often in a row is one and the same beat excused.
    uint32_t max_excuses;
    // A leader beats this often.
    uint64_t beat_ns;
    // A beat that has not moved for this long makes its leader suspect: five beats at least, and the worst pause of a poller.
    uint64_t suspect_after_ns;
    // A suspect's progress must be seen to move within this.
    uint64_t probe_deadline_ns;
    // Votes are refused for this long after a beat was seen to move. Below `suspect_after_ns`.
    uint64_t lease_ns;
    // And for this long after a grant.
    uint64_t grant_grace_ns;
    // A candidate of rank r waits r times this.
    uint64_t stagger_ns;
    // And up to this more, at random.
    uint64_t jitter_ns;
    // A request that is not answered is written again this often.
    uint64_t repeat_ns;
    // A candidate without a majority gives up after this.
    uint64_t campaign_timeout_ns;
    // A leader without a majority of completed beats gives up after this.
    uint64_t quorum_lost_ns;
    // A follower whose liveness has not moved for this does not count.
    uint64_t alive_within_ns;
    // A fence that takes longer ends the process.
    uint64_t fence_limit_ns;
    // A leader holds its ring for a follower that takes a snapshot for this long at the most.
    uint64_t catchup_limit_ns;
    // Bound of the difference of two clocks' rates, in parts per million.
    uint64_t drift_ppm;
    // Largest single WRITE.
    uint32_t max_write;
    // Bytes on their way to one follower.
    uint32_t inflight;
} ringleader_timing;

// What an agent is made with. What is 0 has its default.
typedef struct ringleader_agent_options {
    // `sizeof(ringleader_agent_options)`.
    uint32_t size;
    // Groups that it has room for, 1 to 64; 0: 64.
    uint32_t groups;
    // `RINGLEADER_IDLE_…`.
    uint32_t idle;
    // The processor its thread is tied to, and 1; 0: none.
    uint32_t pin_plus_one;
} ringleader_agent_options;

// What a node is opened with. What is 0 has its default.
typedef struct ringleader_options {
    // `sizeof(ringleader_options)`.
    uint32_t size;
    // This node, 1 to 15.
    uint32_t node;
    // All nodes that there may be, this one included: node n as bit n.
    uint32_t members;
    // Those that form the group, likewise; 0: all.
    uint32_t founders;
    // `RINGLEADER_FABRIC_…`.
    uint32_t fabric;
    // `RINGLEADER_TIMING_…`, where `timing` is NULL.
    uint32_t timing_profile;
    // `RINGLEADER_QUORUM_…`.
    uint32_t quorum;
    // `RINGLEADER_CONFIRM_…`.
    uint32_t confirm;
    // `RINGLEADER_READMIT_…`.
    uint32_t readmit;
    // `RINGLEADER_IDLE_…`, of a node with a thread of its own.
    uint32_t idle;
    // `RINGLEADER_NOTIFY_…`.
    uint32_t notify;
    // The processor of the node's own thread, and 1; 0: none.
    uint32_t pin_plus_one;
    // 1: the region file stays on a clean close, for `ringleader log`.
    uint32_t keep_region;
    // 0.
    uint32_t reserved;
    // Bytes of the ring, a power of two, 512 KiB at least, the same on all nodes; 0: 64 MiB. An entry may have an eighth of it.
    uint64_t ring_len;
    // Bytes that a saved state may have, a multiple of 64 KiB; 0: as many as the ring; `RINGLEADER_NO_SNAPSHOTS`.
    uint64_t snapshot_len;
    // Lease reads are allowed if clocks drift by less than this, in parts per million; 0: they are not.
    uint64_t lease_reads_if_clocks_drift_below_ppm;
    // All durations; NULL: those of the profile.
    const struct ringleader_timing *timing;
    // Shared memory: the directory of the region files, best on a tmpfs; made when it is missing.
    const char *directory;
    // RDMA: the group's name.
    const char *group;
    // RDMA: the file of the group's key, made by `ringleader key`.
    const char *key_file;
    // RDMA: where this node is called by the others, `address:port`.
    const char *listen;
    // RDMA: where the others are called, `address:port` or `name:port`: 16 texts by node id, NULL where there is none.
    const char *const *addresses;
    // RDMA: the device; NULL: the first that is active.
    const char *device;
    // RDMA: its port; 0: the first that is active.
    uint32_t port;
    // RDMA: the entry of its GID table, and 1; 0: the RoCEv2 one of the port's address.
    uint32_t gid_index_plus_one;
} ringleader_options;

// A committed entry. Its payload lies in the log itself, and stays there until the callback returns.
typedef struct ringleader_entry {
    // Its number in the log; grows, not always by one.
    uint64_t index;
    // The term of the leader that made it.
    uint64_t term;
    // Where it stands in the log stream.
    uint64_t position;
    // What was proposed.
    const uint8_t *payload;
    // Bytes of it.
    size_t len;
} ringleader_entry;

// Takes a committed entry; 0, or anything else when the application cannot go on.
typedef int (*ringleader_apply_callback)(void *context, const struct ringleader_entry *entry);

// See `ringleader_application`.
typedef int (*ringleader_save_callback)(void *context, struct ringleader_snapshot *out);

// See `ringleader_application`.
typedef int (*ringleader_load_callback)(void *context, const uint8_t *state, size_t len);

// See `ringleader_application`.
typedef void (*ringleader_ended_callback)(void *context);

// The application of one node: what its state is made of.
//
// The callbacks of a node are never called at the same time. They may not throw, and may not wait for the node.
typedef struct ringleader_application {
    // `sizeof(ringleader_application)`.
    uint32_t size;
    // 0.
    uint32_t reserved;
    // What the callbacks are called with.
    void *context;
    // Takes a committed entry. Every node of a group is handed the same entries in the same order. Called in the thread of the agent, or
    // of who polls it: as long as it runs the node neither beats nor votes. The entry, and its payload, are lent until it returns. 0: it
    // is done; anything else ends the node, whose memory stays as it is.
    ringleader_apply_callback apply;
    // Writes the state as it is now by `ringleader_snapshot_write`, for a node that has fallen far behind. 0: it is written. NULL: the
    // application does not save its state. Called in a thread of its own, however long it takes; nothing is applied meanwhile.
    ringleader_save_callback save;
    // Becomes what another node's `save` has written. 0: it has; anything else: it is what it was before. NULL: it does not load one.
    // Called like `save`.
    ringleader_load_callback load;
    // Told once that no callback of the node comes any more; may be NULL. Called in a thread of the library, before `ringleader_close`
    // returns; or earlier, when `apply` has ended the node. Not called when opening fails.
    ringleader_ended_callback ended;
} ringleader_application;

// One follower, as its leader sees it.
typedef struct ringleader_follower {
    // The follower.
    uint32_t node;
    // `RINGLEADER_FOLLOWER_…`.
    uint32_t state;
    // 1: it counts for a commit now.
    uint32_t counts;
    // `RINGLEADER_CATCH_UP_…`.
    uint32_t catch_up;
    // Whose state it takes, or is to take; 0: nobody's.
    uint32_t catch_up_source;
    // 0.
    uint32_t reserved;
    // Up to here its bytes are known to equal the leader's.
    uint64_t matched_position;
    // Up to here it has applied, as last read.
    uint64_t applied_position;
    // Bytes of that state that it has.
    uint64_t fetched;
    // Of so many.
    uint64_t fetch_len;
} ringleader_follower;

// A snapshot of a node. It was all true at one moment, some tens of microseconds ago at the most.
typedef struct ringleader_node_status {
    // `sizeof(ringleader_node_status)`.
    uint32_t size;
    // This node.
    uint32_t node;
    // 1: it is in a group.
    uint32_t formed;
    // `RINGLEADER_ROLE_…`.
    uint32_t role;
    // The leader it follows, itself when it leads; 0: it knows none.
    uint32_t leader;
    // 1: its agent has ended, because it was told to or because the application failed.
    uint32_t closed;
    // 1: it was a member of its group, and is none any more.
    uint32_t removed;
    // How many members vote.
    uint32_t voters;
    // How many of them came back without their memory.
    uint32_t lost;
    // Whose state this node takes, because it has fallen too far behind; 0: none.
    uint32_t taking_from;
    // 1: that is being loaded.
    uint32_t loading;
    // Followers below, when this node leads.
    uint32_t follower_count;
    // Low half of the group's id.
    uint64_t group_low;
    // High half.
    uint64_t group_high;
    // The term of its promise.
    uint64_t term;
    // Index of the last entry known committed here.
    uint64_t commit_index;
    // Its end.
    uint64_t commit_position;
    // Index of the last entry that was applied, or passed over because it is not the application's.
    uint64_t applied_index;
    // Its end.
    uint64_t applied_position;
    // End of the log as far as it was walked here.
    uint64_t end_position;
    // How often another node refused to form a group with this one.
    uint64_t form_refusals;
    // How often the lead was to be handed over, and was not.
    uint64_t transfer_failures;
    // Events that nobody took in time.
    uint64_t events_dropped;
    // Former writers that were stopped in the middle of a copy and had to be killed.
    uint64_t shots;
    // Bytes of the state it takes that are here.
    uint64_t taking_fetched;
    // Of so many; 0 before it is known.
    uint64_t taking_len;
    // The followers, by node.
    struct ringleader_follower followers[15];
} ringleader_node_status;

// What a node has done since it was opened: numbers that only grow.
typedef struct ringleader_metrics {
    // `sizeof(ringleader_metrics)`.
    uint32_t size;
    // 0.
    uint32_t reserved;
    // Turns of the agent.
    uint64_t turns;
    // Proposals that became entries of this node's log, as leader.
    uint64_t proposed;
    // Those of them that were reported committed.
    uint64_t committed;
    // Those of them whose outcome was reported unknown, because the lead was lost.
    uint64_t unknown;
    // Entries that the application was handed.
    uint64_t applied;
    // Bytes of their payloads.
    uint64_t applied_bytes;
    // Reads that ended with the word to look now.
    uint64_t reads;
    // Reads that were begun and ended without.
    uint64_t reads_failed;
    // Elections that this node stood in.
    uint64_t campaigns;
    // Those that it won.
    uint64_t elected;
    // How often it gave up the lead, or was deposed.
    uint64_t gave_up;
    // States that were saved for others.
    uint64_t saved;
    // States of others that were loaded.
    uint64_t loaded;
    // Verbs posted to the fabric.
    uint64_t verbs;
    // Those that ended otherwise than well.
    uint64_t verbs_failed;
} ringleader_metrics;

// Something that happened at a node. Which members say something stands with each kind, `RINGLEADER_EVENT_…`; the others are 0.
typedef struct ringleader_event {
    // `sizeof(ringleader_event)`.
    uint32_t size;
    // `RINGLEADER_EVENT_…`; kinds of later versions may come.
    uint32_t kind;
    // When it was seen, in nanoseconds of `CLOCK_BOOTTIME`; of a core, when it was asked for.
    uint64_t at_ns;
    // A node.
    uint32_t node;
    // Why, or how: stands with the kind.
    uint32_t detail;
    // A term.
    uint64_t term;
    // An index.
    uint64_t index;
    // A position in the log stream.
    uint64_t position;
    // A number, or a count.
    uint64_t number;
    // Low half of a group's id.
    uint64_t group_low;
    // High half of it.
    uint64_t group_high;
} ringleader_event;

// One of them.
typedef struct ringleader_member {
    // The node.
    uint32_t node;
    // `RINGLEADER_MEMBER_…`.
    uint32_t role;
    // The life that is meant.
    uint64_t incarnation;
    // 1: it came back as another life, without its memory.
    uint32_t lost_memory;
    // 0.
    uint32_t reserved;
    // Where it is found, a text; empty on shared memory.
    char address[56];
} ringleader_member;

// Who is in a group, as a node knows it.
typedef struct ringleader_members {
    // `sizeof(ringleader_members)`.
    uint32_t size;
    // Members below.
    uint32_t count;
    // Index of the entry that said so; 0 when the group was formed like this.
    uint64_t index;
    // Its term.
    uint64_t term;
    // Index of the newest such entry that is known committed here.
    uint64_t committed_index;
    // Its term.
    uint64_t committed_term;
    // The members, by id.
    struct ringleader_member members[15];
} ringleader_members;

// How a proposal ended.
typedef struct ringleader_outcome {
    // `sizeof(ringleader_outcome)`.
    uint32_t size;
    // `RINGLEADER_OK`: it is committed, as entry `index`, and will be applied on every node, once. `RINGLEADER_UNKNOWN`: the lead was lost,
    // or the node closed: it may be committed by the next leader, or never. `RINGLEADER_NOT_LEADER`: it was not proposed, and never will
    // be: `leader` is who leads, as far as the node knows, 0 for nobody.
    int32_t status;
    // Which proposal: its number in the lane.
    uint64_t ticket;
    // Its number in the log.
    uint64_t index;
    // See `status`.
    uint32_t leader;
    // 0.
    uint32_t reserved;
} ringleader_outcome;

// Is told of an outcome. Called by whoever polls, never by another thread, nor by two at a time; it may propose, and close the lane. After
// the lane is closed it is not called any more.
typedef void (*ringleader_outcome_callback)(void *context, const struct ringleader_outcome *outcome);

// How a read ended.
typedef struct ringleader_read_outcome {
    // `sizeof(ringleader_read_outcome)`.
    uint32_t size;
    // `RINGLEADER_OK`: this node's application has been handed everything that was acknowledged to anybody before the read was asked for;
    // what it has made of that can be looked at now. Anything else: nothing has happened, and it can be asked for again.
    // `RINGLEADER_NOT_LEADER`: only a leader can read like this, and `leader` is who leads, 0 for nobody.
    int32_t status;
    // Which read: its number in the reader.
    uint64_t ticket;
    // The last entry that the application has been handed.
    uint64_t applied_index;
    // See `status`.
    uint32_t leader;
    // 0.
    uint32_t reserved;
} ringleader_read_outcome;

// What a core is made with. What is 0 has its default, where one is named.
typedef struct ringleader_core_options {
    // `sizeof(ringleader_core_options)`.
    uint32_t size;
    // This node, 1 to 15.
    uint32_t node;
    // The other nodes that form the group, node n as bit n.
    uint32_t peers;
    // 0: the acceptor alone, which fences, votes and holds the log, and never asks for votes. 1: a whole replica, which may lead.
    uint32_t stands;
    // `RINGLEADER_QUORUM_…`.
    uint32_t quorum;
    // `RINGLEADER_CONFIRM_…`.
    uint32_t confirm;
    // 1: a leader copies to its own log before the first WRITE leaves, for fabrics that carry a WRITE out while it is posted.
    uint32_t own_copy_first;
    // 0.
    uint32_t reserved;
    // Bytes of the ring, a power of two, 512 KiB at least; the same on all nodes.
    uint64_t ring_len;
    // Bytes of the largest slot of an entry; 0: an eighth of the ring.
    uint64_t max_entry;
    // Bytes of the largest snapshot, a multiple of 64 KiB; 0: this node neither gives nor takes any.
    uint64_t snapshot_len;
    // Lease reads are allowed if clocks drift by less than this, in parts per million; 0: they are not.
    uint64_t lease_reads_if_clocks_drift_below_ppm;
    // Random, new whenever promise or log were lost; not 0.
    uint64_t incarnation;
    // Random, new for each start; not 0.
    uint64_t boot;
    // Random: of the jitter.
    uint64_t seed;
    // All durations, the same on all nodes.
    struct ringleader_timing timing;
} ringleader_core_options;

// Bytes that a core and its areas need.
typedef struct ringleader_core_needs {
    // `sizeof(ringleader_core_needs)`.
    uint32_t size;
    // The storage begins at a multiple of this.
    uint32_t storage_align;
    // Bytes of storage for the core itself.
    uint64_t storage;
    // Bytes of the control area.
    uint64_t control;
    // Of the log area.
    uint64_t log;
    // Of the staging area.
    uint64_t staging;
    // Of the snapshot area; 0 without snapshots.
    uint64_t snapshot;
} ringleader_core_needs;

// A range of memory.
typedef struct ringleader_area {
    // Its beginning, at a multiple of 64.
    void *bytes;
    // Bytes, as `ringleader_core_lengths` says.
    uint64_t len;
} ringleader_area;

// The memory of a core, all zero at its start. Peers reach it by whatever carries their verbs, at any time.
typedef struct ringleader_areas {
    // `sizeof(ringleader_areas)`.
    uint32_t size;
    // 0.
    uint32_t reserved;
    // Peers READ and WRITE it.
    struct ringleader_area control;
    // The granted writer WRITEs it, all READ it.
    struct ringleader_area log;
    // Only this node's verbs have to do with it.
    struct ringleader_area staging;
    // Peers READ it.
    struct ringleader_area snapshot;
} ringleader_areas;

// The end of a verb.
typedef struct ringleader_completion {
    // `sizeof(ringleader_completion)`.
    uint32_t size;
    // `RINGLEADER_DONE`, or `RINGLEADER_DONE_…`.
    uint32_t status;
    // The verb's.
    uint64_t id;
    // What CONNECT, CLOSE and ARM give; 0 of the others.
    uint64_t value;
} ringleader_completion;

// What a core asks for. Offsets and lengths are in bytes and multiples of 8. Each ends in exactly one completion with its `id`,
// however late. Between two nodes there are one control queue pair, used by both, and two log queue pairs, one a direction; on a queue
// pair WRITEs and READs complete in the order in which they were posted, and after an error all end with `RINGLEADER_DONE_FLUSHED`
// until it is opened (log) or connected (control) again.
typedef struct ringleader_verb {
    // `sizeof(ringleader_verb)`.
    uint32_t size;
    // `RINGLEADER_VERB_…`.
    uint32_t kind;
    // To which node.
    uint32_t peer;
    // Of a WRITE: `RINGLEADER_PLANE_…`, which queue pair and which area of the peer.
    uint32_t plane;
    // Of a WRITE: `RINGLEADER_FROM_…`, which own area.
    uint32_t source;
    // Bytes of a WRITE, READ or FETCH.
    uint32_t len;
    // What its completion bears.
    uint64_t id;
    // Offset that is read from.
    uint64_t from;
    // Offset that is written to.
    uint64_t to;
    // Of an OPEN or ARM: what the other end's verb gave in its completion's `value`.
    uint64_t numbers;
} ringleader_verb;

// How a core is.
typedef struct ringleader_core_state {
    // `sizeof(ringleader_core_state)`.
    uint32_t size;
    // `RINGLEADER_ROLE_…`.
    uint32_t role;
    // Who is followed; 0: nobody.
    uint32_t leader;
    // Who may write the log area now; 0: nobody.
    uint32_t writer;
    // Voters of the group.
    uint32_t voters;
    // 1: this node was a member of its group, and is none any more.
    uint32_t removed;
    // The promise in force: its term.
    uint64_t promised_term;
    // And to whom.
    uint64_t promised_node;
    // Low half of the group's id; both 0: in none.
    uint64_t group_low;
    // High half.
    uint64_t group_high;
    // Index of the last entry that was walked, or staged as leader.
    uint64_t end_index;
    // Its end.
    uint64_t end_position;
    // Index of the last entry known committed.
    uint64_t commit_index;
    // Its end.
    uint64_t commit_position;
    // Index of the last entry applied.
    uint64_t applied_index;
    // Its end.
    uint64_t applied_position;
} ringleader_core_state;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library that is linked, `major << 16 | minor << 8 | patch`.
uint32_t ringleader_version(void);

// The same as text, `"0.1.0"`. Never NULL, and never to be freed.
const char *ringleader_version_text(void);

// The name of a status, as in `RINGLEADER_OK`. Never NULL, and never to be freed.
const char *ringleader_status_name(int32_t status);

// What a status means, in one line of English. Never NULL, and never to be freed.
const char *ringleader_status_text(int32_t status);

// What there is to say about the last call of this thread that failed, beyond its status: one line, or an empty text. Never NULL. It
// stays until the next call of this thread fails.
const char *ringleader_error_text(void);

// From now on every line of `level` and above is handed to `callback`, in place of a former one; with `RINGLEADER_LOG_NOTHING` or NULL
// to none. It is the whole process's: threads of the library call it, several at a time. To be set before nodes are opened, so that
// their lines say whose they are. A call that is under way in another thread may still come after this returns.
ringleader_status ringleader_set_log(uint32_t level,
                                     ringleader_log_callback callback,
                                     void *context);

// Fills a timing with a profile: one of `RINGLEADER_TIMING_…`.
ringleader_status ringleader_timing_profile(uint32_t number, struct ringleader_timing *out);

// Starts an agent with a thread of the library. `options` may be NULL.
ringleader_status ringleader_agent_start(const struct ringleader_agent_options *options,
                                         struct ringleader_agent **out);

// Makes an agent without a thread, for a caller that has a loop: `ringleader_agent_poll`, always in this thread, gives its nodes their
// turns. `options` may be NULL; the pin is for the caller, and is not looked at.
ringleader_status ringleader_agent_polled(const struct ringleader_agent_options *options,
                                          struct ringleader_agent **out);

// Gives every node of a polled agent a turn, and tells outcomes to the callbacks of its lanes. Applies entries in here. `RINGLEADER_OK`
// when something was done, and the next turn may find more; `RINGLEADER_NOTHING` when there was nothing to do. Rests for up to
// `rest_ns` nanoseconds then, as the thread of an agent would; 0: it does not. A node that gets no turn for longer than a few beats
// is taken for dead by the others.
ringleader_status ringleader_agent_poll(struct ringleader_agent *agent,
                                        uint64_t rest_ns);

// Groups that an agent hosts now.
ringleader_status ringleader_agent_groups(struct ringleader_agent *agent, uint32_t *count);

// Closes an agent, and waits for its thread. `RINGLEADER_IN_USE` while it hosts a node.
ringleader_status ringleader_agent_close(struct ringleader_agent *agent);

// Appends bytes to the state that a `save` callback writes. `RINGLEADER_FULL` when it does not fit; then nothing of it is of use.
ringleader_status ringleader_snapshot_write(struct ringleader_snapshot *out,
                                            const uint8_t *state,
                                            size_t len);

// Opens a node: makes its memory, and gives it turns by `agent`, or by a thread of its own when that is NULL. It waits for
// `ringleader_form`, on this node or another one.
ringleader_status ringleader_open(struct ringleader_agent *agent,
                                  const struct ringleader_options *options,
                                  const struct ringleader_application *application,
                                  struct ringleader_node **out);

// The same by a configuration file (docs/operating.md), as node `node`; 0: as the node that the file names.
ringleader_status ringleader_open_file(struct ringleader_agent *agent,
                                       const char *file,
                                       uint32_t node,
                                       const struct ringleader_application *application,
                                       struct ringleader_node **out);

// Forms the group of all founders: on one node, once. Waits until this node is in it; the others follow. After `RINGLEADER_TIMEOUT` it
// goes on all the same: 0 begins it, and `formed` in the status tells.
ringleader_status ringleader_form(struct ringleader_node *node,
                                  uint64_t timeout_ns);

// Hands the lead over to node `to`, and waits until this node follows it. When that is not elected this node leads on.
ringleader_status ringleader_transfer(struct ringleader_node *node,
                                      uint32_t to,
                                      uint64_t timeout_ns);

// How it is. Waits for nobody, and nobody waits for this.
ringleader_status ringleader_look(struct ringleader_node *node, struct ringleader_node_status *out);

// What it has done so far.
ringleader_status ringleader_count(struct ringleader_node *node, struct ringleader_metrics *out);

// The next event that nobody took yet; `RINGLEADER_NOTHING` when there is none. Who takes them too slowly loses some, commits first
// (`events_dropped` in the status).
ringleader_status ringleader_next_event(struct ringleader_node *node,
                                        struct ringleader_event *out);

// The life of its memory, as members name it.
ringleader_status ringleader_incarnation(struct ringleader_node *node, uint64_t *out);

// What it does, as leader, about members that lost their memory: `RINGLEADER_READMIT_…`.
ringleader_status ringleader_set_readmit(struct ringleader_node *node, uint32_t how);

// Closes a node: ends its agent, waits for that, removes its memory. Its lanes and readers stay, until they are closed, and tell how
// what was on its way has ended. The handle is closed whatever this says, but for `RINGLEADER_BUSY` (another thread uses it),
// `RINGLEADER_WRONG_THREAD`, `RINGLEADER_IN_CALLBACK`, and what is no handle. `RINGLEADER_APPLICATION`: a callback had ended it before;
// `RINGLEADER_REGION`: the region file could not be removed; `RINGLEADER_DEVICE`: the device broke.
ringleader_status ringleader_close(struct ringleader_node *node);

// Who is in the group. Waits for the next turn of the node.
ringleader_status ringleader_list_members(struct ringleader_node *node, struct ringleader_members *out);

// Changes the members, by the node that leads, and waits until that is committed: `change` is one of `RINGLEADER_CHANGE_…`, `id` the node it
// is about. What cannot be yet is tried again until the time is over. `address` is where an added node is found, `host:port`; NULL on
// shared memory, and for all else.
ringleader_status ringleader_change_members(struct ringleader_node *node,
                                            uint32_t change,
                                            uint32_t id,
                                            const char *address,
                                            uint64_t timeout_ns);

// Makes a new group of this node alone and the log as it stands here: for when a majority of the voters is gone for good. Entries that
// only they held are lost, though they may have been acknowledged. `look_only` not 0: only says whether that could be. Waits for the next
// turn of the node.
ringleader_status ringleader_force_new_group(struct ringleader_node *node,
                                             uint32_t look_only);

// Opens a lane. With a `callback`, which may be NULL, outcomes are told to it: by `ringleader_lane_tell`, and by `ringleader_agent_poll`
// for a node of a polled agent; without one they are polled.
ringleader_status ringleader_lane_open(struct ringleader_node *node,
                                       ringleader_outcome_callback callback,
                                       void *context,
                                       struct ringleader_lane **out);

// Proposes a copy of a payload. `ticket`, which may be NULL, is its number in the lane: 0, 1, 2, and so on. Takes what a lane can hold,
// whether the node leads or not: outcomes say what became of it. `RINGLEADER_FULL`: poll outcomes, and try again.
ringleader_status ringleader_lane_propose(struct ringleader_lane *lane,
                                          const uint8_t *payload,
                                          size_t len,
                                          uint64_t *ticket);

// Lends a place for a payload of `len` bytes in the lane itself, zeros at first, at a multiple of 8: what is written there is copied
// nowhere before the agent builds the entry of it. (More than 128 KiB lie beside the lane, and may be copied once when they are cut.) It
// is the caller's until it is committed or dropped, and nothing else can be done with the lane meanwhile, but to close it.
ringleader_status ringleader_lane_draft(struct ringleader_lane *lane,
                                        size_t len,
                                        uint8_t **payload);

// Proposes the first `len` bytes of the open draft. `ticket` may be NULL.
ringleader_status ringleader_lane_commit(struct ringleader_lane *lane, size_t len, uint64_t *ticket);

// Drops the open draft: it was never proposed.
ringleader_status ringleader_lane_drop(struct ringleader_lane *lane);

// The next outcome, in the order of proposing; `RINGLEADER_NOTHING` when there is none yet.
ringleader_status ringleader_lane_poll(struct ringleader_lane *lane, struct ringleader_outcome *out);

// Waits for the next outcome. `RINGLEADER_NOTHING`: nothing is on its way.
ringleader_status ringleader_lane_wait(struct ringleader_lane *lane,
                                       uint64_t timeout_ns,
                                       struct ringleader_outcome *out);

// Tells all outcomes that there are to the callback of a lane; `count`, which may be NULL, is how many.
ringleader_status ringleader_lane_tell(struct ringleader_lane *lane, uint64_t *count);

// Proposals whose outcome was not taken yet.
ringleader_status ringleader_lane_outstanding(struct ringleader_lane *lane, uint64_t *count);

// The largest payload that fits into an entry, in bytes.
ringleader_status ringleader_lane_max_payload(struct ringleader_lane *lane, size_t *len);

// Closes a lane, and drops a draft that is open. What was proposed goes its way, and nobody hears of it. `RINGLEADER_BUSY` while another
// thread uses the lane, or runs its callback.
ringleader_status ringleader_lane_close(struct ringleader_lane *lane);

// Opens a reader.
ringleader_status ringleader_reader_open(struct ringleader_node *node, struct ringleader_reader **out);

// Asks for a read: `how` is one of `RINGLEADER_READ_…`. `ticket` is its number in the reader, and may be NULL.
ringleader_status ringleader_reader_ask(struct ringleader_reader *reader,
                                        uint32_t how,
                                        uint64_t *ticket);

// The next read that has ended; `RINGLEADER_NOTHING` when none has. Those of one kind end in the order in which they were asked for.
ringleader_status ringleader_reader_poll(struct ringleader_reader *reader,
                                         struct ringleader_read_outcome *out);

// Waits for the next read that ends. `RINGLEADER_NOTHING`: none is under way.
ringleader_status ringleader_reader_wait(struct ringleader_reader *reader,
                                         uint64_t timeout_ns,
                                         struct ringleader_read_outcome *out);

// Closes a reader.
ringleader_status ringleader_reader_close(struct ringleader_reader *reader);

// Says how many bytes a core of these options and its areas need.
ringleader_status ringleader_core_lengths(const struct ringleader_core_options *options,
                                          struct ringleader_core_needs *out);

// Makes a core in `storage`, which has `len` bytes and is not moved as long as it lives, over areas that are all zero. `now_ns` is the
// time, of a clock that never falls; it goes on with every call that takes one.
ringleader_status ringleader_core_init(void *storage,
                                       size_t len,
                                       const struct ringleader_core_options *options,
                                       const struct ringleader_areas *areas,
                                       uint64_t now_ns,
                                       struct ringleader_core **out);

// Ends a core; its storage and areas are the caller's again. To its peers it is as if the process had died.
ringleader_status ringleader_core_end(struct ringleader_core *core);

// A verb has ended.
ringleader_status ringleader_core_complete(struct ringleader_core *core,
                                           uint64_t now_ns,
                                           const struct ringleader_completion *done);

// Looks at everything that others may have written, and at the clock. To be called in every turn of the caller's loop; then events
// and verbs are asked for until there are none.
ringleader_status ringleader_core_tick(struct ringleader_core *core,
                                       uint64_t now_ns);

// Forms a group of this node and all its peers, with this random id. Goes on with the ticks, until `RINGLEADER_EVENT_FORMED`.
ringleader_status ringleader_core_form(struct ringleader_core *core,
                                       uint64_t now_ns,
                                       uint64_t group_low,
                                       uint64_t group_high);

// Connects to a node that may be a member, or become one, and was not among the peers that it was made with. Who is in no group yet does
// not know the members: where a connection takes both ends, it is to be called for all who may be, too.
ringleader_status ringleader_core_connect_to(struct ringleader_core *core,
                                             uint32_t node);

// Proposes an entry, as leader. It is committed when `RINGLEADER_EVENT_COMMITTED` of `term` reaches `index`.
ringleader_status ringleader_core_propose(struct ringleader_core *core,
                                          uint64_t now_ns,
                                          const uint8_t *payload,
                                          size_t len,
                                          uint64_t *term,
                                          uint64_t *index);

// Asks for a read: `how` is one of `RINGLEADER_READ_…`. It ends with the event that bears its kind and its number, or a later one.
ringleader_status ringleader_core_read(struct ringleader_core *core,
                                       uint64_t now_ns,
                                       uint32_t how,
                                       uint64_t *number);

// The next event, which the core forgets; `RINGLEADER_NOTHING` when there is none. To be asked for before the verbs.
ringleader_status ringleader_core_poll_event(struct ringleader_core *core,
                                             uint64_t now_ns,
                                             struct ringleader_event *out);

// The next verb, which the core takes for posted; `RINGLEADER_NOTHING` when there is none.
ringleader_status ringleader_core_poll_verb(struct ringleader_core *core, struct ringleader_verb *out);

// When the core wants a tick at the latest, though nothing happened.
ringleader_status ringleader_core_poll_timeout(struct ringleader_core *core, uint64_t *at_ns);

// Hands the next committed entry to the callback, and counts it applied; `RINGLEADER_NOTHING` when there is none. When the callback
// returns something else than 0 this is `RINGLEADER_APPLICATION`, and the entry counts as applied all the same. As long as the callback
// runs the core is at work: whatever else is called with it says `RINGLEADER_BUSY`.
ringleader_status ringleader_core_apply(struct ringleader_core *core,
                                        ringleader_apply_callback apply,
                                        void *context);

// Answers `RINGLEADER_EVENT_SAVE_SNAPSHOT` of that number: the application's state, or NULL when it cannot save it. `RINGLEADER_FULL`
// when it does not fit, which the core then knows, too.
ringleader_status ringleader_core_saved(struct ringleader_core *core,
                                        uint64_t now_ns,
                                        uint32_t number,
                                        const uint8_t *state,
                                        size_t len);

// Lends the `len` bytes of `RINGLEADER_EVENT_LOAD_SNAPSHOT`, until that is answered.
ringleader_status ringleader_core_loading(struct ringleader_core *core, uint64_t len, const uint8_t **state);

// Answers `RINGLEADER_EVENT_LOAD_SNAPSHOT` of that number: whether the application has become that state, or is what it was.
ringleader_status ringleader_core_loaded(struct ringleader_core *core,
                                         uint64_t now_ns,
                                         uint32_t number,
                                         uint32_t loaded);

// How it is.
ringleader_status ringleader_core_look(struct ringleader_core *core, struct ringleader_core_state *out);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* RINGLEADER_H */


