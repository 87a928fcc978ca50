/* The log goes to a callback, from the level on that was asked for, until it is told not to. */
#include "check.h"

static uint64_t lines[6], formed;

static void hear(void *context, uint32_t level, const char *target, const char *text) {
    CHECK(context == lines && level >= RINGLEADER_LOG_ERROR && level <= RINGLEADER_LOG_TRACE);
    CHECK(strncmp(target, "ringleader", 10) == 0 && strchr(text, '\n') == NULL);
    __atomic_add_fetch(&lines[level], 1, __ATOMIC_RELAXED);
    if (strstr(text, "node{id=1}: formed") == text) {
        __atomic_add_fetch(&formed, 1, __ATOMIC_RELAXED);
    }
}

static void live(void) {
    struct counting counting = {0};
    ringleader_node *node = open_counting(NULL, 1, 1 << 1, &counting);
    OK(ringleader_form(node, PATIENCE));
    UNTIL(look(node).role == RINGLEADER_ROLE_LEADER);
    OK(ringleader_close(node));
}

int main(void) {
    make_directory();
    OK(ringleader_set_log(RINGLEADER_LOG_NOTHING, NULL, NULL));
    OK(ringleader_set_log(RINGLEADER_LOG_INFO, hear, lines));
    live();
    CHECK(formed == 1 && lines[RINGLEADER_LOG_INFO] >= 2 && lines[RINGLEADER_LOG_DEBUG] == 0);
    OK(ringleader_set_log(RINGLEADER_LOG_TRACE, hear, lines));
    live();
    CHECK(formed == 2 && lines[RINGLEADER_LOG_DEBUG] >= 1 && lines[RINGLEADER_LOG_TRACE] >= 1);
    IS(ringleader_set_log(6, hear, lines), RINGLEADER_OPTION);
    OK(ringleader_set_log(RINGLEADER_LOG_NOTHING, hear, lines));
    uint64_t before[6];
    memcpy(before, lines, sizeof lines);
    live();
    CHECK(memcmp(before, lines, sizeof lines) == 0);
    OK(ringleader_set_log(RINGLEADER_LOG_INFO, NULL, NULL));
    live();
    CHECK(memcmp(before, lines, sizeof lines) == 0);
    return 0;
}
