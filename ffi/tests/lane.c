/* Lanes: copies and drafts, tickets and outcomes, polled and by callback; what a closed node leaves of them. */
#include "check.h"

static ringleader_lane *lane;

static void propose_one(ringleader_lane *by, const char *text, uint64_t ticket) {
    uint64_t got = UINT64_MAX;
    UNTIL(ringleader_lane_propose(by, (const uint8_t *)text, strlen(text), &got) == RINGLEADER_OK);
    CHECK(got == ticket);
}

static void *waits(void *context) {
    NEW(ringleader_outcome, outcome);
    (void)context;
    OK(ringleader_lane_wait(lane, UINT64_MAX, &outcome));
    CHECK(outcome.ticket == 0);
    return NULL;
}

/* Is told of outcomes, and proposes until there are enough. */
struct chain {
    ringleader_lane *lane;
    uint64_t told, wanted;
};

static void next_of_chain(void *context, const ringleader_outcome *outcome) {
    struct chain *chain = context;
    CHECK(outcome->size == sizeof *outcome && outcome->ticket == chain->told);
    CHECK(outcome->status == RINGLEADER_OK && outcome->index > 0);
    NEW(ringleader_outcome, polled);
    IS(ringleader_lane_wait(chain->lane, 0, &polled), RINGLEADER_IN_CALLBACK);
    chain->told++;
    if (chain->told + 1 < chain->wanted) {
        OK(ringleader_lane_propose(chain->lane, (const uint8_t *)"chain", 5, NULL));
    }
}

int main(void) {
    make_directory();
    struct counting counting = {0};
    ringleader_node *node = open_counting(NULL, 1, 1 << 1, &counting);
    OK(ringleader_lane_open(node, NULL, NULL, &lane));
    NEW(ringleader_outcome, outcome);

    /* Nobody leads. */
    IS(ringleader_lane_poll(lane, &outcome), RINGLEADER_NOTHING);
    IS(ringleader_lane_wait(lane, PATIENCE, &outcome), RINGLEADER_NOTHING);
    propose_one(lane, "too early", 0);
    OK(ringleader_lane_wait(lane, PATIENCE, &outcome));
    CHECK(outcome.status == RINGLEADER_NOT_LEADER && outcome.leader == 0 && outcome.ticket == 0);
    OK(ringleader_form(node, PATIENCE));
    UNTIL(look(node).role == RINGLEADER_ROLE_LEADER);

    /* Copies and drafts keep one order; what is dropped was never there. */
    uint64_t outstanding = 9, ticket = 0, sum = 0;
    const uint64_t rounds = getenv("TEST_SHORT") != NULL ? 200 : 3000;
    uint8_t large[60000];
    for (uint64_t i = 0; i < rounds; i++) {
        size_t len = (size_t)(i * 977 % sizeof large);
        uint8_t *place = NULL;
        UNTIL(ringleader_lane_draft(lane, len, &place) == RINGLEADER_OK);
        CHECK((uintptr_t)place % 8 == 0);
        for (size_t at = 0; at < len; at++) {
            CHECK(place[at] == 0);
            place[at] = (uint8_t)(at + i);
        }
        IS(ringleader_lane_draft(lane, 1, &place), RINGLEADER_DRAFT_OPEN);
        IS(ringleader_lane_propose(lane, large, 1, NULL), RINGLEADER_DRAFT_OPEN);
        IS(ringleader_lane_poll(lane, &outcome), RINGLEADER_DRAFT_OPEN);
        IS(ringleader_lane_outstanding(lane, &outstanding), RINGLEADER_DRAFT_OPEN);
        IS(ringleader_lane_commit(lane, len + 1, NULL), RINGLEADER_TOO_LARGE);
        if (i % 4 == 3) {
            OK(ringleader_lane_drop(lane));
            continue;
        }
        size_t kept = i % 2 == 0 ? len : len / 2;
        OK(ringleader_lane_commit(lane, kept, &ticket));
        for (size_t at = 0; at < kept; at++) {
            sum = sum * 31 + (uint8_t)(at + i);
        }
        memset(large, (int)i, sizeof large);
        UNTIL(ringleader_lane_propose(lane, large, len / 3, NULL) == RINGLEADER_OK);
        for (size_t at = 0; at < len / 3; at++) {
            sum = sum * 31 + (uint8_t)i;
        }
        while (ringleader_lane_poll(lane, &outcome) == RINGLEADER_OK) {
            CHECK(outcome.status == RINGLEADER_OK);
        }
    }
    IS(ringleader_lane_drop(lane), RINGLEADER_NO_DRAFT);
    IS(ringleader_lane_commit(lane, 0, NULL), RINGLEADER_NO_DRAFT);
    uint64_t last = ticket + 1;
    do {
        OK(ringleader_lane_wait(lane, PATIENCE, &outcome));
        CHECK(outcome.status == RINGLEADER_OK);
    } while (outcome.ticket < last);
    OK(ringleader_lane_outstanding(lane, &outstanding));
    CHECK(outstanding == 0);
    UNTIL(counted(&counting) == last);
    CHECK(counting.sum == sum);

    /* Too large, and as large as can be. */
    size_t max = 0;
    OK(ringleader_lane_max_payload(lane, &max));
    uint8_t *whole = calloc(1, max + 1), *place = NULL;
    CHECK(whole != NULL && max > 60000);
    IS(ringleader_lane_propose(lane, whole, max + 1, NULL), RINGLEADER_TOO_LARGE);
    IS(ringleader_lane_draft(lane, max + 1, &place), RINGLEADER_TOO_LARGE);
    IS(ringleader_lane_propose(lane, whole, SIZE_MAX, NULL), RINGLEADER_TOO_LARGE);
    IS(ringleader_lane_propose(lane, NULL, 1, NULL), RINGLEADER_NULL);
    CHECK(place == NULL);
    OK(ringleader_lane_propose(lane, whole, max, NULL));
    OK(ringleader_lane_propose(lane, NULL, 0, NULL));
    for (int i = 0; i < 2; i++) {
        OK(ringleader_lane_wait(lane, PATIENCE, &outcome));
        CHECK(outcome.status == RINGLEADER_OK);
    }
    free(whole);
    UNTIL(counted(&counting) == last + 2);

    /* A lane that nobody polls is full at last, and loses nothing. */
    uint64_t before = counted(&counting), accepted = 0;
    ringleader_status status;
    while ((status = ringleader_lane_propose(lane, (const uint8_t *)"fill", 4, NULL)) == RINGLEADER_OK) {
        CHECK(++accepted < 1000000);
    }
    IS(status, RINGLEADER_FULL);
    for (uint64_t i = 0; i < accepted; i++) {
        OK(ringleader_lane_wait(lane, PATIENCE, &outcome));
        CHECK(outcome.status == RINGLEADER_OK);
    }
    UNTIL(counted(&counting) == before + accepted);

    /* A callback that proposes. */
    struct chain chain = {NULL, 0, 1000};
    OK(ringleader_lane_open(node, next_of_chain, &chain, &chain.lane));
    IS(ringleader_lane_tell(lane, NULL), RINGLEADER_OPTION);
    propose_one(chain.lane, "chain", 0);
    propose_one(chain.lane, "chain", 1);
    uint64_t told = 0;
    while (chain.told < chain.wanted) {
        UNTIL((OK(ringleader_lane_tell(chain.lane, &told)), told > 0));
    }
    CHECK(chain.told == chain.wanted);
    OK(ringleader_lane_close(chain.lane));

    /* One thread at a time: who comes second is told, and may not close either. */
    OK(ringleader_lane_close(lane));
    OK(ringleader_lane_open(node, NULL, NULL, &lane));
    ringleader_node *lonely = open_counting(NULL, 2, 1 << 2 | 1 << 3, &counting);
    ringleader_lane *first = lane;
    OK(ringleader_lane_open(lonely, NULL, NULL, &lane));
    OK(ringleader_close(lonely));
    IS(ringleader_lane_propose(lane, NULL, 0, NULL), RINGLEADER_CLOSED);
    OK(ringleader_lane_close(lane));
    lane = first;
    /* Something that does not end while the application is at work. */
    OK(ringleader_lane_propose(lane, (const uint8_t *)"one", 3, NULL));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);

    /* A closed node: what was on its way ends, and then the lane is closed. */
    for (uint64_t i = 1; i <= 100; i++) {
        propose_one(lane, "late", i);
    }
    OK(ringleader_lane_draft(lane, 8, &place));
    OK(ringleader_close(node));
    memset(place, 1, 8);
    OK(ringleader_lane_commit(lane, 8, &ticket));
    CHECK(ticket == 101);
    for (uint64_t i = 1; i <= 101; i++) {
        OK(ringleader_lane_wait(lane, PATIENCE, &outcome));
        CHECK(outcome.ticket == i);
        CHECK(outcome.status == RINGLEADER_OK || outcome.status == RINGLEADER_UNKNOWN ||
              outcome.status == RINGLEADER_NOT_LEADER);
        CHECK(outcome.status != RINGLEADER_OK || i <= 100);
    }
    IS(ringleader_lane_wait(lane, PATIENCE, &outcome), RINGLEADER_NOTHING);
    IS(ringleader_lane_propose(lane, NULL, 0, NULL), RINGLEADER_CLOSED);
    IS(ringleader_lane_draft(lane, 1, &place), RINGLEADER_CLOSED);
    OK(ringleader_lane_close(lane));
    IS(ringleader_lane_close(lane), RINGLEADER_CLOSED_HANDLE);
    return 0;
}
