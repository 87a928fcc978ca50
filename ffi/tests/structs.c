/* Structs grow: sizes of other versions are understood or refused, and outputs are untouched by what fails. */
#include "check.h"

/* What a later version's header might have. */
struct later {
    ringleader_node_status status;
    uint64_t more[4];
};

struct later_options {
    ringleader_options options;
    uint64_t more[2];
};

int main(void) {
    make_directory();
    struct counting counting = {0};
    ringleader_node *node = open_counting(NULL, 1, 1 << 1, &counting);

    struct later later;
    memset(&later, 0xaa, sizeof later);
    later.status.size = sizeof later;
    OK(ringleader_look(node, &later.status));
    CHECK(later.status.size == sizeof later && later.status.node == 1);
    for (int i = 0; i < 4; i++) {
        CHECK(later.more[i] == 0);
    }

    /* Sizes that are none, and NULL, and what is not aligned: nothing is written. */
    uint32_t sizes[] = {0, 1, 4, sizeof(ringleader_node_status) - 8, sizeof(ringleader_node_status) + 1,
                        UINT32_MAX, 1 << 30};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(&later, 0xaa, sizeof later);
        later.status.size = sizes[i];
        struct later kept = later;
        IS(ringleader_look(node, &later.status), RINGLEADER_SIZE);
        CHECK(memcmp(&kept, &later, sizeof later) == 0);
    }
    IS(ringleader_look(node, NULL), RINGLEADER_NULL);
    IS(ringleader_count(node, NULL), RINGLEADER_NULL);
    IS(ringleader_incarnation(node, NULL), RINGLEADER_NULL);
    IS(ringleader_list_members(node, NULL), RINGLEADER_NULL);
    IS(ringleader_next_event(node, NULL), RINGLEADER_NULL);
    uint64_t words[4] = {0};
    IS(ringleader_incarnation(node, (uint64_t *)(void *)((char *)words + 1)), RINGLEADER_MISALIGNED);
    IS(ringleader_look(node, (ringleader_node_status *)(void *)((char *)words + 2)), RINGLEADER_MISALIGNED);
    CHECK(words[0] == 0 && words[1] == 0);

    /* Options with members that are not known: they may say nothing, and no more. */
    struct later_options given;
    memset(&given, 0, sizeof given);
    given.options = options_of(2, 1 << 2);
    given.options.size = sizeof given;
    given.more[1] = 1;
    ringleader_application application = counting_application(&counting);
    ringleader_node *other = (ringleader_node *)words;
    IS(ringleader_open(NULL, &given.options, &application, &other), RINGLEADER_SIZE);
    CHECK(other == (ringleader_node *)words && files_in(directory) == 1);
    given.more[1] = 0;
    OK(ringleader_open(NULL, &given.options, &application, &other));
    CHECK(look(other).node == 2);
    OK(ringleader_close(other));

    struct {
        const char *said;
        ringleader_status status;
        ringleader_options options;
    } wrong[] = {
        {"node 3 is not among the members", RINGLEADER_OPTION, options_of(3, 1 << 2)},
        {"", RINGLEADER_NO_SUCH_NODE, options_of(300, 1 << 2)},
        {"bit n", RINGLEADER_NO_SUCH_NODE, options_of(2, 1 << 2 | 1)},
        {"bit n", RINGLEADER_NO_SUCH_NODE, options_of(2, 1 << 2 | 1 << 16)},
        {"a ring of 1000 bytes", RINGLEADER_OPTION, options_of(2, 1 << 2)},
        {"a snapshot of 1000 bytes", RINGLEADER_OPTION, options_of(2, 1 << 2)},
        {"", RINGLEADER_OPTION, options_of(2, 1 << 2)},
        {"directory", RINGLEADER_NULL, options_of(2, 1 << 2)},
        {"", RINGLEADER_OPTION, options_of(2, 1 << 2)},
        {"drift", RINGLEADER_OPTION, options_of(2, 1 << 2)},
        {"/proc/nothing", RINGLEADER_REGION, options_of(2, 1 << 2)},
    };
    wrong[4].options.ring_len = 1000;
    wrong[5].options.snapshot_len = 1000;
    wrong[6].options.quorum = 2;
    wrong[7].options.directory = NULL;
    wrong[8].options.reserved = 1;
    wrong[9].options.lease_reads_if_clocks_drift_below_ppm = 500000;
    wrong[10].options.directory = "/proc/nothing";
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        other = (ringleader_node *)words;
        IS(ringleader_open(NULL, &wrong[i].options, &application, &other), wrong[i].status);
        const char *text = ringleader_error_text();
        if (strstr(text, wrong[i].said) == NULL || strchr(text, '\n') != NULL) {
            fprintf(stderr, "%zu: %s\n", i, text);
            abort();
        }
        CHECK(other == (ringleader_node *)words);
    }
    ringleader_options good = options_of(2, 1 << 2);
    IS(ringleader_open(NULL, &good, NULL, &other), RINGLEADER_NULL);
    IS(ringleader_open(NULL, NULL, &application, &other), RINGLEADER_NULL);
    IS(ringleader_open(NULL, &good, &application, NULL), RINGLEADER_NULL);
    ringleader_application none = application;
    none.apply = NULL;
    IS(ringleader_open(NULL, &good, &none, &other), RINGLEADER_NULL);
    none = application;
    none.size = 8;
    IS(ringleader_open(NULL, &good, &none, &other), RINGLEADER_SIZE);
    /* What was not opened has not ended. */
    CHECK(counting.ended == 1);

    NEW(ringleader_agent_options, agent_options);
    ringleader_agent *agent = (ringleader_agent *)words;
    agent_options.groups = 65;
    IS(ringleader_agent_start(&agent_options, &agent), RINGLEADER_OPTION);
    IS(ringleader_agent_polled(&agent_options, &agent), RINGLEADER_OPTION);
    agent_options.groups = 1;
    agent_options.pin_plus_one = 100001;
    IS(ringleader_agent_start(&agent_options, &agent), RINGLEADER_THREAD);
    agent_options.pin_plus_one = 0;
    agent_options.idle = 7;
    IS(ringleader_agent_start(&agent_options, &agent), RINGLEADER_OPTION);
    IS(ringleader_agent_start(NULL, NULL), RINGLEADER_NULL);
    CHECK(agent == (ringleader_agent *)words);
    agent_options.idle = RINGLEADER_IDLE_BUSY;
    OK(ringleader_agent_start(&agent_options, &agent));
    OK(ringleader_open(agent, &good, &application, &other));
    uint32_t groups = 0;
    OK(ringleader_agent_groups(agent, &groups));
    CHECK(groups == 1);
    ringleader_options third = options_of(3, 1 << 3);
    ringleader_node *none_more = NULL;
    IS(ringleader_open(agent, &third, &application, &none_more), RINGLEADER_ROOM);
    OK(ringleader_close(other));
    OK(ringleader_agent_close(agent));
    OK(ringleader_close(node));
    UNTIL(__atomic_load_n(&counting.ended, __ATOMIC_ACQUIRE) == 3);
    CHECK(files_in(directory) == 0);
    return 0;
}
