/* Version, codes, and what tests ask for: faults, counts, an order of things freed. */
#include "inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAULTS 16

pthread_mutex_t stand_in_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
	char function[96];
	doca_error_t code;
} faults[FAULTS];
static char directory[512];
static int64_t live;
static char freed[8192];
static char version[64] = "2.10.0087";
static bool has_version = true;

int ringleader_doca_stand_in(void)
{
	return 1;
}

void ringleader_doca_stand_in_directory(const char *path)
{
	snprintf(directory, sizeof(directory), "%s", path);
}

int64_t ringleader_doca_stand_in_live(void)
{
	return __atomic_load_n(&live, __ATOMIC_SEQ_CST);
}

size_t ringleader_doca_stand_in_freed(char *text, size_t size)
{
	pthread_mutex_lock(&stand_in_lock);
	size_t len = strlen(freed);
	if (len > size)
		len = size;
	memcpy(text, freed, len);
	freed[0] = 0;
	pthread_mutex_unlock(&stand_in_lock);
	return len;
}

void ringleader_doca_stand_in_fail(const char *function, unsigned int code)
{
	pthread_mutex_lock(&stand_in_lock);
	if (!function)
		memset(faults, 0, sizeof(faults));
	for (int i = 0; function && i < FAULTS; i++) {
		if (!faults[i].function[0] || strcmp(faults[i].function, function) == 0) {
			snprintf(faults[i].function, sizeof(faults[i].function), "%s", function);
			faults[i].code = (doca_error_t)code;
			break;
		}
	}
	pthread_mutex_unlock(&stand_in_lock);
}

void ringleader_doca_stand_in_version(const char *said)
{
	has_version = said != NULL;
	if (said)
		snprintf(version, sizeof(version), "%s", said);
}

doca_error_t stand_in_asked(const char *function)
{
	doca_error_t code = DOCA_SUCCESS;
	pthread_mutex_lock(&stand_in_lock);
	for (int i = 0; i < FAULTS; i++)
		if (strcmp(faults[i].function, function) == 0)
			code = faults[i].code;
	pthread_mutex_unlock(&stand_in_lock);
	return code;
}

void *stand_in_alloc(size_t size)
{
	void *object = calloc(1, size);
	if (!object)
		abort();
	__atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
	return object;
}

void stand_in_free(void *object, const char *by)
{
	free(object);
	__atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST);
	stand_in_note(by);
}

void stand_in_note(const char *by)
{
	pthread_mutex_lock(&stand_in_lock);
	size_t len = strlen(freed);
	snprintf(freed + len, sizeof(freed) - len, "%s%s", len ? " " : "", by);
	pthread_mutex_unlock(&stand_in_lock);
}

bool stand_in_path(char path[PATH_MAX], const char *format, ...)
{
	const char *dir = directory[0] ? directory : getenv("DOCA_STAND_IN_DIR");
	if (!dir)
		return false;
	int len = snprintf(path, PATH_MAX, "%s/", dir);
	if (len < 0 || len >= PATH_MAX)
		return false;
	va_list arguments;
	va_start(arguments, format);
	int rest = vsnprintf(path + len, PATH_MAX - len, format, arguments);
	va_end(arguments);
	return rest >= 0 && rest < PATH_MAX - len;
}

const char *doca_version_runtime(void)
{
	return has_version ? version : NULL;
}

const char *doca_error_get_name(doca_error_t code)
{
	switch (code) {
	case DOCA_SUCCESS:
		return "DOCA_SUCCESS";
	case DOCA_ERROR_NOT_PERMITTED:
		return "DOCA_ERROR_NOT_PERMITTED";
	case DOCA_ERROR_INVALID_VALUE:
		return "DOCA_ERROR_INVALID_VALUE";
	case DOCA_ERROR_DRIVER:
		return "DOCA_ERROR_DRIVER";
	default:
		return NULL;
	}
}

const char *doca_error_get_descr(doca_error_t code)
{
	return doca_error_get_name(code) ? "as the stand-in says" : NULL;
}
