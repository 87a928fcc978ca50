/* A replicated counter: three processes, one number.
 *
 *     counter DIRECTORY NODE
 *
 * reads lines `CLIENT NUMBER AMOUNT`: the NUMBERth wish of that client, to add AMOUNT. The node that leads answers `... ok VALUE` once
 * that is so on a majority; others answer `... retry LEADER`, and so does who lost the lead on the way. A wish that is repeated under its
 * number counts once. `?` asks for the value, of any node; `q` ends it. There may be 64 clients, with names of up to 15 letters. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringleader.h>

#define SECOND UINT64_C(1000000000)

/* The state: a function of the entries alone. */
static int64_t value;
static struct { char name[16]; uint64_t last; } clients[64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Takes a committed entry, on every node, in the same order. */
static int apply(void *context, const ringleader_entry *entry) {
    char text[128] = "", name[16];
    uint64_t number;
    int64_t amount;
    (void)context;
    memcpy(text, entry->payload, entry->len < sizeof text ? entry->len : sizeof text - 1);
    if (sscanf(text, "%15s %" SCNu64 " %" SCNd64, name, &number, &amount) != 3) {
        return 0; /* On every node alike. */
    }
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof clients / sizeof *clients; i++) {
        if (clients[i].name[0] == 0 || strcmp(clients[i].name, name) == 0) {
            strcpy(clients[i].name, name);
            if (number > clients[i].last) {
                clients[i].last = number;
                value += amount;
            }
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

static void check(ringleader_status status) {
    if (status != RINGLEADER_OK) {
        fprintf(stderr, "%s: %s\n", ringleader_status_text(status), ringleader_error_text());
        exit(1);
    }
}

/* Looks when this node's state has everything that was acknowledged to anybody; 0: it could not be made certain. */
static int look(ringleader_reader *reader, int64_t *now) {
    ringleader_read_outcome read = {.size = sizeof read};
    check(ringleader_reader_ask(reader, RINGLEADER_READ_FOLLOWER, NULL));
    check(ringleader_reader_wait(reader, 60 * SECOND, &read));
    pthread_mutex_lock(&lock);
    *now = value;
    pthread_mutex_unlock(&lock);
    return read.status == RINGLEADER_OK;
}

int main(int argc, char **argv) {
    ringleader_options options = {.size = sizeof options, .members = 1 << 1 | 1 << 2 | 1 << 3, .ring_len = 1 << 20};
    ringleader_application application = {.size = sizeof application, .apply = apply};
    ringleader_outcome outcome = {.size = sizeof outcome};
    ringleader_node *node;
    ringleader_lane *lane;
    ringleader_reader *reader;
    char line[128];
    int64_t now;
    if (argc != 3) {
        fprintf(stderr, "usage: counter DIRECTORY NODE\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    options.directory = argv[1];
    options.node = (uint32_t)atoi(argv[2]);
    check(ringleader_open(NULL, &options, &application, &node));
    if (options.node == 1) {
        check(ringleader_form(node, 60 * SECOND)); /* Once, by one of them. */
    }
    check(ringleader_lane_open(node, NULL, NULL, &lane));
    check(ringleader_reader_open(node, &reader));
    printf("process %d has node %" PRIu32 "\n", (int)getpid(), options.node);
    while (fgets(line, sizeof line, stdin) != NULL && line[0] != 'q') {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == '?') {
            look(reader, &now) ? printf("= %" PRId64 "\n", now) : printf("? retry\n");
            continue;
        }
        check(ringleader_lane_propose(lane, (const uint8_t *)line, strlen(line), NULL));
        check(ringleader_lane_wait(lane, 60 * SECOND, &outcome));
        /* Committed, and applied here. */
        outcome.status == RINGLEADER_OK && look(reader, &now) ? printf("%s ok %" PRId64 "\n", line, now)
                                                              : printf("%s retry %" PRIu32 "\n", line, outcome.leader);
    }
    check(ringleader_reader_close(reader));
    check(ringleader_lane_close(lane));
    check(ringleader_close(node));
    return 0;
}
