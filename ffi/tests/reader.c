/* Reads of every kind, at the leader and elsewhere. */
#include "check.h"

static int32_t read_by(ringleader_reader *reader, uint32_t how, ringleader_read_outcome *outcome) {
    uint64_t ticket = 0;
    OK(ringleader_reader_ask(reader, how, &ticket));
    OK(ringleader_reader_wait(reader, PATIENCE, outcome));
    CHECK(outcome->ticket == ticket);
    return outcome->status;
}

int main(void) {
    make_directory();
    const uint32_t members = alone() ? 1 << 1 : 1 << 1 | 1 << 2 | 1 << 3;
    const int count = alone() ? 1 : 3;
    struct counting counting[3] = {{0}, {0}, {0}};
    ringleader_node *nodes[3];
    for (uint32_t i = 0; (int)i < count; i++) {
        ringleader_options options = options_of(i + 1, members);
        options.lease_reads_if_clocks_drift_below_ppm = 1000;
        ringleader_application application = counting_application(&counting[i]);
        OK(ringleader_open(NULL, &options, &application, &nodes[i]));
    }
    NEW(ringleader_read_outcome, outcome);
    ringleader_reader *reader;
    OK(ringleader_reader_open(nodes[0], &reader));
    IS(ringleader_reader_poll(reader, &outcome), RINGLEADER_NOTHING);
    IS(ringleader_reader_wait(reader, PATIENCE, &outcome), RINGLEADER_NOTHING);
    IS(ringleader_reader_ask(reader, 3, NULL), RINGLEADER_OPTION);
    CHECK(read_by(reader, RINGLEADER_READ_QUORUM, &outcome) == RINGLEADER_NOT_FORMED);
    OK(ringleader_reader_close(reader));

    OK(ringleader_form(nodes[0], PATIENCE));
    ringleader_node *leader;
    UNTIL((leader = leader_of(nodes, count)) != NULL);
    ringleader_lane *lane;
    OK(ringleader_lane_open(leader, NULL, NULL, &lane));
    for (uint64_t i = 1; i <= 20; i++) {
        NEW(ringleader_outcome, proposed);
        OK(ringleader_lane_propose(lane, (const uint8_t *)"entry", 5, NULL));
        OK(ringleader_lane_wait(lane, PATIENCE, &proposed));
        if (proposed.status != RINGLEADER_OK) {
            /* The machine stood still for so long that another leads: the new one is as good. */
            OK(ringleader_lane_close(lane));
            UNTIL((leader = leader_of(nodes, count)) != NULL);
            OK(ringleader_lane_open(leader, NULL, NULL, &lane));
            continue;
        }
        for (int n = 0; n < count; n++) {
            uint32_t how = nodes[n] == leader ? RINGLEADER_READ_QUORUM : RINGLEADER_READ_FOLLOWER;
            OK(ringleader_reader_open(nodes[n], &reader));
            int32_t status = read_by(reader, how, &outcome);
            if (status == RINGLEADER_OK) {
                CHECK(outcome.applied_index >= proposed.index);
                CHECK(outcome.size == sizeof outcome && outcome.leader == 0);
            } else {
                CHECK(status >= RINGLEADER_LOST_LEAD || status == RINGLEADER_NOT_LEADER);
            }
            if (nodes[n] == leader) {
                status = read_by(reader, RINGLEADER_READ_LEASE, &outcome);
                CHECK(status == RINGLEADER_OK || status >= RINGLEADER_LOST_LEAD ||
                      status == RINGLEADER_NOT_LEADER);
            }
            OK(ringleader_reader_close(reader));
        }
    }
    /* Only a leader reads by a quorum; others name it. */
    ringleader_node *other = nodes[leader == nodes[0] && count > 1 ? 1 : 0];
    OK(ringleader_reader_open(other, &reader));
    UNTIL(count == 1 ||
          (read_by(reader, RINGLEADER_READ_QUORUM, &outcome) == RINGLEADER_NOT_LEADER && outcome.leader != 0));

    /* Many at a time, and a closed node ends all of them. */
    uint64_t asked = 0, ended = 0;
    while (ringleader_reader_ask(reader, RINGLEADER_READ_FOLLOWER, NULL) == RINGLEADER_OK) {
        CHECK(++asked < 1000000);
    }
    IS(ringleader_reader_ask(reader, RINGLEADER_READ_FOLLOWER, NULL), RINGLEADER_FULL);
    OK(ringleader_lane_close(lane));
    for (int i = 0; i < count; i++) {
        OK(ringleader_close(nodes[i]));
    }
    while (ringleader_reader_wait(reader, PATIENCE, &outcome) == RINGLEADER_OK) {
        ended++;
    }
    CHECK(ended == asked);
    IS(ringleader_reader_ask(reader, RINGLEADER_READ_FOLLOWER, NULL), RINGLEADER_CLOSED);
    OK(ringleader_reader_close(reader));
    return 0;
}
