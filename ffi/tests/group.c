/* Members that come and go, a state that is saved and loaded, the lead that is handed over. */
#include "check.h"

#define EACH ((uint32_t)(1 << 1 | 1 << 2 | 1 << 3))

/* A state of some size: a sum of all entries, written again and again. */
struct state {
    uint64_t entries, sum, loads, saves;
};

static int state_apply(void *context, const ringleader_entry *entry) {
    struct state *state = context;
    uint64_t sum = state->sum;
    for (size_t i = 0; i < entry->len; i++) {
        sum = sum * 31 + entry->payload[i];
    }
    state->sum = sum;
    __atomic_add_fetch(&state->entries, 1, __ATOMIC_RELEASE);
    return 0;
}

static ringleader_snapshot *saved_to;

static int state_save(void *context, ringleader_snapshot *out) {
    struct state *state = context;
    uint64_t words[2] = {state->entries, state->sum};
    for (int i = 0; i < 1000; i++) {
        OK(ringleader_snapshot_write(out, (const uint8_t *)words, sizeof words));
    }
    __atomic_store_n(&saved_to, out, __ATOMIC_RELEASE);
    __atomic_add_fetch(&state->saves, 1, __ATOMIC_RELEASE);
    return 0;
}

static int state_load(void *context, const uint8_t *bytes, size_t len) {
    struct state *state = context;
    uint64_t words[2];
    CHECK(len == 1000 * sizeof words);
    for (int i = 0; i < 1000; i++) {
        CHECK(memcmp(bytes, bytes + (size_t)i * sizeof words, sizeof words) == 0);
    }
    memcpy(words, bytes, sizeof words);
    state->sum = words[1];
    __atomic_store_n(&state->entries, words[0], __ATOMIC_RELEASE);
    __atomic_add_fetch(&state->loads, 1, __ATOMIC_RELEASE);
    return 0;
}

static ringleader_node *nodes[3];
static struct state states[4];

static ringleader_node *open_state(uint32_t node, struct state *state) {
    ringleader_options options = options_of(node, EACH);
    NEW(ringleader_application, application);
    application.context = state;
    application.apply = state_apply;
    application.save = state_save;
    application.load = state_load;
    ringleader_node *opened;
    OK(ringleader_open(NULL, &options, &application, &opened));
    return opened;
}

/* Commits that many entries of 1000 bytes, by whoever leads of the nodes that there are. */
static void commit(int count, uint64_t wanted) {
    static uint64_t number;
    ringleader_lane *lane = NULL;
    uint8_t payload[1000] = {0};
    for (uint64_t committed = 0; committed < wanted;) {
        ringleader_node *leader;
        UNTIL((leader = leader_of(nodes, count)) != NULL);
        OK(ringleader_lane_open(leader, NULL, NULL, &lane));
        uint64_t outstanding = 0;
        bool lost = false;
        while (!lost && committed < wanted) {
            number++;
            memcpy(payload, &number, sizeof number);
            if (outstanding < 50 && ringleader_lane_propose(lane, payload, sizeof payload, NULL) == RINGLEADER_OK) {
                outstanding++;
                continue;
            }
            NEW(ringleader_outcome, outcome);
            OK(ringleader_lane_wait(lane, PATIENCE, &outcome));
            outstanding--;
            lost = outcome.status != RINGLEADER_OK;
            committed += !lost;
        }
        OK(ringleader_lane_close(lane));
    }
}

static bool equal(struct state *a, struct state *b) {
    return __atomic_load_n(&a->entries, __ATOMIC_ACQUIRE) == __atomic_load_n(&b->entries, __ATOMIC_ACQUIRE) &&
           a->sum == b->sum;
}

/* A change that the leader of the moment makes; another may lead a moment later. */
static ringleader_status change(int count, uint32_t what, uint32_t node) {
    for (;;) {
        ringleader_node *leader;
        UNTIL((leader = leader_of(nodes, count)) != NULL);
        ringleader_status status = ringleader_change_members(leader, what, node, NULL, PATIENCE);
        if (status != RINGLEADER_NOT_LEADER && status != RINGLEADER_UNKNOWN && status != RINGLEADER_WOULD_STOP) {
            return status;
        }
        nap();
    }
}

int main(void) {
    make_directory();
    for (uint32_t i = 0; i < 3; i++) {
        nodes[i] = open_state(i + 1, &states[i]);
    }
    OK(ringleader_form(nodes[0], PATIENCE));
    commit(3, 100);

    /* The third one comes back without its memory, when what it lacks is in no ring any more. */
    OK(ringleader_close(nodes[2]));
    commit(2, 1200);
    nodes[2] = open_state(3, &states[3]);
    ringleader_status status = change(2, RINGLEADER_CHANGE_READMIT, 3);
    CHECK(status == RINGLEADER_OK);
    commit(2, 700);
    UNTIL(equal(&states[0], &states[1]) && equal(&states[0], &states[3]));
    CHECK(states[3].loads >= 1 && states[0].saves + states[1].saves >= 1);
    /* It is lent for the time of the callback. */
    ringleader_snapshot *late = __atomic_load_n(&saved_to, __ATOMIC_ACQUIRE);
    ringleader_status written;
    UNTIL((written = ringleader_snapshot_write(late, (const uint8_t *)"late", 4)) == RINGLEADER_CLOSED_HANDLE);
    NEW(ringleader_metrics, metrics);
    UNTIL((OK(ringleader_count(nodes[2], &metrics)), metrics.loaded >= 1));

    /* The lead is handed over. */
    NEW(ringleader_members, members);
    UNTIL((OK(ringleader_list_members(nodes[0], &members)),
           members.count == 3 && members.members[2].role == RINGLEADER_MEMBER_VOTER));
    for (;;) {
        ringleader_node *leader;
        UNTIL((leader = leader_of(nodes, 3)) != NULL);
        uint32_t to = look(leader).node % 3 + 1;
        status = ringleader_transfer(leader, to, PATIENCE);
        if (status == RINGLEADER_OK) {
            UNTIL(leader_of(nodes, 3) != NULL);
            break;
        }
        CHECK(status == RINGLEADER_NOT_READY || status == RINGLEADER_NOT_LEADER || status == RINGLEADER_BUSY ||
              status == RINGLEADER_NOT_ELECTED);
    }

    /* Members go, and what cannot be is told. */
    UNTIL((status = change(3, RINGLEADER_CHANGE_ADD, 1)) != RINGLEADER_TOO_EARLY);
    IS(status, RINGLEADER_MEMBER);
    IS(change(3, RINGLEADER_CHANGE_PROMOTE, 1), RINGLEADER_VOTER);
    IS(change(3, RINGLEADER_CHANGE_READMIT, 1), RINGLEADER_SAME_LIFE);
    IS(change(3, RINGLEADER_CHANGE_REMOVE, 9), RINGLEADER_NOT_MEMBER);
    IS(change(3, RINGLEADER_CHANGE_REMOVE, 99), RINGLEADER_NO_SUCH_NODE);
    IS(change(3, 4, 1), RINGLEADER_OPTION);
    uint32_t gone = leader_of(nodes, 3) == nodes[0] ? 2 : 1;
    IS(change(3, RINGLEADER_CHANGE_REMOVE, gone), RINGLEADER_OK);
    UNTIL(look(nodes[gone - 1]).removed == 1);
    char address[60];
    memset(address, 'a', sizeof address);
    address[59] = 0;
    ringleader_node *leader;
    UNTIL((leader = leader_of(nodes, 3)) != NULL);
    IS(ringleader_change_members(leader, RINGLEADER_CHANGE_ADD, 5, address, 0), RINGLEADER_ADDRESS);
    for (int i = 0; i < 3; i++) {
        OK(ringleader_close(nodes[i]));
    }
    CHECK(files_in(directory) == 0);
    return 0;
}
