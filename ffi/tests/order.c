/* A fuzz of the order of calls: functions are called in any order, with live, closed, foreign and missing handles and arguments, by a
 * seed. Whatever is called when, it ends with a status that the header has, what fails writes nothing, and the books stay right. */
#include "check.h"

enum { MOST = 6 };

/* What is open, and what once was. */
struct handles {
    void *live[MOST], *closed[MOST];
    int count;
};

static struct handles agents, nodes, lanes, readers;
static uint64_t seed, calls, seen[100];
static struct counting countings[64];
static int next_counting;
/* Drafts that are open, by lane: what may be written there. */
static struct {
    void *lane;
    uint8_t *place;
    size_t len;
} drafts[MOST];

static uint64_t draw(uint64_t below) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % below;
}

/* Mostly something live of the right kind. */
static void *pick(struct handles *of) {
    static uint64_t mine[8];
    struct handles *kinds[] = {&agents, &nodes, &lanes, &readers};
    struct handles *other = kinds[draw(4)];
    switch (draw(24)) {
    case 0:
        return NULL;
    case 1:
        return mine;
    case 2:
        return (char *)mine + 1;
    case 3:
        return of->closed[draw(MOST)];
    case 4:
        return other->live[draw(MOST)];
    case 5:
        return (void *)(uintptr_t)(seed * 3);
    default:
        return of->count == 0 ? NULL : of->live[draw((uint64_t)of->count)];
    }
}

static int place_of(struct handles *of, void *handle) {
    for (int i = 0; i < of->count; i++) {
        if (of->live[i] == handle) {
            return i;
        }
    }
    return -1;
}

static void add(struct handles *of, void *handle) {
    CHECK(of->count < MOST && place_of(of, handle) < 0);
    for (int i = 0; i < MOST; i++) {
        CHECK(of->closed[i] != handle);
    }
    of->live[of->count++] = handle;
}

static void gone(struct handles *of, void *handle) {
    int at = place_of(of, handle);
    CHECK(at >= 0);
    of->live[at] = of->live[--of->count];
    of->live[of->count] = NULL;
    of->closed[draw(MOST)] = handle;
}

static ringleader_status note(ringleader_status status) {
    CHECK(status >= 0 && status < 100 && status != RINGLEADER_PANICKED);
    CHECK(strncmp(ringleader_status_name(status), "RINGLEADER_", 11) == 0);
    seen[status]++;
    calls++;
    return status;
}

static void tell(void *context, const ringleader_outcome *outcome) {
    CHECK(context == seen && outcome->size == sizeof *outcome);
    if (draw(4) == 0 && lanes.count > 0) {
        note(ringleader_lane_propose(lanes.live[draw((uint64_t)lanes.count)], (const uint8_t *)"told", 4, NULL));
    }
    if (draw(8) == 0) {
        IS(ringleader_form(pick(&nodes), SECOND) == RINGLEADER_OK, 0);
    }
}

static int save(void *context, ringleader_snapshot *out) {
    (void)context;
    return ringleader_snapshot_write(out, (const uint8_t *)"state", 5);
}

static void open_agent(void) {
    ringleader_agent *agent = (ringleader_agent *)seen;
    NEW(ringleader_agent_options, options);
    options.groups = (uint32_t)draw(4);
    bool polled = draw(3) != 0;
    ringleader_agent_options *given = draw(2) == 0 ? NULL : &options;
    ringleader_status status =
        note(polled ? ringleader_agent_polled(given, &agent) : ringleader_agent_start(given, &agent));
    IS(status, RINGLEADER_OK);
    add(&agents, agent);
}

static void open_node(void) {
    ringleader_node *node = (ringleader_node *)seen;
    uint32_t id = 1 + (uint32_t)draw(MOST);
    bool pair = draw(8) == 0;
    ringleader_options options = options_of(id, pair ? 6 : 1u << id);
    /* One alone is to be elected soon. Of two, who stood still in the middle of a write would be shot, and that is this process. */
    static ringleader_timing patient;
    if (pair) {
        patient = local_timing(40);
        options.timing = &patient;
    }
    struct counting *counting = &countings[next_counting++ % 64];
    ringleader_application application = counting_application(counting);
    application.save = save;
    if (draw(10) == 0) {
        options.ring_len = 7;
    }
    void *agent = draw(4) == 0 ? NULL : pick(&agents);
    /* A node's place in a directory is its id's: an open one is not to be opened again beside itself. */
    for (int i = 0; i < nodes.count; i++) {
        if (look(nodes.live[i]).node == id) {
            return;
        }
    }
    ringleader_status status = note(ringleader_open(agent, &options, &application, &node));
    if (status == RINGLEADER_OK) {
        add(&nodes, node);
    } else {
        CHECK(node == (ringleader_node *)seen);
    }
}

static void close_any(struct handles *of, ringleader_status (*how)(void *)) {
    void *handle = pick(of);
    bool is_live = place_of(of, handle) >= 0;
    ringleader_status status = note(how(handle));
    if (status == RINGLEADER_OK || (how != NULL && status == RINGLEADER_APPLICATION)) {
        CHECK(is_live);
        gone(of, handle);
        for (int i = 0; i < MOST; i++) {
            if (drafts[i].lane == handle) {
                drafts[i].lane = NULL;
            }
        }
    } else {
        CHECK(!is_live || status == RINGLEADER_IN_USE);
    }
}

static ringleader_status agent_close(void *h) { return ringleader_agent_close(h); }
static ringleader_status node_close(void *h) { return ringleader_close(h); }
static ringleader_status lane_close(void *h) { return ringleader_lane_close(h); }
static ringleader_status reader_close(void *h) { return ringleader_reader_close(h); }

/* An output that shows whether it was written. */
#define UNTOUCHED(call, out)                                                                           \
    do {                                                                                               \
        memset((char *)&out + 4, 0x5c, sizeof out - 4);                                                \
        unsigned char kept_[sizeof out];                                                               \
        memcpy(kept_, &out, sizeof out);                                                               \
        if (note(call) != RINGLEADER_OK) {                                                             \
            CHECK(memcmp(kept_, &out, sizeof out) == 0);                                               \
        }                                                                                              \
    } while (0)

static void draft(void) {
    void *lane = pick(&lanes);
    uint8_t *place = (uint8_t *)seen;
    size_t len = (size_t)draw(draw(10) == 0 ? 300000 : 2000);
    ringleader_status status = note(ringleader_lane_draft(lane, len, &place));
    if (status != RINGLEADER_OK) {
        CHECK(place == (uint8_t *)seen);
        return;
    }
    for (int i = 0; i < MOST; i++) {
        if (drafts[i].lane == NULL) {
            drafts[i].lane = lane;
            drafts[i].place = place;
            drafts[i].len = len;
            return;
        }
    }
    CHECK(!"a place for each lane");
}

static void end_draft(void) {
    void *lane = pick(&lanes);
    int at = -1;
    for (int i = 0; i < MOST && lane != NULL; i++) {
        if (drafts[i].lane == lane) {
            at = i;
        }
    }
    bool commits = draw(2) == 0;
    size_t len = at < 0 ? 1 : drafts[at].len;
    if (at >= 0) {
        /* Whatever happened since: it may be written to. */
        memset(drafts[at].place, (int)draw(256), len);
    }
    ringleader_status status = note(commits ? ringleader_lane_commit(lane, len, NULL) : ringleader_lane_drop(lane));
    CHECK((status == RINGLEADER_OK) == (at >= 0));
    if (at >= 0) {
        drafts[at].lane = NULL;
    }
}

static void step(void) {
    static uint8_t payload[400000];
    NEW(ringleader_node_status, status);
    NEW(ringleader_metrics, metrics);
    NEW(ringleader_event, event);
    NEW(ringleader_members, members);
    NEW(ringleader_outcome, outcome);
    NEW(ringleader_read_outcome, read);
    ringleader_lane *lane = (ringleader_lane *)seen;
    ringleader_reader *reader = (ringleader_reader *)seen;
    switch (draw(34)) {
    case 0:
        if (agents.count < MOST) {
            open_agent();
        }
        break;
    case 1:
    case 2:
        if (nodes.count < MOST) {
            open_node();
        }
        break;
    case 3:
    case 4:
        if (lanes.count < MOST) {
            ringleader_outcome_callback callback = draw(2) == 0 ? tell : NULL;
            if (note(ringleader_lane_open(pick(&nodes), callback, seen, &lane)) == RINGLEADER_OK) {
                add(&lanes, lane);
            } else {
                CHECK(lane == (ringleader_lane *)seen);
            }
        }
        break;
    case 5:
        if (readers.count < MOST) {
            if (note(ringleader_reader_open(pick(&nodes), &reader)) == RINGLEADER_OK) {
                add(&readers, reader);
            } else {
                CHECK(reader == (ringleader_reader *)seen);
            }
        }
        break;
    case 6:
        close_any(&agents, agent_close);
        break;
    case 7:
        close_any(&nodes, node_close);
        break;
    case 8:
        close_any(&lanes, lane_close);
        break;
    case 9:
        close_any(&readers, reader_close);
        break;
    case 10:
    case 11:
    case 12:
        note(ringleader_form(pick(&nodes), draw(2) * SECOND / 100));
        break;
    case 13:
    case 14:
    case 15:
        note(ringleader_lane_propose(pick(&lanes), payload, (size_t)draw(draw(20) == 0 ? sizeof payload : 900), NULL));
        break;
    case 16:
        draft();
        break;
    case 17:
    case 18:
        end_draft();
        break;
    case 19:
    case 20:
        UNTOUCHED(ringleader_lane_poll(pick(&lanes), &outcome), outcome);
        break;
    case 21:
        UNTOUCHED(ringleader_lane_wait(pick(&lanes), draw(2) * SECOND / 1000, &outcome), outcome);
        break;
    case 22:
        note(ringleader_lane_tell(pick(&lanes), NULL));
        break;
    case 23:
        note(ringleader_reader_ask(pick(&readers), (uint32_t)draw(4), NULL));
        break;
    case 24:
        UNTOUCHED(ringleader_reader_poll(pick(&readers), &read), read);
        break;
    case 25:
        UNTOUCHED(ringleader_reader_wait(pick(&readers), draw(2) * SECOND / 1000, &read), read);
        break;
    case 26:
        UNTOUCHED(ringleader_look(pick(&nodes), &status), status);
        break;
    case 27:
        UNTOUCHED(ringleader_count(pick(&nodes), &metrics), metrics);
        break;
    case 28:
        UNTOUCHED(ringleader_next_event(pick(&nodes), &event), event);
        break;
    case 29:
        UNTOUCHED(ringleader_list_members(pick(&nodes), &members), members);
        break;
    case 30:
        note(ringleader_change_members(pick(&nodes), (uint32_t)draw(5), (uint32_t)draw(20), NULL, 0));
        break;
    case 31:
        note(ringleader_transfer(pick(&nodes), (uint32_t)draw(20), 0));
        break;
    case 32:
        note(ringleader_force_new_group(pick(&nodes), (uint32_t)draw(2)));
        break;
    default:
        for (int i = 0; i < 20; i++) {
            note(ringleader_agent_poll(pick(&agents), draw(2) * 100000));
        }
    }
}

int main(int argc, char **argv) {
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    uint64_t seeds = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    uint64_t steps = argc > 3 ? strtoull(argv[3], NULL, 0) : 4000;
    make_directory();
    for (uint64_t s = first; s < first + seeds; s++) {
        seed = s * UINT64_C(0x9e3779b97f4a7c15) | 1;
        fprintf(stderr, "seed %llu\n", (unsigned long long)s);
        for (uint64_t i = 0; i < steps; i++) {
            step();
        }
        memset(drafts, 0, sizeof drafts);
        while (lanes.count > 0) {
            OK(ringleader_lane_close(lanes.live[0]));
            gone(&lanes, lanes.live[0]);
        }
        while (readers.count > 0) {
            OK(ringleader_reader_close(readers.live[0]));
            gone(&readers, readers.live[0]);
        }
        while (nodes.count > 0) {
            OK(ringleader_close(nodes.live[0]));
            gone(&nodes, nodes.live[0]);
        }
        while (agents.count > 0) {
            OK(ringleader_agent_close(agents.live[0]));
            gone(&agents, agents.live[0]);
        }
        CHECK(files_in(directory) == 0);
    }
    /* It got around. */
    const int wanted[] = {RINGLEADER_OK,       RINGLEADER_NOTHING,       RINGLEADER_TIMEOUT,    RINGLEADER_NULL,
                          RINGLEADER_FOREIGN,  RINGLEADER_CLOSED_HANDLE, RINGLEADER_MISALIGNED, RINGLEADER_OPTION,
                          RINGLEADER_IN_USE,   RINGLEADER_TOO_LARGE,     RINGLEADER_DRAFT_OPEN, RINGLEADER_NO_DRAFT,
                          RINGLEADER_NOT_FRESH, RINGLEADER_NOT_LEADER,   RINGLEADER_CLOSED};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        CHECK(seeds * steps < 10000 || seen[wanted[i]] > 0);
    }
    int kinds = 0;
    for (int i = 0; i < 100; i++) {
        kinds += seen[i] > 0;
    }
    printf("%llu calls, %d different statuses\n", (unsigned long long)calls, kinds);
    return 0;
}
