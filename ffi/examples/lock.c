/* A lock service: three processes, locks with fencing tokens, sessions that end when their clients fall silent.
 *
 *     lock DIRECTORY NODE
 *
 * reads lines and answers each with `LINE ok RESULT`, `LINE retry LEADER` (not done, or not known to be: ask again under the same number), or,
 * when it was refused, `LINE no REASON`:
 *
 *     CLIENT NUMBER open MILLISECONDS     opens the client's session, which ends after so long without a line of it
 *     CLIENT NUMBER keep                  keeps it
 *     CLIENT NUMBER acquire NAME          the lock; the result is its fencing token, larger than all before
 *     CLIENT NUMBER release NAME TOKEN    gives it back
 *
 * `?` shows all locks, `q` ends it. Time passes through the log: the node that leads proposes what its clock says, ten times a second, and
 * sessions end by those entries alone. So all nodes agree who holds what, whatever their own clocks say; a leader whose clock runs
 * ahead ends sessions early, and the fencing token is what a resource goes by. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ringleader.h>

#define SECOND UINT64_C(1000000000)
#define SESSIONS 64
#define LOCKS 64
#define NAME 24

/* The state: a function of the entries alone; no other line of this program writes it. */
static struct {
    struct session {
        char name[NAME];
        int open;
        uint64_t ttl_ms, heard_ms;
        /* Its last wish, and what came of it: asked again, it is answered again. */
        uint64_t number;
        char result[64];
    } sessions[SESSIONS];
    struct held {
        char name[NAME], owner[NAME];
        uint64_t token;
    } locks[LOCKS];
    uint64_t now_ms, last_token;
} state;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void give_back(const char *owner) {
    for (struct held *held = state.locks; held < state.locks + LOCKS; held++) {
        if (held->name[0] != 0 && strcmp(held->owner, owner) == 0) {
            held->name[0] = 0;
        }
    }
}

static void pass_time(uint64_t now_ms) {
    if (now_ms <= state.now_ms) {
        return;
    }
    uint64_t before = state.now_ms;
    state.now_ms = now_ms;
    for (struct session *session = state.sessions; session < state.sessions + SESSIONS; session++) {
        if (before == 0) {
            session->heard_ms = now_ms; /* Opened before the first time was told. */
        }
        if (session->open && state.now_ms - session->heard_ms > session->ttl_ms) {
            session->open = 0;
            give_back(session->name);
        }
    }
}

/* A client's session, or where there is room for it. */
static struct session *session_of(const char *name) {
    for (struct session *session = state.sessions; session < state.sessions + SESSIONS; session++) {
        if (session->name[0] == 0 || strcmp(session->name, name) == 0) {
            return session;
        }
    }
    return NULL;
}

static void answer(struct session *session, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(session->result, sizeof session->result, format, values);
    va_end(values);
}

static struct held *lock_of(const char *name, int free_one) {
    for (struct held *held = state.locks; held < state.locks + LOCKS; held++) {
        if (free_one ? held->name[0] == 0 : strcmp(held->name, name) == 0) {
            return held;
        }
    }
    return NULL;
}

static void wish(struct session *session, const char *what, const char *name, uint64_t number) {
    struct held *held;
    if (strcmp(what, "open") == 0) {
        give_back(session->name);
        session->open = 1;
        session->ttl_ms = (uint64_t)strtoull(name, NULL, 10);
        answer(session, "ok open");
    } else if (!session->open) {
        answer(session, "no session");
        return;
    } else if (strcmp(what, "keep") == 0) {
        answer(session, "ok kept");
    } else if (strcmp(what, "acquire") == 0 && name[0] != 0) {
        held = lock_of(name, 0);
        if (held != NULL && strcmp(held->owner, session->name) != 0) {
            answer(session, "no held-by-%s", held->owner);
        } else if (held == NULL && (held = lock_of(name, 1)) == NULL) {
            answer(session, "no room");
        } else {
            if (held->name[0] == 0) {
                strcpy(held->name, name);
                strcpy(held->owner, session->name);
                held->token = ++state.last_token;
            }
            answer(session, "ok %" PRIu64, held->token);
        }
    } else if (strcmp(what, "release") == 0 && name[0] != 0) {
        held = lock_of(name, 0);
        if (held == NULL || strcmp(held->owner, session->name) != 0 || held->token != number) {
            answer(session, "no not-yours");
        } else {
            held->name[0] = 0;
            answer(session, "ok released");
        }
    } else {
        answer(session, "no such-wish");
    }
    session->heard_ms = state.now_ms;
}

static int apply(void *context, const ringleader_entry *entry) {
    char text[160] = "", client[NAME], what[NAME], name[NAME] = "";
    uint64_t number, token = 0;
    (void)context;
    memcpy(text, entry->payload, entry->len < sizeof text ? entry->len : sizeof text - 1);
    pthread_mutex_lock(&mutex);
    if (sscanf(text, "@ %" SCNu64, &number) == 1) {
        pass_time(number);
    } else if (sscanf(text, "%23s %" SCNu64 " %23s %23s %" SCNu64, client, &number, what, name, &token) >= 3) {
        struct session *session = session_of(client);
        if (session != NULL && number > session->number) {
            strcpy(session->name, client);
            session->number = number;
            wish(session, what, name, token);
        }
    }
    pthread_mutex_unlock(&mutex);
    return 0;
}

static void check(ringleader_status status) {
    if (status != RINGLEADER_OK) {
        fprintf(stderr, "%s: %s\n", ringleader_status_text(status), ringleader_error_text());
        exit(1);
    }
}

/* Everything that this node's state must have is there: what was acknowledged, and what was committed here. */
static int may_look(ringleader_reader *reader) {
    ringleader_read_outcome read = {.size = sizeof read};
    check(ringleader_reader_ask(reader, RINGLEADER_READ_FOLLOWER, NULL));
    check(ringleader_reader_wait(reader, 60 * SECOND, &read));
    return read.status == RINGLEADER_OK;
}

static void tell_locks(void) {
    pthread_mutex_lock(&mutex);
    int sessions = 0;
    for (struct session *session = state.sessions; session < state.sessions + SESSIONS; session++) {
        sessions += session->name[0] != 0;
    }
    printf("= last token %" PRIu64 ", %d clients", state.last_token, sessions);
    for (struct held *held = state.locks; held < state.locks + LOCKS; held++) {
        if (held->name[0] != 0) {
            printf(", %s held by %s with %" PRIu64, held->name, held->owner, held->token);
        }
    }
    printf("\n");
    pthread_mutex_unlock(&mutex);
}

static void serve(ringleader_lane *lane, ringleader_reader *reader, const char *line) {
    ringleader_outcome outcome = {.size = sizeof outcome};
    char client[NAME];
    uint64_t number;
    if (line[0] == '?') {
        if (may_look(reader)) {
            tell_locks();
        } else {
            printf("? retry\n");
        }
        return;
    }
    if (sscanf(line, "%23s %" SCNu64 " ", client, &number) != 2 || client[0] == '@') {
        printf("%s no such-line\n", line);
        return;
    }
    check(ringleader_lane_propose(lane, (const uint8_t *)line, strlen(line), NULL));
    /* Times that this node has proposed come first. */
    do {
        check(ringleader_lane_wait(lane, 60 * SECOND, &outcome));
        uint64_t left;
        check(ringleader_lane_outstanding(lane, &left));
        if (left == 0) {
            break;
        }
    } while (1);
    if (outcome.status != RINGLEADER_OK || !may_look(reader)) {
        printf("%s retry %" PRIu32 "\n", line, outcome.leader);
        return;
    }
    pthread_mutex_lock(&mutex);
    struct session *session = session_of(client);
    if (session == NULL || session->name[0] == 0 || session->number < number) {
        printf("%s no such-line\n", line); /* Or no room for one more client. */
    } else if (session->number > number) {
        printf("%s no later-wish-came-first\n", line);
    } else {
        printf("%s %s\n", line, session->result);
    }
    pthread_mutex_unlock(&mutex);
}

/* What the leader's clock says, through the log. */
static void tell_time(ringleader_lane *lane) {
    ringleader_outcome outcome = {.size = sizeof outcome};
    struct timespec now;
    char text[40];
    while (ringleader_lane_poll(lane, &outcome) == RINGLEADER_OK) {
    }
    clock_gettime(CLOCK_REALTIME, &now);
    int len = snprintf(text, sizeof text, "@ %" PRIu64, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
    (void)ringleader_lane_propose(lane, (const uint8_t *)text, (size_t)len, NULL);
}

int main(int argc, char **argv) {
    ringleader_options options = {.size = sizeof options, .members = 1 << 1 | 1 << 2 | 1 << 3, .ring_len = 1 << 20};
    ringleader_application application = {.size = sizeof application, .apply = apply};
    ringleader_node_status status = {.size = sizeof status};
    ringleader_node *node;
    ringleader_lane *lane;
    ringleader_reader *reader;
    char lines[4096];
    size_t len = 0;
    if (argc != 3) {
        fprintf(stderr, "usage: lock DIRECTORY NODE\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    options.directory = argv[1];
    options.node = (uint32_t)atoi(argv[2]);
    check(ringleader_open(NULL, &options, &application, &node));
    if (options.node == 1) {
        check(ringleader_form(node, 60 * SECOND));
    }
    check(ringleader_lane_open(node, NULL, NULL, &lane));
    check(ringleader_reader_open(node, &reader));
    printf("process %d has node %" PRIu32 "\n", (int)getpid(), options.node);
    for (int over = 0; !over;) {
        struct pollfd input = {.fd = 0, .events = POLLIN};
        if (poll(&input, 1, 100) > 0) {
            ssize_t more = read(0, lines + len, sizeof lines - len);
            if (more <= 0) {
                break;
            }
            len += (size_t)more;
            char *end;
            while (!over && (end = memchr(lines, '\n', len)) != NULL) {
                *end = 0;
                over = lines[0] == 'q';
                if (!over) {
                    serve(lane, reader, lines);
                }
                len -= (size_t)(end + 1 - lines);
                memmove(lines, end + 1, len);
            }
            if (len == sizeof lines) {
                break;
            }
        }
        check(ringleader_look(node, &status));
        if (status.role == RINGLEADER_ROLE_LEADER) {
            tell_time(lane);
        }
    }
    check(ringleader_reader_close(reader));
    check(ringleader_lane_close(lane));
    check(ringleader_close(node));
    return 0;
}
