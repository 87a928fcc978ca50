/* Cores over a fabric in C, and what their functions refuse. */
#include "check.h"

#include "fabric.h"

static void refusals(void) {
    NEW(ringleader_core_options, options);
    NEW(ringleader_core_needs, needs);
    NEW(ringleader_areas, areas);
    options.node = 1;
    options.peers = 1 << 2;
    options.ring_len = RING;
    options.snapshot_len = 128 << 10;
    options.incarnation = options.boot = options.seed = 1;
    IS(ringleader_core_lengths(&options, &needs), RINGLEADER_SIZE);
    options.timing.size = sizeof options.timing;
    OK(ringleader_timing_profile(RINGLEADER_TIMING_HARDWARE, &options.timing));
    OK(ringleader_core_lengths(&options, &needs));
    CHECK(needs.control == CONTROL && needs.log == LOG && needs.staging == LOG);
    CHECK(needs.snapshot > options.snapshot_len && needs.storage <= sizeof machines[0].storage);
    ringleader_core_options wrong = options;
    wrong.node = 16;
    IS(ringleader_core_lengths(&wrong, &needs), RINGLEADER_NO_SUCH_NODE);
    wrong = options;
    wrong.peers |= 1 << 1;
    IS(ringleader_core_lengths(&wrong, &needs), RINGLEADER_NO_SUCH_NODE);
    wrong = options;
    wrong.boot = 0;
    IS(ringleader_core_lengths(&wrong, &needs), RINGLEADER_OPTION);
    wrong = options;
    wrong.ring_len = 1000;
    IS(ringleader_core_lengths(&wrong, &needs), RINGLEADER_OPTION);
    wrong = options;
    wrong.timing.beat_ns = 0;
    IS(ringleader_core_lengths(&wrong, &needs), RINGLEADER_OPTION);

    /* From the heap, where a sanitizer sees what is beyond. */
    void *storage = aligned_alloc(64, (needs.storage + 63) / 64 * 64);
    uint64_t lengths[4] = {needs.control, needs.log, needs.staging, needs.snapshot};
    ringleader_area *all[4] = {&areas.control, &areas.log, &areas.staging, &areas.snapshot};
    for (int i = 0; i < 4; i++) {
        all[i]->bytes = aligned_alloc(64, lengths[i]);
        all[i]->len = lengths[i];
        CHECK(all[i]->bytes != NULL);
        memset(all[i]->bytes, 0, lengths[i]);
    }
    ringleader_core *core = NULL;
    IS(ringleader_core_init(NULL, needs.storage, &options, &areas, 1, &core), RINGLEADER_NULL);
    IS(ringleader_core_init((char *)storage + 1, needs.storage, &options, &areas, 1, &core), RINGLEADER_MISALIGNED);
    IS(ringleader_core_init(storage, needs.storage - 1, &options, &areas, 1, &core), RINGLEADER_SIZE);
    areas.log.len -= 64;
    IS(ringleader_core_init(storage, needs.storage, &options, &areas, 1, &core), RINGLEADER_SIZE);
    areas.log.len += 64;
    areas.log.bytes = (char *)areas.log.bytes + 8;
    IS(ringleader_core_init(storage, needs.storage, &options, &areas, 1, &core), RINGLEADER_MISALIGNED);
    areas.log.bytes = (char *)areas.log.bytes - 8;
    void *log = areas.log.bytes;
    areas.log.bytes = NULL;
    IS(ringleader_core_init(storage, needs.storage, &options, &areas, 1, &core), RINGLEADER_NULL);
    areas.log.bytes = log;
    CHECK(core == NULL);
    OK(ringleader_core_init(storage, needs.storage, &options, &areas, 1, &core));

    uint64_t at = 0, term = 5, index = 6;
    OK(ringleader_core_poll_timeout(core, &at));
    CHECK(at > 1);
    IS(ringleader_core_propose(core, 2, (const uint8_t *)"x", 1, &term, &index), RINGLEADER_NOT_LEADER);
    CHECK(term == 5 && index == 6);
    IS(ringleader_core_form(core, 2, 0, 0), RINGLEADER_OPTION);
    IS(ringleader_core_connect_to(core, 16), RINGLEADER_NO_SUCH_NODE);
    OK(ringleader_core_connect_to(core, 15));
    IS(ringleader_core_apply(core, NULL, NULL), RINGLEADER_NULL);
    IS(ringleader_core_apply(core, apply_entry, NULL), RINGLEADER_NOTHING);
    OK(ringleader_core_saved(core, 3, 1, NULL, 0));
    OK(ringleader_core_loaded(core, 3, 1, 0));
    const uint8_t *state = NULL;
    OK(ringleader_core_loading(core, options.snapshot_len, &state));
    IS(ringleader_core_loading(core, options.snapshot_len + 1, &state), RINGLEADER_SIZE);
    IS(ringleader_core_loading(core, UINT64_MAX, &state), RINGLEADER_SIZE);
    NEW(ringleader_completion, done);
    done.id = UINT64_MAX;
    done.status = 5;
    IS(ringleader_core_complete(core, 3, &done), RINGLEADER_OPTION);
    done.id = 0;
    done.status = 0;
    IS(ringleader_core_complete(core, 3, &done), RINGLEADER_OPTION);
    /* Completions of what was never posted, and bytes that nobody meant, harm nobody. */
    uint64_t word = 88172645463325252;
    for (int i = 0; i < 20000; i++) {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        done.id = word;
        done.status = (uint32_t)(word >> 20) % 5;
        done.value = word * 3;
        ringleader_status status = ringleader_core_complete(core, 4 + (uint64_t)i * 1000, &done);
        CHECK(status == RINGLEADER_OK || status == RINGLEADER_OPTION);
        int area = (int)(word >> 40) & 1;
        ((uint64_t *)all[area]->bytes)[(word >> 8) % (all[area]->len / 8)] = word;
        OK(ringleader_core_tick(core, 4 + (uint64_t)i * 1000));
        NEW(ringleader_event, event);
        NEW(ringleader_verb, verb);
        while (ringleader_core_poll_event(core, 4, &event) == RINGLEADER_OK) {
        }
        for (int n = 0; n < 100 && ringleader_core_poll_verb(core, &verb) == RINGLEADER_OK; n++) {
            CHECK(verb.kind >= RINGLEADER_VERB_CONNECT && verb.kind <= RINGLEADER_VERB_FENCE && verb.peer < 16);
        }
    }
    OK(ringleader_core_end(core));
    IS(ringleader_core_tick(core, 5), RINGLEADER_CLOSED_HANDLE);
    IS(ringleader_core_end(core), RINGLEADER_CLOSED_HANDLE);
    memset(storage, 0, needs.storage);
    IS(ringleader_core_tick(core, 5), RINGLEADER_FOREIGN);
    IS(ringleader_core_tick((ringleader_core *)(void *)((char *)storage + 8 + 1), 5), RINGLEADER_MISALIGNED);
    IS(ringleader_core_tick(NULL, 5), RINGLEADER_NULL);
    for (int i = 0; i < 4; i++) {
        free(all[i]->bytes);
    }
    free(storage);
}

int main(void) {
    refusals();
    int line = story();
    if (line != 0) {
        fprintf(stderr, "fabric.h:%d\n", line);
        return 1;
    }
    printf("%llu entries applied by an acceptor alone\n", (unsigned long long)machines[3].applied);
    for (uint32_t node = 1; node < NODES; node++) {
        OK(ringleader_core_end(machines[node].core));
    }
    return 0;
}
