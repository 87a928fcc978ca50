/* Opens and closes over and over, and looks whether anything is left: memory, descriptors, threads, mappings, files. */
#include "check.h"

#include <malloc.h>

struct left {
    size_t memory, descriptors, threads, mappings, files;
};

static size_t lines_of(const char *path) {
    size_t lines = 0;
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    for (int c; (c = getc(file)) != EOF;) {
        lines += c == '\n';
    }
    fclose(file);
    return lines;
}

static struct left measure(void) {
    struct left left;
    left.descriptors = files_in("/proc/self/fd");
    left.mappings = lines_of("/proc/self/maps");
    left.files = files_in(directory);
    left.memory = mallinfo2().uordblks + mallinfo2().hblkhd;
    left.threads = files_in("/proc/self/task");
    return left;
}

/* One life of everything that there is; the kinds take turns. */
static void live(uint64_t round, struct counting *counting) {
    ringleader_agent *agent = NULL;
    if (round % 3 == 1) {
        OK(ringleader_agent_polled(NULL, &agent));
    } else if (round % 3 == 2) {
        OK(ringleader_agent_start(NULL, &agent));
    }
    ringleader_node *node = open_counting(agent, 1, 1 << 1, counting);
    ringleader_lane *lane;
    ringleader_reader *reader;
    OK(ringleader_lane_open(node, NULL, NULL, &lane));
    OK(ringleader_reader_open(node, &reader));
    uint8_t *place;
    if (round % 16 == 0) {
        NEW(ringleader_outcome, outcome);
        OK(ringleader_lane_propose(lane, (const uint8_t *)"early", 5, NULL));
        OK(ringleader_lane_wait(lane, PATIENCE, &outcome));
        CHECK(outcome.status == RINGLEADER_NOT_LEADER);
        OK(ringleader_form(node, PATIENCE));
    }
    /* Sometimes something is still open when it is closed. */
    if (round % 2 == 0) {
        OK(ringleader_lane_draft(lane, round % 4 == 0 ? 60000 : 9, &place));
        memset(place, 1, 9);
    }
    ringleader_options wrong = options_of(2, 1 << 3);
    ringleader_application application = counting_application(counting);
    ringleader_node *none = NULL;
    IS(ringleader_open(agent, &wrong, &application, &none), RINGLEADER_OPTION);
    if (round % 5 == 0) {
        OK(ringleader_lane_close(lane));
        OK(ringleader_close(node));
        OK(ringleader_reader_close(reader));
    } else {
        OK(ringleader_close(node));
        OK(ringleader_reader_close(reader));
        OK(ringleader_lane_close(lane));
    }
    if (agent != NULL) {
        OK(ringleader_agent_close(agent));
    }
}

int main(int argc, char **argv) {
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 0) : 10000;
    static struct counting counting;
    make_directory();
    /* What is made once and kept, and what an allocator keeps of the first lives. */
    uint64_t warm = rounds / 10 + 48;
    for (uint64_t round = 0; round < warm; round++) {
        live(round, &counting);
    }
    UNTIL(files_in("/proc/self/task") == 1);
    struct left before = measure();
    for (uint64_t round = 0; round < rounds; round++) {
        live(round, &counting);
    }
    /* The last threads are on their way out. */
    UNTIL(files_in("/proc/self/task") == 1);
    struct left after = measure();
    printf("%llu opened and closed; before and after: %zu and %zu bytes, %zu and %zu descriptors, %zu and %zu mappings\n",
           (unsigned long long)rounds, before.memory, after.memory, before.descriptors, after.descriptors,
           before.mappings, after.mappings);
    CHECK(after.descriptors == before.descriptors && after.files == 0 && after.threads == before.threads);
#if !defined(__SANITIZE_ADDRESS__)
    /* A page a life would be hundreds of mappings and thousands of kilobytes. (A sanitizer keeps what was freed, and looks itself.) */
    CHECK(after.mappings <= before.mappings + 16);
    CHECK(after.memory <= before.memory + 256 * 1024);
#endif
    UNTIL(__atomic_load_n(&counting.ended, __ATOMIC_ACQUIRE) == warm + rounds);
    return 0;
}
