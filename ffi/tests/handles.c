/* Whatever is no handle is told for what it is, by every function, and never looked through. */
#include "check.h"

enum { AGENT, NODE, LANE, READER, KINDS };

/* One call of a function of some kind of handle, with good arguments otherwise. */
typedef ringleader_status call(void *handle);

static ringleader_node_status node_status;
static ringleader_metrics metrics;
static ringleader_members members;
static ringleader_event event;
static ringleader_outcome outcome;
static ringleader_read_outcome read_outcome;
static uint64_t number;
static uint32_t small_number;
static size_t length;
static uint8_t *place;
static ringleader_lane *lane_out;
static ringleader_reader *reader_out;

static ringleader_status agent_poll(void *h) { return ringleader_agent_poll(h, 0); }
static ringleader_status agent_groups(void *h) { return ringleader_agent_groups(h, &small_number); }
static ringleader_status agent_close(void *h) { return ringleader_agent_close(h); }
static ringleader_status form(void *h) { return ringleader_form(h, 0); }
static ringleader_status transfer(void *h) { return ringleader_transfer(h, 2, 0); }
static ringleader_status look_at(void *h) { return ringleader_look(h, &node_status); }
static ringleader_status count(void *h) { return ringleader_count(h, &metrics); }
static ringleader_status next_event(void *h) { return ringleader_next_event(h, &event); }
static ringleader_status incarnation(void *h) { return ringleader_incarnation(h, &number); }
static ringleader_status set_readmit(void *h) { return ringleader_set_readmit(h, RINGLEADER_READMIT_ASK); }
static ringleader_status list_members(void *h) { return ringleader_list_members(h, &members); }
static ringleader_status change_members(void *h) {
    return ringleader_change_members(h, RINGLEADER_CHANGE_REMOVE, 2, NULL, 0);
}
static ringleader_status new_group(void *h) { return ringleader_force_new_group(h, 1); }
static ringleader_status lane_open(void *h) { return ringleader_lane_open(h, NULL, NULL, &lane_out); }
static ringleader_status reader_open(void *h) { return ringleader_reader_open(h, &reader_out); }
static ringleader_status node_close(void *h) { return ringleader_close(h); }
static ringleader_status propose(void *h) { return ringleader_lane_propose(h, (const uint8_t *)"x", 1, NULL); }
static ringleader_status draft(void *h) { return ringleader_lane_draft(h, 8, &place); }
static ringleader_status commit(void *h) { return ringleader_lane_commit(h, 8, NULL); }
static ringleader_status drop(void *h) { return ringleader_lane_drop(h); }
static ringleader_status lane_poll(void *h) { return ringleader_lane_poll(h, &outcome); }
static ringleader_status lane_wait(void *h) { return ringleader_lane_wait(h, 0, &outcome); }
static ringleader_status tell(void *h) { return ringleader_lane_tell(h, NULL); }
static ringleader_status outstanding(void *h) { return ringleader_lane_outstanding(h, &number); }
static ringleader_status max_payload(void *h) { return ringleader_lane_max_payload(h, &length); }
static ringleader_status lane_close(void *h) { return ringleader_lane_close(h); }
static ringleader_status ask(void *h) { return ringleader_reader_ask(h, RINGLEADER_READ_QUORUM, NULL); }
static ringleader_status reader_poll(void *h) { return ringleader_reader_poll(h, &read_outcome); }
static ringleader_status reader_wait(void *h) { return ringleader_reader_wait(h, 0, &read_outcome); }
static ringleader_status reader_close(void *h) { return ringleader_reader_close(h); }
static ringleader_status snapshot_write(void *h) {
    return ringleader_snapshot_write(h, (const uint8_t *)"x", 1);
}

static const struct {
    int kind;
    call *call;
} CALLS[] = {
    {AGENT, agent_poll},   {AGENT, agent_groups},  {AGENT, agent_close},   {NODE, form},
    {NODE, transfer},      {NODE, look_at},        {NODE, count},          {NODE, next_event},
    {NODE, incarnation},   {NODE, set_readmit},    {NODE, list_members},   {NODE, change_members},
    {NODE, new_group},     {NODE, lane_open},      {NODE, reader_open},    {NODE, node_close},
    {LANE, propose},       {LANE, draft},          {LANE, commit},         {LANE, drop},
    {LANE, lane_poll},     {LANE, lane_wait},      {LANE, tell},           {LANE, outstanding},
    {LANE, max_payload},   {LANE, lane_close},     {READER, ask},          {READER, reader_poll},
    {READER, reader_wait}, {READER, reader_close}, {KINDS, snapshot_write},
};

int main(void) {
    make_directory();
    node_status.size = sizeof node_status;
    metrics.size = sizeof metrics;
    members.size = sizeof members;
    event.size = sizeof event;
    outcome.size = sizeof outcome;
    read_outcome.size = sizeof read_outcome;
    struct counting counting = {0};

    /* Opened and closed twice: the second time they have the same places. */
    void *closed[2][KINDS], *live[KINDS];
    for (int round = 0; round < 3; round++) {
        ringleader_agent *agent;
        ringleader_lane *lane;
        ringleader_reader *reader;
        OK(ringleader_agent_start(NULL, &agent));
        ringleader_node *node = open_counting(agent, 1, 1 << 1, &counting);
        OK(ringleader_lane_open(node, NULL, NULL, &lane));
        OK(ringleader_reader_open(node, &reader));
        void *handles[KINDS] = {agent, node, lane, reader};
        for (int kind = 0; kind < KINDS; kind++) {
            CHECK(handles[kind] != NULL);
            for (int before = 0; before < round; before++) {
                CHECK(handles[kind] != closed[before][kind]);
            }
        }
        if (round == 2) {
            memcpy(live, handles, sizeof live);
            break;
        }
        memcpy(closed[round], handles, sizeof handles);
        IS(ringleader_agent_close(agent), RINGLEADER_IN_USE);
        OK(ringleader_reader_close(reader));
        OK(ringleader_lane_close(lane));
        OK(ringleader_close(node));
        OK(ringleader_agent_close(agent));
        CHECK(counting.ended == (uint32_t)round + 1);
    }

    uint64_t mine[4] = {0};
    size_t count_of_calls = sizeof CALLS / sizeof *CALLS;
    for (size_t i = 0; i < count_of_calls; i++) {
        IS(CALLS[i].call(NULL), RINGLEADER_NULL);
        IS(CALLS[i].call(mine), RINGLEADER_FOREIGN);
        IS(CALLS[i].call((void *)((uintptr_t)mine + 1)), RINGLEADER_MISALIGNED);
        IS(CALLS[i].call((void *)(uintptr_t)8), RINGLEADER_FOREIGN);
        for (int kind = 0; kind < KINDS; kind++) {
            if (kind != CALLS[i].kind) {
                IS(CALLS[i].call(live[kind]), RINGLEADER_FOREIGN);
            } else {
                IS(CALLS[i].call(closed[0][kind]), RINGLEADER_CLOSED_HANDLE);
                IS(CALLS[i].call(closed[1][kind]), RINGLEADER_CLOSED_HANDLE);
            }
        }
    }
    IS(ringleader_open(closed[0][AGENT], NULL, NULL, NULL), RINGLEADER_NULL);
    ringleader_options options = options_of(2, 1 << 2);
    ringleader_application application = counting_application(&counting);
    ringleader_node *node = (ringleader_node *)mine;
    IS(ringleader_open(closed[0][AGENT], &options, &application, &node), RINGLEADER_CLOSED_HANDLE);
    IS(ringleader_open(live[NODE], &options, &application, &node), RINGLEADER_FOREIGN);
    CHECK(node == (ringleader_node *)mine);

    OK(ringleader_reader_close(live[READER]));
    OK(ringleader_lane_close(live[LANE]));
    OK(ringleader_close(live[NODE]));
    OK(ringleader_agent_close(live[AGENT]));
    CHECK(files_in(directory) == 0);
    return 0;
}
