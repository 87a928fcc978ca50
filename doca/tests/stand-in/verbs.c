/*
 * A device that is named after one of libibverbs has a protection domain of that one, and what is imported on it a key that its NIC
 * takes: queue pairs of anybody who uses libibverbs then reach the host's memory by the host's addresses, as over DOCA's bridge. It is
 * loaded when it is asked for, so that the stand-in needs none.
 */
#include "inside.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* As libibverbs has them since its version 1; the rest of a registration is its own. */
struct ibv_mr {
	void *context;
	void *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};
enum { LOCAL_WRITE = 1, REMOTE_WRITE = 2, REMOTE_READ = 4 };

static struct {
	bool tried;
	bool found;
	void **(*get_device_list)(int *count);
	void (*free_device_list)(void **list);
	const char *(*get_device_name)(void *device);
	void *(*open_device)(void *device);
	int (*close_device)(void *context);
	struct ibv_pd *(*alloc_pd)(void *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr_iova)(struct ibv_pd *pd, void *at, size_t len, uint64_t address, int access);
	int (*dereg_mr)(struct ibv_mr *mr);
} verbs;

static bool load(void)
{
	if (verbs.tried)
		return verbs.found;
	verbs.tried = true;
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);
	if (!library)
		return false;
	*(void **)&verbs.get_device_list = dlsym(library, "ibv_get_device_list");
	*(void **)&verbs.free_device_list = dlsym(library, "ibv_free_device_list");
	*(void **)&verbs.get_device_name = dlsym(library, "ibv_get_device_name");
	*(void **)&verbs.open_device = dlsym(library, "ibv_open_device");
	*(void **)&verbs.close_device = dlsym(library, "ibv_close_device");
	*(void **)&verbs.alloc_pd = dlsym(library, "ibv_alloc_pd");
	*(void **)&verbs.dealloc_pd = dlsym(library, "ibv_dealloc_pd");
	*(void **)&verbs.reg_mr_iova = dlsym(library, "ibv_reg_mr_iova");
	*(void **)&verbs.dereg_mr = dlsym(library, "ibv_dereg_mr");
	verbs.found = verbs.get_device_list && verbs.free_device_list && verbs.get_device_name && verbs.open_device &&
		      verbs.close_device && verbs.alloc_pd && verbs.dealloc_pd && verbs.reg_mr_iova && verbs.dereg_mr;
	return verbs.found;
}

bool stand_in_verbs_open(struct doca_dev *dev)
{
	int count = 0;
	if (!load())
		return false;
	void **list = verbs.get_device_list(&count);
	for (int i = 0; list && i < count && !dev->context; i++)
		if (strcmp(verbs.get_device_name(list[i]), dev->info.name) == 0)
			dev->context = verbs.open_device(list[i]);
	if (list)
		verbs.free_device_list(list);
	dev->verbs_pd = dev->context ? verbs.alloc_pd(dev->context) : NULL;
	if (dev->context && !dev->verbs_pd)
		verbs.close_device(dev->context);
	return dev->verbs_pd != NULL;
}

bool stand_in_verbs_close(struct doca_dev *dev)
{
	if (!dev->verbs_pd)
		return true;
	/* It fails while anything is in the domain, which then stays. */
	if (verbs.dealloc_pd(dev->verbs_pd) != 0)
		return false;
	verbs.close_device(dev->context);
	return true;
}

struct ibv_mr *stand_in_verbs_register(struct doca_dev *dev, void *at, size_t len, uint64_t address, uint32_t permissions)
{
	int access = LOCAL_WRITE;
	if (permissions & DOCA_ACCESS_FLAG_RDMA_WRITE)
		access |= REMOTE_WRITE;
	if (permissions & DOCA_ACCESS_FLAG_RDMA_READ)
		access |= REMOTE_READ;
	return verbs.reg_mr_iova(dev->verbs_pd, at, len, address, access);
}

bool stand_in_verbs_deregister(struct ibv_mr *mr)
{
	return !mr || verbs.dereg_mr(mr) == 0;
}

uint32_t stand_in_verbs_key(const struct ibv_mr *mr)
{
	return mr->rkey;
}
