/* A fabric of one process, for cores: it carries out verbs between areas of memory, and breaks what is down. By the rules of
 * docs/protocol.md, section 2, as they stand at `ringleader_verb`. No allocation, no operating system: it is also linked to the
 * freestanding library. */
#ifndef FABRIC_H
#define FABRIC_H

#include "ringleader.h"

#define NODES 4
#define RING (UINT64_C(512) << 10)
#define CONTROL (UINT64_C(64) << 10)
#define LOG (RING + (UINT64_C(64) << 10))

/* One direction between two nodes, the log queue pair: who writes is the initiator, whose log is written the acceptor. */
struct pair {
    uint64_t initiator, acceptor;
    int opened, armed, granted;
};

struct machine {
    _Alignas(64) uint8_t control[CONTROL];
    _Alignas(64) uint8_t log[LOG];
    _Alignas(64) uint8_t staging[LOG];
    _Alignas(64) uint8_t storage[256 << 10];
    ringleader_core *core;
    ringleader_completion done[4096];
    unsigned first, last;
    int dead;
    uint64_t applied, sum, campaigns, elected, group, aborts, read;
    int within;
    uint64_t committed_term, committed_index;
};

static struct machine machines[NODES];
/* Of the writer, at the one whose log it is. */
static struct pair pairs[NODES][NODES];
/* Whether the control queue pair of the first to the second is up. */
static int connected[NODES][NODES];
static uint64_t numbers = 1;

static void copy(uint8_t *to, const uint8_t *from, uint64_t len) {
    for (uint64_t i = 0; i < len; i += 8) {
        uint64_t word = __atomic_load_n((const uint64_t *)(const void *)(from + i), __ATOMIC_RELAXED);
        __atomic_store_n((uint64_t *)(void *)(to + i), word, __ATOMIC_RELAXED);
    }
}

static void finish(struct machine *of, const ringleader_verb *verb, uint32_t status, uint64_t value) {
    ringleader_completion *done = &of->done[of->last++ % (sizeof of->done / sizeof *of->done)];
    done->size = sizeof *done;
    done->status = status;
    done->id = verb->id;
    done->value = value;
}

/* The other end is gone. */
static int is_down(uint32_t from, uint32_t to) {
    return to >= NODES || machines[to].core == NULL || machines[to].dead || !connected[from][to];
}

static void carry_out(uint32_t me, const ringleader_verb *verb) {
    struct machine *of = &machines[me];
    struct machine *peer = &machines[verb->peer < NODES ? verb->peer : 0];
    struct pair *out = &pairs[me][verb->peer % NODES], *in = &pairs[verb->peer % NODES][me];
    switch (verb->kind) {
    case RINGLEADER_VERB_CONNECT:
        out->opened = 0;
        out->initiator = numbers++;
        connected[me][verb->peer % NODES] =
            verb->peer < NODES && peer->core != NULL && !peer->dead;
        finish(of, verb, connected[me][verb->peer % NODES] ? RINGLEADER_DONE : RINGLEADER_DONE_UNREACHABLE,
               out->initiator);
        return;
    case RINGLEADER_VERB_WRITE:
        if (verb->plane == RINGLEADER_PLANE_CONTROL) {
            if (is_down(me, verb->peer)) {
                finish(of, verb, RINGLEADER_DONE_UNREACHABLE, 0);
                return;
            }
            copy(peer->control + verb->to, of->staging + verb->from, verb->len);
        } else {
            if (peer->dead || !out->opened) {
                finish(of, verb, RINGLEADER_DONE_FLUSHED, 0);
                return;
            }
            if (!out->granted || !out->armed) {
                out->opened = 0;
                finish(of, verb, RINGLEADER_DONE_REFUSED, 0);
                return;
            }
            const uint8_t *from = verb->source == RINGLEADER_FROM_LOG ? of->log : of->staging;
            copy(peer->log + verb->to, from + verb->from, verb->len);
        }
        finish(of, verb, RINGLEADER_DONE, 0);
        return;
    case RINGLEADER_VERB_READ:
        if (is_down(me, verb->peer)) {
            finish(of, verb, RINGLEADER_DONE_UNREACHABLE, 0);
            return;
        }
        copy(of->staging + verb->to, peer->control + verb->from, verb->len);
        finish(of, verb, RINGLEADER_DONE, 0);
        return;
    case RINGLEADER_VERB_OPEN:
        out->opened = out->acceptor == verb->numbers && out->armed && !peer->dead;
        finish(of, verb, out->opened ? RINGLEADER_DONE : RINGLEADER_DONE_FAILED, 0);
        return;
    case RINGLEADER_VERB_CLOSE:
        out->opened = 0;
        out->initiator = numbers++;
        finish(of, verb, RINGLEADER_DONE, out->initiator);
        return;
    case RINGLEADER_VERB_ARM:
        in->armed = in->initiator == verb->numbers;
        in->granted = 0;
        in->acceptor = numbers++;
        finish(of, verb, in->armed ? RINGLEADER_DONE : RINGLEADER_DONE_FAILED, in->acceptor);
        return;
    case RINGLEADER_VERB_GRANT:
        in->granted = in->armed;
        finish(of, verb, in->armed ? RINGLEADER_DONE : RINGLEADER_DONE_FAILED, 0);
        return;
    case RINGLEADER_VERB_FENCE:
        in->granted = 0;
        in->armed = 0;
        finish(of, verb, RINGLEADER_DONE, 0);
        return;
    default:
        finish(of, verb, RINGLEADER_DONE_FAILED, 0);
    }
}

static int apply_entry(void *context, const ringleader_entry *entry) {
    struct machine *of = context;
    if (of->applied == 0 && of->core != NULL) {
        /* The core is at work, and says so. */
        ringleader_core_state state = {0};
        state.size = sizeof state;
        of->within = ringleader_core_look(of->core, &state) == RINGLEADER_BUSY &&
                     ringleader_core_end(of->core) == RINGLEADER_BUSY;
    }
    for (size_t i = 0; i < entry->len; i++) {
        of->sum = of->sum * 31 + entry->payload[i];
    }
    of->applied++;
    return 0;
}

/* Makes the core of a node; `stands`: a whole replica, else the acceptor alone. */
static ringleader_status start(uint32_t node, uint32_t members, uint32_t stands, uint64_t now_ns) {
    struct machine *of = &machines[node];
    ringleader_core_options options = {0};
    ringleader_areas areas = {0};
    options.size = sizeof options;
    options.node = node;
    options.peers = members & ~(1u << node);
    options.stands = stands;
    options.own_copy_first = 1;
    options.ring_len = RING;
    options.incarnation = 1000 + node;
    options.boot = 2000 + node;
    options.seed = 3000 + node;
    options.timing.size = sizeof options.timing;
    ringleader_status status = ringleader_timing_profile(RINGLEADER_TIMING_LOCAL, &options.timing);
    if (status != RINGLEADER_OK) {
        return status;
    }
    areas.size = sizeof areas;
    areas.control.bytes = of->control;
    areas.control.len = sizeof of->control;
    areas.log.bytes = of->log;
    areas.log.len = sizeof of->log;
    areas.staging.bytes = of->staging;
    areas.staging.len = sizeof of->staging;
    return ringleader_core_init(of->storage, sizeof of->storage, &options, &areas, now_ns, &of->core);
}

static void hear(struct machine *of, uint64_t now_ns) {
    ringleader_event event = {0};
    event.size = sizeof event;
    while (ringleader_core_poll_event(of->core, now_ns, &event) == RINGLEADER_OK) {
        switch (event.kind) {
        case RINGLEADER_EVENT_FORMED:
            of->group = event.group_low;
            break;
        case RINGLEADER_EVENT_CAMPAIGN:
            of->campaigns++;
            break;
        case RINGLEADER_EVENT_ELECTED:
            of->elected = event.term;
            break;
        case RINGLEADER_EVENT_COMMITTED:
            of->committed_term = event.term;
            of->committed_index = event.index;
            break;
        case RINGLEADER_EVENT_READ_READY:
            of->read = event.detail == RINGLEADER_READ_QUORUM ? event.number : 0;
            break;
        case RINGLEADER_EVENT_ABORT:
            of->aborts++;
            break;
        default:
            break;
        }
    }
}

/* A turn of a node, as an agent has it. */
static void turn(uint32_t node, uint64_t now_ns) {
    struct machine *of = &machines[node];
    if (of->core == NULL || of->dead) {
        return;
    }
    while (of->first != of->last) {
        (void)ringleader_core_complete(of->core, now_ns,
                                       &of->done[of->first++ % (sizeof of->done / sizeof *of->done)]);
    }
    (void)ringleader_core_tick(of->core, now_ns);
    hear(of, now_ns);
    while (ringleader_core_apply(of->core, apply_entry, of) == RINGLEADER_OK) {
    }
    ringleader_verb verb = {0};
    verb.size = sizeof verb;
    while (ringleader_core_poll_verb(of->core, &verb) == RINGLEADER_OK) {
        carry_out(node, &verb);
        while (of->first != of->last) {
            (void)ringleader_core_complete(of->core, now_ns,
                                           &of->done[of->first++ % (sizeof of->done / sizeof *of->done)]);
        }
        hear(of, now_ns);
    }
}

/* A second of turns, every 100 microseconds, is more than an election takes. */
static uint64_t run(uint64_t from_ns, uint64_t turns) {
    for (uint64_t i = 0; i < turns; i++) {
        from_ns += 100000;
        for (uint32_t node = 1; node < NODES; node++) {
            turn(node, from_ns);
        }
    }
    return from_ns;
}

static uint32_t leader(void) {
    for (uint32_t node = 1; node < NODES; node++) {
        ringleader_core_state state = {0};
        state.size = sizeof state;
        if (machines[node].core != NULL && !machines[node].dead &&
            ringleader_core_look(machines[node].core, &state) == RINGLEADER_OK &&
            state.role == RINGLEADER_ROLE_LEADER) {
            return node;
        }
    }
    return 0;
}

/* The story of both tests: two whole replicas and an acceptor alone form a group, commit, lose their leader, and go on, by the
 * acceptor's vote. Returns the line at which it went wrong, or 0. */
static int story(void) {
    const uint32_t members = 1 << 1 | 1 << 2 | 1 << 3;
    uint64_t now = 1000000000, term = 0, index = 0;
    for (uint32_t node = 1; node < NODES; node++) {
        if (start(node, members, node != 3, now) != RINGLEADER_OK) {
            return __LINE__;
        }
    }
    if (ringleader_core_form(machines[3].core, now, 77, 0) != RINGLEADER_OK) {
        return __LINE__;
    }
    now = run(now, 10000);
    for (uint32_t node = 1; node < NODES; node++) {
        if (machines[node].group != 77) {
            return __LINE__;
        }
    }
    uint32_t first = leader();
    if (first == 0 || first == 3) {
        return __LINE__;
    }
    const uint8_t payload[100] = "what was proposed";
    if (ringleader_core_propose(machines[3].core, now, payload, 8, &term, &index) != RINGLEADER_NOT_LEADER) {
        return __LINE__;
    }
    for (int i = 0; i < 2000; i++) {
        ringleader_status status =
            ringleader_core_propose(machines[first].core, now, payload, sizeof payload, &term, &index);
        if (status != RINGLEADER_OK && status != RINGLEADER_FULL) {
            return __LINE__;
        }
        now = run(now, status == RINGLEADER_OK ? 1 : 100);
        i -= status != RINGLEADER_OK;
    }
    now = run(now, 1000);
    if (machines[first].committed_term != term || machines[first].committed_index < index) {
        return __LINE__;
    }
    for (uint32_t node = 1; node < NODES; node++) {
        if (machines[node].applied != 2000 || machines[node].sum != machines[first].sum || !machines[node].within) {
            return __LINE__;
        }
    }
    uint64_t number = 0;
    if (ringleader_core_read(machines[3].core, now, RINGLEADER_READ_QUORUM, &number) != RINGLEADER_NOT_LEADER ||
        ringleader_core_read(machines[first].core, now, RINGLEADER_READ_LEASE, &number) != RINGLEADER_NO_LEASE_READS ||
        ringleader_core_read(machines[first].core, now, 3, &number) != RINGLEADER_OPTION || number != 0 ||
        ringleader_core_read(machines[first].core, now, RINGLEADER_READ_QUORUM, &number) != RINGLEADER_OK) {
        return __LINE__;
    }
    now = run(now, 1000);
    if (number != 1 || machines[first].read != number) {
        return __LINE__;
    }

    /* The leader dies: the other one that stands is elected by the acceptor alone. */
    machines[first].dead = 1;
    now = run(now, 20000);
    uint32_t second = leader();
    if (second == 0 || second == 3 || second == first) {
        return __LINE__;
    }
    if (ringleader_core_propose(machines[second].core, now, payload, 50, &term, &index) != RINGLEADER_OK) {
        return __LINE__;
    }
    now = run(now, 1000);
    if (machines[second].committed_index < index || machines[3].applied != 2001 ||
        machines[3].sum != machines[second].sum) {
        return __LINE__;
    }

    /* Alone, the acceptor never stands. */
    machines[second].dead = 1;
    now = run(now, 50000);
    if (leader() != 0 || machines[3].campaigns != 0 || machines[3].elected != 0) {
        return __LINE__;
    }
    for (uint32_t node = 1; node < NODES; node++) {
        if (machines[node].aborts != 0) {
            return __LINE__;
        }
    }
    return 0;
}

#endif
