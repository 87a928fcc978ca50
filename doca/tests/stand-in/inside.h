/* What the files of the stand-in share. */
#ifndef RINGLEADER_DOCA_STAND_IN_INSIDE_H
#define RINGLEADER_DOCA_STAND_IN_INSIDE_H

#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>

#include "ringleader_doca_stand_in.h"

/* Answers with the code that a test has asked this function for. */
#define MAY_FAIL() \
	do { \
		doca_error_t asked = stand_in_asked(__func__); \
		if (asked != DOCA_SUCCESS) \
			return asked; \
	} while (0)

doca_error_t stand_in_asked(const char *function);
/* Zeroed, and counted until stand_in_free(). */
void *stand_in_alloc(size_t size);
void stand_in_free(void *object, const char *by);
/* For what was freed, or was asked for while it was in use. */
void stand_in_note(const char *by);
/* A path in the directory that the processes share; false when there is none, or it is too long. */
bool stand_in_path(char path[PATH_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

struct doca_devinfo {
	char pci[13];
	char name[64];
	bool is_host;
	/* Whether its name is that of a device of libibverbs. */
	bool is_verbs;
};

struct doca_dev {
	struct doca_devinfo info;
	/* Maps, representors and channels that are on it. */
	int users;
	/* Its address is what the bridge gives out for a protection domain: nothing may be done with it but hand it on. */
	char pd[64];
	/* Of a device of libibverbs, where this one is named after it: its domain is given out then. */
	void *context;
	struct ibv_pd *verbs_pd;
};

struct ibv_mr;

/* False when libibverbs has no such device. */
bool stand_in_verbs_open(struct doca_dev *dev);
bool stand_in_verbs_close(struct doca_dev *dev);
/* Memory of this process under another one's addresses. */
struct ibv_mr *stand_in_verbs_register(struct doca_dev *dev, void *at, size_t len, uint64_t address, uint32_t permissions);
bool stand_in_verbs_deregister(struct ibv_mr *mr);
uint32_t stand_in_verbs_key(const struct ibv_mr *mr);

extern pthread_mutex_t stand_in_lock;

#endif
