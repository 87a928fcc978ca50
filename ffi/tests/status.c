/* Every status has its own number, its name, and a text. */
#include "check.h"

/* All enumerators of the header, cut out of it when this is built. */
static const struct {
    const char *name;
    int32_t status;
} ALL[] = {
#define STATUS(name) {#name, name},
#include "statuses.inc"
};

int main(void) {
    size_t count = sizeof ALL / sizeof *ALL;
    CHECK(count > 50);
    for (size_t i = 0; i < count; i++) {
        CHECK(strcmp(ringleader_status_name(ALL[i].status), ALL[i].name) == 0);
        const char *text = ringleader_status_text(ALL[i].status);
        CHECK(strlen(text) > 3 && strchr(text, '\n') == NULL);
        for (size_t j = 0; j < i; j++) {
            CHECK(ALL[i].status != ALL[j].status);
            CHECK(strcmp(text, ringleader_status_text(ALL[j].status)) != 0);
        }
    }
    int32_t odd[] = {-1, 7, 1000, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        CHECK(strncmp(ringleader_status_name(odd[i]), "RINGLEADER_", 11) != 0);
        CHECK(strlen(ringleader_status_text(odd[i])) > 3);
    }
    CHECK(RINGLEADER_OK == 0);

    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", RINGLEADER_VERSION_MAJOR, RINGLEADER_VERSION_MINOR,
             RINGLEADER_VERSION_PATCH);
    CHECK(strcmp(ringleader_version_text(), version) == 0);
    CHECK(ringleader_version() ==
          (RINGLEADER_VERSION_MAJOR << 16 | RINGLEADER_VERSION_MINOR << 8 | RINGLEADER_VERSION_PATCH));

    NEW(ringleader_timing, timing);
    for (uint32_t profile = 0; profile < 3; profile++) {
        OK(ringleader_timing_profile(profile, &timing));
        CHECK(timing.size == sizeof timing && timing.beat_ns > 0 && timing.lease_ns < timing.suspect_after_ns);
    }
    ringleader_timing kept = timing;
    IS(ringleader_timing_profile(3, &timing), RINGLEADER_OPTION);
    CHECK(memcmp(&kept, &timing, sizeof timing) == 0);
    return 0;
}
