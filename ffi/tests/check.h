/* What the C tests share: checks that say where, a directory that goes again, nodes that are opened in one line. */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ringleader.h"

#define SECOND UINT64_C(1000000000)
/* No test waits for longer, however slow the machine is. */
#define PATIENCE (120 * SECOND)

#define CHECK(condition)                                                                               \
    do {                                                                                               \
        if (!(condition)) {                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                            \
            abort();                                                                                   \
        }                                                                                              \
    } while (0)

/* The status of a call. */
#define IS(call, wanted) check_status(__FILE__, __LINE__, #call, (int32_t)(call), #wanted, (int32_t)(wanted))

static inline void check_status(const char *file, int line, const char *call, int32_t status, const char *name,
                                int32_t wanted) {
    if (status != wanted) {
        fprintf(stderr, "%s:%d: %s: %s, not %s: %s\n", file, line, call, ringleader_status_name(status), name,
                ringleader_error_text());
        abort();
    }
}

#define OK(call) IS(call, RINGLEADER_OK)

/* A struct with its size. */
#define NEW(type, name)                                                                                \
    type name;                                                                                         \
    memset(&name, 0, sizeof name);                                                                     \
    name.size = (uint32_t)sizeof name

static inline uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static inline void nap(void) {
    struct timespec time = {0, 1000000};
    nanosleep(&time, NULL);
}

/* Until something is so. */
#define UNTIL(condition)                                                                               \
    do {                                                                                               \
        uint64_t deadline_ = now_ns() + PATIENCE;                                                      \
        while (!(condition)) {                                                                         \
            CHECK(now_ns() < deadline_);                                                               \
            nap();                                                                                     \
        }                                                                                              \
    } while (0)

/* Whether groups have one node: several need pidfd_open, which valgrind may not know. */
static inline bool alone(void) {
    return getenv("TEST_ALONE") != NULL;
}

static char directory[64];

static inline size_t files_in(const char *path) {
    size_t count = 0;
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    closedir(dir);
    return count;
}

static inline void remove_directory(void) {
    DIR *dir = opendir(directory);
    if (dir != NULL) {
        for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
            char path[400];
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
            unlink(path);
        }
        closedir(dir);
        rmdir(directory);
    }
}

/* A directory for this test alone. */
static inline void make_directory(void) {
    snprintf(directory, sizeof directory, "/dev/shm/ringleader-c-XXXXXX");
    CHECK(mkdtemp(directory) != NULL);
    atexit(remove_directory);
}

/* The durations of nodes on one machine, times something. */
static inline ringleader_timing local_timing(uint64_t times) {
    NEW(ringleader_timing, local);
    OK(ringleader_timing_profile(RINGLEADER_TIMING_LOCAL, &local));
    uint64_t *durations[] = {&local.beat_ns,        &local.suspect_after_ns,    &local.probe_deadline_ns,
                             &local.lease_ns,       &local.grant_grace_ns,      &local.stagger_ns,
                             &local.jitter_ns,      &local.repeat_ns,           &local.campaign_timeout_ns,
                             &local.quorum_lost_ns, &local.alive_within_ns,     &local.fence_limit_ns,
                             &local.catchup_limit_ns};
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
        *durations[i] *= times;
    }
    return local;
}

/* By these nobody is given up whose machine stood still for two seconds, or for as many times longer as TEST_TIMING says. */
static inline const ringleader_timing *patient_timing(void) {
    static ringleader_timing timing;
    if (timing.size == 0) {
        const char *times = getenv("TEST_TIMING");
        timing = local_timing(times == NULL ? 10 : (uint64_t)atoi(times));
    }
    return &timing;
}

/* Options of a node of a small group, with the durations that the machine asks for: under valgrind all takes longer. */
static inline ringleader_options options_of(uint32_t node, uint32_t members) {
    NEW(ringleader_options, options);
    options.node = node;
    options.members = members;
    options.directory = directory;
    options.ring_len = 512 << 10;
    options.timing = patient_timing();
    return options;
}

/* An application that counts. */
struct counting {
    uint64_t entries, bytes, sum;
    uint32_t ended;
};

static inline int count_apply(void *context, const ringleader_entry *entry) {
    struct counting *counting = (struct counting *)context;
    for (size_t i = 0; i < entry->len; i++) {
        counting->sum = counting->sum * 31 + entry->payload[i];
    }
    __atomic_add_fetch(&counting->bytes, entry->len, __ATOMIC_RELAXED);
    __atomic_add_fetch(&counting->entries, 1, __ATOMIC_RELEASE);
    return 0;
}

static inline void count_ended(void *context) {
    __atomic_add_fetch(&((struct counting *)context)->ended, 1, __ATOMIC_RELEASE);
}

static inline ringleader_application counting_application(struct counting *counting) {
    NEW(ringleader_application, application);
    application.context = counting;
    application.apply = count_apply;
    application.ended = count_ended;
    return application;
}

static inline uint64_t counted(struct counting *counting) {
    return __atomic_load_n(&counting->entries, __ATOMIC_ACQUIRE);
}

static inline ringleader_node *open_counting(ringleader_agent *agent, uint32_t node, uint32_t members,
                                             struct counting *counting) {
    ringleader_options options = options_of(node, members);
    ringleader_application application = counting_application(counting);
    ringleader_node *opened = NULL;
    OK(ringleader_open(agent, &options, &application, &opened));
    return opened;
}

static inline ringleader_node_status look(ringleader_node *node) {
    NEW(ringleader_node_status, status);
    OK(ringleader_look(node, &status));
    return status;
}

/* A node that leads, of those that are there. */
static inline ringleader_node *leader_of(ringleader_node **nodes, int count) {
    for (int i = 0; i < count; i++) {
        if (look(nodes[i]).role == RINGLEADER_ROLE_LEADER) {
            return nodes[i];
        }
    }
    return NULL;
}

#endif
