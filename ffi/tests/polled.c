/* A caller's own loop: nodes without a thread, and what other threads may not do with them. */
#include "check.h"

static ringleader_agent *agent;
static ringleader_node *nodes[3];
static ringleader_lane *lane;
static pthread_t owner;
static uint64_t applied[3], told, closing = 1;
/* By this one entries propose while it is waited for. */
static ringleader_lane *waited_for;

static int apply(void *context, const ringleader_entry *entry) {
    CHECK(pthread_equal(pthread_self(), owner));
    CHECK(entry->len == 8);
    if (*(uint64_t *)context == 0) {
        IS(ringleader_agent_poll(agent, 0), RINGLEADER_IN_CALLBACK);
        IS(ringleader_agent_close(agent), RINGLEADER_IN_CALLBACK);
    }
    if (waited_for != NULL) {
        OK(ringleader_lane_propose(waited_for, (const uint8_t *)"withinit", 8, NULL));
        waited_for = NULL;
    }
    ++*(uint64_t *)context;
    return 0;
}

static void tell(void *context, const ringleader_outcome *outcome) {
    (void)context;
    CHECK(pthread_equal(pthread_self(), owner));
    CHECK(outcome->status == RINGLEADER_OK && outcome->ticket == told);
    told++;
}

static void count_told(void *context, const ringleader_outcome *outcome) {
    (void)outcome;
    ++*(uint64_t *)context;
}

static void *tries_to_close(void *context) {
    (void)context;
    while (__atomic_load_n(&closing, __ATOMIC_ACQUIRE)) {
        ringleader_status status = ringleader_agent_close(agent);
        IS(status, RINGLEADER_IN_USE);
        IS(ringleader_close(nodes[0]), RINGLEADER_WRONG_THREAD);
    }
    return NULL;
}

static void *elsewhere(void *context) {
    (void)context;
    NEW(ringleader_members, members);
    NEW(ringleader_outcome, outcome);
    IS(ringleader_agent_poll(agent, 0), RINGLEADER_WRONG_THREAD);
    IS(ringleader_form(nodes[0], 0), RINGLEADER_WRONG_THREAD);
    IS(ringleader_transfer(nodes[0], 2, 0), RINGLEADER_WRONG_THREAD);
    IS(ringleader_list_members(nodes[0], &members), RINGLEADER_WRONG_THREAD);
    IS(ringleader_close(nodes[0]), RINGLEADER_WRONG_THREAD);
    IS(ringleader_lane_wait(lane, 0, &outcome), RINGLEADER_WRONG_THREAD);
    ringleader_options options = options_of(9, 1 << 9);
    struct counting counting = {0};
    ringleader_application application = counting_application(&counting);
    ringleader_node *node = NULL;
    IS(ringleader_open(agent, &options, &application, &node), RINGLEADER_WRONG_THREAD);
    CHECK(node == NULL);
    /* What does not wait may be done. */
    CHECK(look(nodes[0]).node == 1);
    OK(ringleader_lane_propose(lane, (const uint8_t *)"fromhere", 8, NULL));
    return NULL;
}

/* Gives turns until something is so. */
#define TURNS(condition)                                                                               \
    do {                                                                                               \
        uint64_t deadline_ = now_ns() + PATIENCE;                                                      \
        while (!(condition)) {                                                                         \
            ringleader_status polled_ = ringleader_agent_poll(agent, 100000);                          \
            CHECK(polled_ == RINGLEADER_OK || polled_ == RINGLEADER_NOTHING);                          \
            CHECK(now_ns() < deadline_);                                                               \
        }                                                                                              \
    } while (0)

int main(void) {
    make_directory();
    owner = pthread_self();
    NEW(ringleader_agent_options, options);
    options.groups = 3;
    OK(ringleader_agent_polled(&options, &agent));
    IS(ringleader_agent_poll(agent, 0), RINGLEADER_NOTHING);
    const int count = alone() ? 1 : 3;
    for (uint32_t i = 0; (int)i < count; i++) {
        ringleader_options of = options_of(i + 1, alone() ? 1 << 1 : 1 << 1 | 1 << 2 | 1 << 3);
        NEW(ringleader_application, application);
        application.context = &applied[i];
        application.apply = apply;
        OK(ringleader_open(agent, &of, &application, &nodes[i]));
    }
    /* Begun here, and carried on by the turns. */
    ringleader_status begun = ringleader_form(nodes[0], 0);
    CHECK(begun == RINGLEADER_TIMEOUT || (begun == RINGLEADER_OK && count == 1));
    for (int i = 0; i < count; i++) {
        TURNS(look(nodes[i]).formed);
    }
    ringleader_node *leader = NULL;
    TURNS((leader = leader_of(nodes, count)) != NULL);
    OK(ringleader_lane_open(leader, tell, NULL, &lane));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, elsewhere, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    uint64_t proposed = 1;
    for (uint64_t i = 0; i < 500; i++) {
        uint8_t *place;
        TURNS(ringleader_lane_draft(lane, 8, &place) == RINGLEADER_OK);
        memcpy(place, &i, sizeof i);
        if (i % 100 == 0) {
            /* Outcomes wait for a lane whose draft is open, and none is lost. */
            (void)ringleader_agent_poll(agent, 0);
            (void)ringleader_agent_poll(agent, 0);
        }
        OK(ringleader_lane_commit(lane, 8, NULL));
        proposed++;
    }
    TURNS(told == proposed);
    for (int i = 0; i < count; i++) {
        TURNS(applied[i] == proposed);
    }

    /* What waits gives turns by itself. */
    NEW(ringleader_outcome, outcome);
    OK(ringleader_lane_propose(lane, (const uint8_t *)"waitsfor", 8, NULL));
    OK(ringleader_lane_wait(lane, PATIENCE, &outcome));
    CHECK(outcome.ticket == proposed && outcome.status == RINGLEADER_OK);
    IS(ringleader_lane_wait(lane, PATIENCE, &outcome), RINGLEADER_NOTHING);
    ringleader_lane *other;
    uint64_t outstanding = 0;
    OK(ringleader_lane_open(leader, NULL, NULL, &other));
    waited_for = other;
    for (int i = 0; i < 100; i++) {
        OK(ringleader_lane_propose(other, (const uint8_t *)"waitsfor", 8, NULL));
    }
    for (int i = 0; i < 100; i++) {
        OK(ringleader_lane_wait(other, PATIENCE, &outcome));
    }
    TURNS(waited_for == NULL);
    OK(ringleader_lane_outstanding(other, &outstanding));
    CHECK(outstanding == 1);
    OK(ringleader_lane_wait(other, PATIENCE, &outcome));
    OK(ringleader_lane_close(other));

    /* Another thread that tries what may not be disturbs nobody; a lane that is opened meanwhile is told. */
    CHECK(pthread_create(&thread, NULL, tries_to_close, NULL) == 0);
    for (int i = 0; i < (getenv("TEST_SHORT") != NULL ? 20 : 500); i++) {
        ringleader_lane *more;
        uint64_t told_here = 0, deadline = now_ns() + PATIENCE;
        OK(ringleader_lane_open(leader, count_told, &told_here, &more));
        OK(ringleader_lane_propose(more, (const uint8_t *)"isitsaid", 8, NULL));
        while (told_here == 0) {
            ringleader_status polled = ringleader_agent_poll(agent, 0);
            CHECK(polled == RINGLEADER_OK || polled == RINGLEADER_NOTHING);
            CHECK(look(nodes[0]).node == 1 && now_ns() < deadline);
        }
        OK(ringleader_lane_close(more));
    }
    __atomic_store_n(&closing, 0, __ATOMIC_RELEASE);
    CHECK(pthread_join(thread, NULL) == 0);

    ringleader_reader *reader;
    NEW(ringleader_read_outcome, read);
    OK(ringleader_reader_open(leader, &reader));
    OK(ringleader_reader_ask(reader, RINGLEADER_READ_QUORUM, NULL));
    OK(ringleader_reader_wait(reader, PATIENCE, &read));
    CHECK(read.status == RINGLEADER_OK && read.applied_index >= outcome.index);
    OK(ringleader_reader_close(reader));

    NEW(ringleader_members, members);
    OK(ringleader_list_members(leader, &members));
    CHECK((int)members.count == count);
    if (count == 3) {
        uint32_t to = look(leader).node % 3 + 1;
        OK(ringleader_transfer(leader, to, PATIENCE));
        CHECK(look(leader).leader == to);
        TURNS(look(nodes[to - 1]).role == RINGLEADER_ROLE_LEADER);
    }

    ringleader_agent *threaded;
    OK(ringleader_agent_start(NULL, &threaded));
    IS(ringleader_agent_poll(threaded, 0), RINGLEADER_NOT_POLLED);
    OK(ringleader_agent_close(threaded));
    IS(ringleader_agent_close(agent), RINGLEADER_IN_USE);
    OK(ringleader_lane_close(lane));
    for (int i = 0; i < count; i++) {
        OK(ringleader_close(nodes[i]));
    }
    OK(ringleader_agent_close(agent));
    CHECK(files_in(directory) == 0);
    return 0;
}
