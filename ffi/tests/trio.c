/* Three processes of an example, and their client: asks who leads, kills that one in the middle, and wants one state in the end.
 *
 *     trio [-k LINE] [-s STATE] PROGRAM SCRIPT
 *
 * Each line of the script is a request, `CLIENT NUMBER ...`, with # for the client's next number. `=> TEXT` at its end is the answer that is
 * wanted, `=> until TEXT` asks under new numbers until that comes. `! kill` kills the leader, and so does `-k` before that line. `-s`: the
 * state that is wanted in the end. An answer `retry` is asked again, under the same number, of whoever may lead. */
#include "check.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static struct {
    pid_t pid;
    int to, from;
    char lines[8192];
    size_t len;
} processes[3];

static int leader, kills;

static void start(int at, const char *program) {
    int to[2], from[2];
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    processes[at].pid = fork();
    CHECK(processes[at].pid >= 0);
    if (processes[at].pid == 0) {
        char node[4];
        snprintf(node, sizeof node, "%d", at + 1);
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[0]);
        close(to[1]);
        close(from[0]);
        close(from[1]);
        for (int i = 0; i < at; i++) {
            close(processes[i].to);
            close(processes[i].from);
        }
        execl(program, program, directory, node, (char *)NULL);
        perror(program);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    processes[at].to = to[1];
    processes[at].from = from[0];
}

/* The next line of a process; NULL when it has gone. */
static const char *hear(int at) {
    static char line[8192];
    uint64_t deadline = now_ns() + PATIENCE;
    for (;;) {
        char *end = memchr(processes[at].lines, '\n', processes[at].len);
        if (end != NULL) {
            size_t len = (size_t)(end - processes[at].lines);
            memcpy(line, processes[at].lines, len);
            line[len] = 0;
            processes[at].len -= len + 1;
            memmove(processes[at].lines, end + 1, processes[at].len);
            return line;
        }
        struct pollfd fd = {.fd = processes[at].from, .events = POLLIN};
        CHECK(now_ns() < deadline);
        if (poll(&fd, 1, 1000) <= 0) {
            continue;
        }
        ssize_t more = read(processes[at].from, processes[at].lines + processes[at].len,
                            sizeof processes[at].lines - processes[at].len);
        if (more <= 0) {
            return NULL;
        }
        processes[at].len += (size_t)more;
    }
}

static void say(int at, const char *line) {
    size_t len = strlen(line);
    char text[512];
    CHECK(len + 2 < sizeof text);
    memcpy(text, line, len);
    text[len] = '\n';
    CHECK(write(processes[at].to, text, len + 1) == (ssize_t)len + 1);
}

static void turn_to(int at) {
    do {
        leader = at % 3;
        at++;
    } while (processes[leader].pid == 0);
}

/* The answer to a request, from whoever leads. */
static const char *ask(const char *request) {
    uint64_t deadline = now_ns() + PATIENCE;
    for (;;) {
        CHECK(now_ns() < deadline);
        say(leader, request);
        const char *answer = hear(leader);
        CHECK(answer != NULL && strncmp(answer, request, strlen(request)) == 0);
        answer += strlen(request) + 1;
        int next = 0;
        if (sscanf(answer, "retry %d", &next) != 1) {
            return answer;
        }
        nap();
        turn_to(next > 0 && processes[next - 1].pid != 0 && next - 1 != leader ? next - 1 : leader + 1);
    }
}

static void kill_leader(void) {
    printf("kills node %d, which leads\n", leader + 1);
    CHECK(kill(processes[leader].pid, SIGKILL) == 0);
    CHECK(waitpid(processes[leader].pid, NULL, 0) == processes[leader].pid);
    close(processes[leader].to);
    close(processes[leader].from);
    processes[leader].pid = 0;
    processes[leader].len = 0;
    kills++;
    turn_to(leader + 1);
}

static struct {
    char client[24];
    unsigned number;
} clients[16];

static unsigned next_number(const char *client) {
    for (size_t i = 0; i < sizeof clients / sizeof *clients; i++) {
        if (clients[i].client[0] == 0 || strcmp(clients[i].client, client) == 0) {
            snprintf(clients[i].client, sizeof clients[i].client, "%s", client);
            return ++clients[i].number;
        }
    }
    abort();
}

/* A request of a line of the script, with a number. */
static void number(const char *line, char *request, size_t room) {
    const char *sign = strchr(line, '#');
    char client[24] = "";
    if (sign != NULL && sscanf(line, "%23s", client) == 1) {
        snprintf(request, room, "%.*s%u%s", (int)(sign - line), line, next_number(client), sign + 1);
    } else {
        snprintf(request, room, "%s", line);
    }
}

int main(int argc, char **argv) {
    int kill_at = 0, option;
    const char *wanted_state = NULL;
    while ((option = getopt(argc, argv, "k:s:")) != -1) {
        if (option == 'k') {
            kill_at = atoi(optarg);
        } else if (option == 's') {
            wanted_state = optarg;
        } else {
            return 2;
        }
    }
    CHECK(argc == optind + 2);
    signal(SIGPIPE, SIG_IGN);
    make_directory();
    for (int i = 0; i < 3; i++) {
        start(i, argv[optind]);
    }
    for (int i = 0; i < 3; i++) {
        int pid = 0, node = 0;
        const char *line = hear(i);
        CHECK(line != NULL && sscanf(line, "process %d has node %d", &pid, &node) == 2);
        CHECK(pid == processes[i].pid && node == i + 1);
    }
    FILE *script = fopen(argv[optind + 1], "r");
    CHECK(script != NULL);
    char line[400], request[480];
    int lines = 0;
    while (fgets(line, sizeof line, script) != NULL) {
        line[strcspn(line, "\n")] = 0;
        if (++lines == kill_at || strcmp(line, "! kill") == 0) {
            kill_leader();
        }
        if (line[0] == '!') {
            continue;
        }
        char *wanted = strstr(line, " => ");
        if (wanted != NULL) {
            *wanted = 0;
            wanted += 4;
        }
        bool until = wanted != NULL && strncmp(wanted, "until ", 6) == 0;
        uint64_t deadline = now_ns() + PATIENCE;
        const char *answer;
        for (;;) {
            number(line, request, sizeof request);
            answer = ask(request);
            if (!until || strcmp(answer, wanted + 6) == 0) {
                break;
            }
            CHECK(now_ns() < deadline);
            nap();
        }
        if (!until && (wanted != NULL ? strcmp(answer, wanted) != 0 : strncmp(answer, "ok ", 3) != 0)) {
            fprintf(stderr, "line %d: %s: %s\n", lines, request, answer);
            return 1;
        }
    }
    fclose(script);
    CHECK(kills == 1);

    char state[8192] = "";
    int same = 0;
    for (int i = 0; i < 3; i++) {
        if (processes[i].pid == 0) {
            continue;
        }
        uint64_t deadline = now_ns() + PATIENCE;
        const char *answer;
        do {
            CHECK(now_ns() < deadline);
            say(i, "?");
            answer = hear(i);
            CHECK(answer != NULL);
        } while (strcmp(answer, "? retry") == 0);
        printf("node %d %s\n", i + 1, answer);
        if (same > 0 && strcmp(state, answer) != 0) {
            fprintf(stderr, "they differ: %s\n", state);
            return 1;
        }
        snprintf(state, sizeof state, "%s", answer);
        same++;
    }
    CHECK(same == 2);
    if (wanted_state != NULL && strcmp(state, wanted_state) != 0) {
        fprintf(stderr, "wanted: %s\n", wanted_state);
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        if (processes[i].pid != 0) {
            int status = 0;
            say(i, "q");
            CHECK(waitpid(processes[i].pid, &status, 0) == processes[i].pid);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
    }
    printf("%d requests\n", lines);
    return 0;
}
