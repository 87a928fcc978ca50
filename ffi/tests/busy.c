/* Handles between threads: of two threads at one lane one is refused, nothing is closed while it is used, and all of it may race. */
#include "check.h"

#include <sched.h>

static ringleader_node *node;
static ringleader_lane *shared;
static uint64_t accepted, refused, looks;

static void *proposes(void *context) {
    (void)context;
    NEW(ringleader_outcome, outcome);
    for (int i = 0; i < 20000; i++) {
        ringleader_status status = ringleader_lane_propose(shared, (const uint8_t *)"x", 1, NULL);
        if (status == RINGLEADER_OK) {
            __atomic_add_fetch(&accepted, 1, __ATOMIC_RELAXED);
        } else if (status == RINGLEADER_BUSY) {
            __atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
        } else {
            IS(status, RINGLEADER_FULL);
        }
        status = ringleader_lane_poll(shared, &outcome);
        CHECK(status == RINGLEADER_OK || status == RINGLEADER_NOTHING || status == RINGLEADER_BUSY);
        if (status == RINGLEADER_OK) {
            __atomic_sub_fetch(&accepted, 1, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

static void *looks_until_closed(void *context) {
    (void)context;
    NEW(ringleader_node_status, status);
    ringleader_status got;
    while ((got = ringleader_look(node, &status)) != RINGLEADER_CLOSED_HANDLE) {
        CHECK(got == RINGLEADER_OK || got == RINGLEADER_BUSY);
        // Valgrind has one thread run at a time, and takes turns after so many instructions: looks that all take as many could be
        // interrupted within one each time, and nobody could ever close.
        if (__atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED) % 8 == 0) {
            sched_yield();
        }
    }
    return NULL;
}

static void *opens_and_closes(void *context) {
    (void)context;
    for (int i = 0; i < 300; i++) {
        ringleader_lane *lane;
        ringleader_status status = ringleader_lane_open(node, NULL, NULL, &lane);
        if (status == RINGLEADER_OK) {
            OK(ringleader_lane_close(lane));
            IS(ringleader_lane_close(lane), RINGLEADER_CLOSED_HANDLE);
        } else {
            CHECK(status == RINGLEADER_BUSY || status == RINGLEADER_CLOSED_HANDLE);
        }
    }
    return NULL;
}

/* A callback that takes its time, and something of its owner's. */
static uint64_t telling, may_return;

static void tell_slowly(void *context, const ringleader_outcome *outcome) {
    (void)outcome;
    __atomic_add_fetch(&telling, 1, __ATOMIC_RELEASE);
    UNTIL(__atomic_load_n(&may_return, __ATOMIC_ACQUIRE) == 1);
    ++*(uint64_t *)context;
}

static void *tells(void *lane) {
    uint64_t count = 0;
    UNTIL((OK(ringleader_lane_tell(lane, &count)), count > 0));
    return NULL;
}

static void close_itself(void *context, const ringleader_outcome *outcome) {
    CHECK(outcome->ticket == 0);
    OK(ringleader_lane_close(*(ringleader_lane **)context));
}

/* While a callback runs another thread may propose by its lane, and neither close it nor tell it: what the callback uses is still there. */
static void told_in_one_thread(void) {
    ringleader_lane *lane;
    uint64_t *told = calloc(1, sizeof *told);
    OK(ringleader_lane_open(node, tell_slowly, told, &lane));
    OK(ringleader_lane_propose(lane, (const uint8_t *)"x", 1, NULL));
    OK(ringleader_lane_propose(lane, (const uint8_t *)"x", 1, NULL));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, tells, lane) == 0);
    UNTIL(__atomic_load_n(&telling, __ATOMIC_ACQUIRE) == 1);
    IS(ringleader_lane_close(lane), RINGLEADER_BUSY);
    IS(ringleader_lane_tell(lane, NULL), RINGLEADER_BUSY);
    OK(ringleader_lane_propose(lane, (const uint8_t *)"x", 1, NULL));
    CHECK(__atomic_load_n(&telling, __ATOMIC_ACQUIRE) == 1);
    __atomic_store_n(&may_return, 1, __ATOMIC_RELEASE);
    CHECK(pthread_join(thread, NULL) == 0);
    UNTIL((OK(ringleader_lane_tell(lane, NULL)), *told == 3));
    OK(ringleader_lane_close(lane));
    free(told);

    OK(ringleader_lane_open(node, close_itself, &lane, &lane));
    OK(ringleader_lane_propose(lane, (const uint8_t *)"x", 1, NULL));
    OK(ringleader_lane_propose(lane, (const uint8_t *)"x", 1, NULL));
    uint64_t count = 0;
    UNTIL((OK(ringleader_lane_tell(lane, &count)), count > 0));
    CHECK(count == 1);
    IS(ringleader_lane_tell(lane, NULL), RINGLEADER_CLOSED_HANDLE);
}

int main(void) {
    make_directory();
    struct counting counting = {0};
    node = open_counting(NULL, 1, 1 << 1, &counting);
    OK(ringleader_form(node, PATIENCE));
    UNTIL(look(node).role == RINGLEADER_ROLE_LEADER);
    OK(ringleader_lane_open(node, NULL, NULL, &shared));
    pthread_t threads[6];
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_create(&threads[i], NULL, proposes, NULL) == 0);
    }
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    uint64_t outstanding = 0;
    OK(ringleader_lane_outstanding(shared, &outstanding));
    CHECK(outstanding == accepted);
    told_in_one_thread();

    CHECK(pthread_create(&threads[0], NULL, looks_until_closed, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, opens_and_closes, NULL) == 0);
    CHECK(pthread_create(&threads[2], NULL, opens_and_closes, NULL) == 0);
    UNTIL(__atomic_load_n(&looks, __ATOMIC_RELAXED) > 100);
    ringleader_status status;
    do {
        status = ringleader_close(node);
    } while (status == RINGLEADER_BUSY);
    IS(status, RINGLEADER_OK);
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    OK(ringleader_lane_close(shared));
    CHECK(files_in(directory) == 0);
    return 0;
}
