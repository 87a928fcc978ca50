/* A node by itself: opened by a struct and by a file, formed, looked at, ended by its application and by its caller. */
#include "check.h"

static int refuse(void *context, const ringleader_entry *entry) {
    (void)entry;
    /* A callback may look, and may not wait. */
    ringleader_node *node = *(ringleader_node **)context;
    IS(ringleader_form(node, 0), RINGLEADER_IN_CALLBACK);
    IS(ringleader_close(node), RINGLEADER_IN_CALLBACK);
    NEW(ringleader_members, members);
    IS(ringleader_list_members(node, &members), RINGLEADER_IN_CALLBACK);
    ringleader_options options = options_of(5, 1 << 5);
    NEW(ringleader_application, application);
    application.apply = refuse;
    ringleader_node *none = NULL;
    IS(ringleader_open(NULL, &options, &application, &none), RINGLEADER_IN_CALLBACK);
    CHECK(none == NULL && look(node).node == 4);
    return 1;
}

static void opened_by_a_file(void) {
    struct counting counting = {0};
    ringleader_application application = counting_application(&counting);
    char path[200];
    snprintf(path, sizeof path, "%s/group.toml", directory);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file, "group = \"c\"\nmembers = [1, 2]\nfabric = \"shm\"\nring = \"512K\"\n[shm]\ndirectory = \"%s\"\n",
            directory);
    fclose(file);
    ringleader_node *node = NULL;
    IS(ringleader_open_file(NULL, path, 0, &application, &node), RINGLEADER_OPTION);
    CHECK(strstr(ringleader_error_text(), "which node is this?") != NULL);
    IS(ringleader_open_file(NULL, path, 3, &application, &node), RINGLEADER_OPTION);
    CHECK(strstr(ringleader_error_text(), path) != NULL);
    IS(ringleader_open_file(NULL, path, 256, &application, &node), RINGLEADER_NO_SUCH_NODE);
    IS(ringleader_open_file(NULL, "/nowhere", 1, &application, &node), RINGLEADER_OPTION);
    IS(ringleader_open_file(NULL, NULL, 1, &application, &node), RINGLEADER_NULL);
    CHECK(node == NULL);
    OK(ringleader_open_file(NULL, path, 2, &application, &node));
    CHECK(look(node).node == 2);
    IS(ringleader_form(node, SECOND / 100), RINGLEADER_TIMEOUT);
    OK(ringleader_close(node));
    unlink(path);
}

static void verbs_are_chosen_by_a_struct_as_well(void) {
    struct counting counting = {0};
    ringleader_application application = counting_application(&counting);
    ringleader_options options = options_of(1, 1 << 1 | 1 << 2);
    const char *addresses[16] = {NULL, NULL, "127.0.0.1:1"};
    ringleader_node *node = NULL;
    options.fabric = RINGLEADER_FABRIC_VERBS;
    IS(ringleader_open(NULL, &options, &application, &node), RINGLEADER_NULL);
    options.group = "c";
    options.listen = "127.0.0.1:0";
    options.key_file = "/nowhere/key";
    IS(ringleader_open(NULL, &options, &application, &node), RINGLEADER_NULL);
    options.addresses = addresses;
    IS(ringleader_open(NULL, &options, &application, &node), RINGLEADER_OPTION);
    CHECK(strstr(ringleader_error_text(), "/nowhere/key") != NULL);
    options.fabric = 2;
    IS(ringleader_open(NULL, &options, &application, &node), RINGLEADER_OPTION);
    CHECK(node == NULL);
}

int main(void) {
    make_directory();
    struct counting counting = {0};
    ringleader_node *node = open_counting(NULL, 1, 1 << 1, &counting);
    ringleader_node_status status = look(node);
    CHECK(status.formed == 0 && status.closed == 0 && status.leader == 0 && status.follower_count == 0);
    NEW(ringleader_members, members);
    OK(ringleader_list_members(node, &members));
    CHECK(members.count == 0);
    IS(ringleader_force_new_group(node, 0), RINGLEADER_NOT_FORMED);
    IS(ringleader_transfer(node, 2, SECOND), RINGLEADER_NOT_LEADER);

    OK(ringleader_form(node, PATIENCE));
    IS(ringleader_form(node, PATIENCE), RINGLEADER_NOT_FRESH);
    UNTIL(look(node).role == RINGLEADER_ROLE_LEADER);
    status = look(node);
    CHECK(status.formed == 1 && status.leader == 1 && status.voters == 1 && status.term > 0);
    CHECK((status.group_low | status.group_high) != 0);
    IS(ringleader_transfer(node, 1, SECOND), RINGLEADER_NOT_VOTER);
    IS(ringleader_transfer(node, 300, SECOND), RINGLEADER_NO_SUCH_NODE);
    IS(ringleader_force_new_group(node, 1), RINGLEADER_LEADER_ALIVE);
    OK(ringleader_set_readmit(node, RINGLEADER_READMIT_AUTO));
    IS(ringleader_set_readmit(node, 2), RINGLEADER_OPTION);

    OK(ringleader_list_members(node, &members));
    uint64_t incarnation = 0;
    OK(ringleader_incarnation(node, &incarnation));
    CHECK(members.count == 1 && members.members[0].node == 1);
    CHECK(members.members[0].role == RINGLEADER_MEMBER_VOTER && members.members[0].address[0] == 0);
    CHECK(members.members[0].incarnation == incarnation && incarnation != 0);

    /* Events tell the same story, in order. */
    NEW(ringleader_event, event);
    uint32_t wanted[] = {RINGLEADER_EVENT_FORMED, RINGLEADER_EVENT_CAMPAIGN, RINGLEADER_EVENT_PROMISED,
                         RINGLEADER_EVENT_ELECTED, RINGLEADER_EVENT_COMMITTED};
    size_t seen = 0;
    uint64_t before = 0;
    while (seen < sizeof wanted / sizeof *wanted) {
        UNTIL(ringleader_next_event(node, &event) == RINGLEADER_OK);
        CHECK(event.at_ns >= before && event.size == sizeof event);
        before = event.at_ns;
        if (event.kind == wanted[seen]) {
            seen++;
            CHECK(event.kind != RINGLEADER_EVENT_FORMED ||
                  (event.group_low == status.group_low && event.group_high == status.group_high));
            CHECK(event.kind != RINGLEADER_EVENT_PROMISED || event.node == 1);
            CHECK(event.kind != RINGLEADER_EVENT_ELECTED || event.term == status.term);
        }
    }
    while (ringleader_next_event(node, &event) == RINGLEADER_OK) {
    }
    ringleader_event kept = event;
    IS(ringleader_next_event(node, &event), RINGLEADER_NOTHING);
    CHECK(memcmp(&kept, &event, sizeof event) == 0);

    NEW(ringleader_metrics, metrics);
    UNTIL((OK(ringleader_count(node, &metrics)), metrics.elected == 1));
    CHECK(metrics.campaigns >= 1 && metrics.turns > 0 && metrics.applied == 0 && metrics.gave_up == 0);
    CHECK(files_in(directory) == 1);
    OK(ringleader_close(node));
    CHECK(files_in(directory) == 0);
    UNTIL(__atomic_load_n(&counting.ended, __ATOMIC_ACQUIRE) == 1);

    /* An application that cannot go on ends its node, which says so, and leaves its memory. */
    ringleader_options options = options_of(4, 1 << 4);
    NEW(ringleader_application, application);
    application.context = &node;
    application.apply = refuse;
    OK(ringleader_open(NULL, &options, &application, &node));
    OK(ringleader_form(node, PATIENCE));
    ringleader_lane *lane;
    OK(ringleader_lane_open(node, NULL, NULL, &lane));
    UNTIL(look(node).role == RINGLEADER_ROLE_LEADER);
    OK(ringleader_lane_propose(lane, (const uint8_t *)"x", 1, NULL));
    UNTIL(look(node).closed == 1);
    IS(ringleader_form(node, SECOND), RINGLEADER_CLOSED);
    IS(ringleader_transfer(node, 2, SECOND), RINGLEADER_CLOSED);
    IS(ringleader_list_members(node, &members), RINGLEADER_CLOSED);
    IS(ringleader_close(node), RINGLEADER_APPLICATION);
    IS(ringleader_close(node), RINGLEADER_CLOSED_HANDLE);
    OK(ringleader_lane_close(lane));
    CHECK(files_in(directory) == 1);
    options.keep_region = 1;
    struct counting other = {0};
    application = counting_application(&other);
    OK(ringleader_open(NULL, &options, &application, &node));
    OK(ringleader_close(node));
    CHECK(files_in(directory) == 1);

    opened_by_a_file();
    verbs_are_chosen_by_a_struct_as_well();
    return 0;
}
