/*
 * Memory that is a mapped file, one made here or any that the process has open, exported by a descriptor that names it, and imported
 * where that descriptor is the one on record. A key is good as long as its map and the export are there; one of a device of libibverbs,
 * whose NIC asks nobody about exports, as long as its map.
 */
#include "inside.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MEMORIES 16
#define KEYS 64
#define MAGIC "RINGLEADER STAND-IN, NOT DOCA"

static struct {
	char *start;
	size_t len;
	unsigned int number;
} memories[MEMORIES];
static unsigned int memories_made;
static unsigned int exports_made;

/* What goes to the other side. */
struct descriptor {
	char magic[32];
	uint32_t process;
	uint32_t number;
	uint32_t memory;
	uint32_t permissions;
	uint64_t offset;
	uint64_t address;
	uint64_t len;
	uint8_t secret[32];
	/* The descriptor of its file in that process, and one more; 0 for memory that was made here. */
	uint32_t file;
	uint8_t rest[148];
};

struct doca_mmap {
	struct doca_dev *dev;
	void *address;
	size_t len;
	uint32_t permissions;
	bool started;
	bool exported;
	bool imported;
	struct descriptor descriptor;
	/* Of an import. */
	char *mapped;
	size_t mapped_len;
	uint32_t key;
	struct ibv_mr *mr;
};

static struct doca_mmap *keys[KEYS];

static bool memory_path(char path[PATH_MAX], uint32_t process, uint32_t number)
{
	return stand_in_path(path, "memory-%u-%u", process, number);
}

static bool record_path(char path[PATH_MAX], const struct descriptor *descriptor)
{
	return stand_in_path(path, "export-%u-%u", descriptor->process, descriptor->number);
}

/* Where the importer finds the file. */
static bool file_path(char path[PATH_MAX], const struct descriptor *descriptor)
{
	if (!descriptor->file)
		return memory_path(path, descriptor->process, descriptor->memory);
	return snprintf(path, PATH_MAX, "/proc/%u/fd/%u", descriptor->process, descriptor->file - 1) < PATH_MAX;
}

/* An open file with that number; its descriptor and one more, or 0. */
static uint32_t find_open(unsigned int major_of, unsigned int minor_of, uint64_t inode)
{
	uint32_t found = 0;
	DIR *dir = opendir("/proc/self/fd");
	for (struct dirent *entry; dir && !found && (entry = readdir(dir));) {
		struct stat stat;
		int file = atoi(entry->d_name);
		if (entry->d_name[0] != '.' && fstat(file, &stat) == 0 && stat.st_ino == inode &&
		    major(stat.st_dev) == major_of && minor(stat.st_dev) == minor_of)
			found = (uint32_t)file + 1;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* The file that is mapped there, shared, all along. */
static bool find_file(const char *at, size_t len, struct descriptor *descriptor)
{
	char line[PATH_MAX + 128];
	FILE *maps = fopen("/proc/self/maps", "re");
	bool found = false;
	while (maps && !found && fgets(line, sizeof(line), maps)) {
		unsigned long start, end, offset, inode;
		unsigned int major_of, minor_of;
		char shared;
		if (sscanf(line, "%lx-%lx rw%*c%c %lx %x:%x %lu", &start, &end, &shared, &offset, &major_of, &minor_of, &inode) != 7)
			continue;
		if (shared != 's' || (uintptr_t)at < start || (uintptr_t)at + len > end)
			continue;
		descriptor->file = find_open(major_of, minor_of, inode);
		descriptor->offset = offset + ((uintptr_t)at - start);
		found = descriptor->file != 0;
	}
	if (maps)
		fclose(maps);
	return found;
}

/* Whether that very descriptor is on record. */
static bool is_recorded(const struct descriptor *descriptor)
{
	char path[PATH_MAX];
	struct descriptor record;
	if (!record_path(path, descriptor))
		return false;
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	ssize_t len = read(file, &record, sizeof(record));
	close(file);
	return len == sizeof(record) && memcmp(&record, descriptor, sizeof(record)) == 0;
}

static void *map(const char *path, int flags, size_t *len)
{
	int file = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
	if (file < 0)
		return NULL;
	struct stat stat;
	void *mapped = MAP_FAILED;
	if ((!(flags & O_CREAT) || ftruncate(file, (off_t)*len) == 0) && fstat(file, &stat) == 0 && stat.st_size > 0) {
		*len = (size_t)stat.st_size;
		mapped = mmap(NULL, *len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	}
	close(file);
	return mapped == MAP_FAILED ? NULL : mapped;
}

void *ringleader_doca_stand_in_memory(size_t len)
{
	char path[PATH_MAX];
	void *made = NULL;
	pthread_mutex_lock(&stand_in_lock);
	for (int i = 0; i < MEMORIES; i++) {
		if (memories[i].start)
			continue;
		unsigned int number = ++memories_made;
		if (!memory_path(path, (uint32_t)getpid(), number))
			break;
		made = map(path, O_CREAT | O_EXCL, &len);
		if (made) {
			memories[i].start = made;
			memories[i].len = len;
			memories[i].number = number;
		}
		break;
	}
	pthread_mutex_unlock(&stand_in_lock);
	return made;
}

void ringleader_doca_stand_in_memory_free(void *memory)
{
	char path[PATH_MAX];
	pthread_mutex_lock(&stand_in_lock);
	for (int i = 0; i < MEMORIES; i++) {
		if (memories[i].start != memory)
			continue;
		munmap(memory, memories[i].len);
		if (memory_path(path, (uint32_t)getpid(), memories[i].number))
			unlink(path);
		memories[i].start = NULL;
		break;
	}
	pthread_mutex_unlock(&stand_in_lock);
}

doca_error_t doca_mmap_create(struct doca_mmap **map)
{
	MAY_FAIL();
	*map = stand_in_alloc(sizeof(**map));
	return DOCA_SUCCESS;
}

doca_error_t doca_mmap_destroy(struct doca_mmap *map)
{
	MAY_FAIL();
	char path[PATH_MAX];
	if (map->exported && record_path(path, &map->descriptor))
		unlink(path);
	if (!stand_in_verbs_deregister(map->mr))
		return DOCA_ERROR_IN_USE;
	if (map->imported) {
		pthread_mutex_lock(&stand_in_lock);
		keys[map->key % KEYS] = NULL;
		pthread_mutex_unlock(&stand_in_lock);
		munmap(map->mapped, map->mapped_len);
	}
	if (map->dev)
		__atomic_sub_fetch(&map->dev->users, 1, __ATOMIC_SEQ_CST);
	stand_in_free(map, __func__);
	return DOCA_SUCCESS;
}

doca_error_t doca_mmap_add_dev(struct doca_mmap *map, struct doca_dev *dev)
{
	MAY_FAIL();
	if (map->started || map->dev)
		return DOCA_ERROR_NOT_PERMITTED;
	map->dev = dev;
	__atomic_add_fetch(&dev->users, 1, __ATOMIC_SEQ_CST);
	return DOCA_SUCCESS;
}

doca_error_t doca_mmap_set_memrange(struct doca_mmap *map, void *address, size_t len)
{
	MAY_FAIL();
	if (map->started)
		return DOCA_ERROR_BAD_STATE;
	if (map->address)
		return DOCA_ERROR_NOT_PERMITTED;
	if (!address || !len || (uintptr_t)address + len < len)
		return DOCA_ERROR_INVALID_VALUE;
	map->address = address;
	map->len = len;
	return DOCA_SUCCESS;
}

doca_error_t doca_mmap_set_permissions(struct doca_mmap *map, uint32_t permissions)
{
	MAY_FAIL();
	if (map->started)
		return DOCA_ERROR_BAD_STATE;
	const uint32_t pci = DOCA_ACCESS_FLAG_PCI_READ_ONLY | DOCA_ACCESS_FLAG_PCI_READ_WRITE;
	if (permissions >> 7 || (permissions & pci) == pci)
		return DOCA_ERROR_INVALID_VALUE;
	map->permissions = permissions;
	return DOCA_SUCCESS;
}

doca_error_t doca_mmap_start(struct doca_mmap *map)
{
	MAY_FAIL();
	if (map->imported || map->exported)
		return DOCA_ERROR_NOT_PERMITTED;
	if (!map->dev || !map->address)
		return DOCA_ERROR_INVALID_VALUE;
	map->started = true;
	return DOCA_SUCCESS;
}

doca_error_t doca_mmap_export_pci(struct doca_mmap *map, const struct doca_dev *dev, const void **bytes, size_t *len)
{
	MAY_FAIL();
	const uint32_t pci = DOCA_ACCESS_FLAG_PCI_READ_ONLY | DOCA_ACCESS_FLAG_PCI_READ_WRITE;
	if (!map->started || !(map->permissions & pci))
		return DOCA_ERROR_NOT_PERMITTED;
	if (map->dev != dev)
		return DOCA_ERROR_NOT_FOUND;
	if (!dev->info.is_host)
		return DOCA_ERROR_NOT_SUPPORTED;
	struct descriptor *descriptor = &map->descriptor;
	char *start = map->address;
	bool found = false;
	pthread_mutex_lock(&stand_in_lock);
	for (int i = 0; i < MEMORIES && !found; i++) {
		if (!memories[i].start || start < memories[i].start || start + map->len > memories[i].start + memories[i].len)
			continue;
		found = true;
		descriptor->memory = memories[i].number;
		descriptor->offset = (uint64_t)(start - memories[i].start);
	}
	descriptor->number = ++exports_made;
	pthread_mutex_unlock(&stand_in_lock);
	if (!found && !find_file(start, map->len, descriptor))
		return DOCA_ERROR_DRIVER;
	memcpy(descriptor->magic, MAGIC, sizeof(MAGIC));
	descriptor->process = (uint32_t)getpid();
	descriptor->permissions = map->permissions;
	descriptor->address = (uint64_t)(uintptr_t)map->address;
	descriptor->len = map->len;
	if (getrandom(descriptor->secret, sizeof(descriptor->secret), 0) != sizeof(descriptor->secret))
		return DOCA_ERROR_DRIVER;
	char path[PATH_MAX];
	if (!record_path(path, descriptor))
		return DOCA_ERROR_DRIVER;
	int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t written = file < 0 ? -1 : write(file, descriptor, sizeof(*descriptor));
	if (file >= 0)
		close(file);
	if (written != sizeof(*descriptor))
		return DOCA_ERROR_DRIVER;
	map->exported = true;
	*bytes = descriptor;
	*len = sizeof(*descriptor);
	return DOCA_SUCCESS;
}

doca_error_t doca_mmap_create_from_export(const union doca_data *data, const void *bytes, size_t len, struct doca_dev *dev,
					  struct doca_mmap **made)
{
	MAY_FAIL();
	(void)data;
	struct descriptor descriptor;
	if (dev->info.is_host)
		return DOCA_ERROR_NOT_SUPPORTED;
	if (len != sizeof(descriptor))
		return DOCA_ERROR_INVALID_VALUE;
	memcpy(&descriptor, bytes, sizeof(descriptor));
	if (memcmp(descriptor.magic, MAGIC, sizeof(MAGIC)) != 0)
		return DOCA_ERROR_INVALID_VALUE;
	char path[PATH_MAX];
	if (!is_recorded(&descriptor) || !file_path(path, &descriptor))
		return DOCA_ERROR_NOT_PERMITTED;
	size_t mapped_len = 0;
	char *mapped = map(path, 0, &mapped_len);
	if (!mapped)
		return DOCA_ERROR_DRIVER;
	struct ibv_mr *mr = NULL;
	if (dev->verbs_pd) {
		mr = stand_in_verbs_register(dev, mapped + descriptor.offset, descriptor.len, descriptor.address, descriptor.permissions);
		if (!mr) {
			munmap(mapped, mapped_len);
			return DOCA_ERROR_DRIVER;
		}
	}
	struct doca_mmap *import = stand_in_alloc(sizeof(*import));
	import->imported = true;
	import->dev = dev;
	import->address = (void *)(uintptr_t)descriptor.address;
	import->len = descriptor.len;
	import->permissions = descriptor.permissions;
	import->descriptor = descriptor;
	import->mapped = mapped;
	import->mapped_len = mapped_len;
	import->mr = mr;
	__atomic_add_fetch(&dev->users, 1, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&stand_in_lock);
	static uint32_t turn;
	for (int i = 0; i < KEYS && !import->key; i++) {
		uint32_t key = ++turn + KEYS;
		if (!keys[key % KEYS]) {
			import->key = key;
			keys[key % KEYS] = import;
		}
	}
	pthread_mutex_unlock(&stand_in_lock);
	*made = import;
	return DOCA_SUCCESS;
}

doca_error_t doca_mmap_get_memrange(const struct doca_mmap *map, void **address, size_t *len)
{
	MAY_FAIL();
	if (!map->address)
		return DOCA_ERROR_BAD_STATE;
	*address = map->address;
	*len = map->len;
	return DOCA_SUCCESS;
}

doca_error_t doca_mmap_cap_is_export_pci_supported(const struct doca_devinfo *info, uint8_t *is)
{
	MAY_FAIL();
	*is = info->is_host;
	return DOCA_SUCCESS;
}

doca_error_t doca_mmap_cap_is_create_from_export_pci_supported(const struct doca_devinfo *info, uint8_t *is)
{
	MAY_FAIL();
	*is = !info->is_host;
	return DOCA_SUCCESS;
}

doca_error_t doca_rdma_bridge_get_dev_pd(const struct doca_dev *dev, struct ibv_pd **pd)
{
	MAY_FAIL();
	*pd = dev->verbs_pd ? dev->verbs_pd : (struct ibv_pd *)dev->pd;
	return DOCA_SUCCESS;
}

doca_error_t doca_rdma_bridge_get_mmap_mkey_from_pd(const struct doca_mmap *map, struct ibv_pd *pd, uint32_t *key)
{
	MAY_FAIL();
	struct ibv_pd *own = NULL;
	if (!map->dev || doca_rdma_bridge_get_dev_pd(map->dev, &own) != DOCA_SUCCESS || own != pd)
		return DOCA_ERROR_NOT_FOUND;
	*key = map->mr ? stand_in_verbs_key(map->mr) : map->key;
	return DOCA_SUCCESS;
}

static int reach(uint32_t key, uint64_t address, size_t len, uint32_t permission, char **at)
{
	struct doca_mmap *map = keys[key % KEYS];
	if (!map || map->key != key)
		return STAND_IN_NO_KEY;
	const struct descriptor *descriptor = &map->descriptor;
	if (!is_recorded(descriptor))
		return STAND_IN_NO_EXPORT;
	if (!(map->permissions & permission))
		return STAND_IN_NO_PERMISSION;
	if (address < descriptor->address || len > descriptor->len || address - descriptor->address > descriptor->len - len)
		return STAND_IN_NO_RANGE;
	*at = map->mapped + descriptor->offset + (address - descriptor->address);
	return STAND_IN_DONE;
}

int ringleader_doca_stand_in_write(uint32_t key, uint64_t address, const void *bytes, size_t len)
{
	char *at;
	pthread_mutex_lock(&stand_in_lock);
	int done = reach(key, address, len, DOCA_ACCESS_FLAG_RDMA_WRITE, &at);
	if (done == STAND_IN_DONE)
		memcpy(at, bytes, len);
	pthread_mutex_unlock(&stand_in_lock);
	return done;
}

int ringleader_doca_stand_in_read(uint32_t key, uint64_t address, void *bytes, size_t len)
{
	char *at;
	pthread_mutex_lock(&stand_in_lock);
	int done = reach(key, address, len, DOCA_ACCESS_FLAG_RDMA_READ, &at);
	if (done == STAND_IN_DONE)
		memcpy(bytes, at, len);
	pthread_mutex_unlock(&stand_in_lock);
	return done;
}
