/*
 * Devices: one of a host, one of a DPU that has the first as its representor, and two functions of the DPU that share an address,
 * as sub-functions do. The first two may be named after devices of libibverbs (DOCA_STAND_IN_HOST, DOCA_STAND_IN_DPU); that of the
 * DPU then is one.
 */
#include "inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST "0000:3b:00.0"

static const struct doca_devinfo devices[] = {
	{ HOST, "standin_host", true, false },
	{ "0000:03:00.0", "standin_dpu", false, false },
	{ "0000:03:00.1", "standin_sf0", false, false },
	{ "0000:03:00.1", "standin_sf1", false, false },
};
#define DEVICES (sizeof(devices) / sizeof(devices[0]))

/* What it is called in this process, and whether that is a name of libibverbs. */
static bool rename_device(struct doca_devinfo *info)
{
	const char *name = NULL;
	if (info->is_host)
		name = getenv("DOCA_STAND_IN_HOST");
	else if (strcmp(info->name, "standin_dpu") == 0)
		name = getenv("DOCA_STAND_IN_DPU");
	if (name)
		snprintf(info->name, sizeof(info->name), "%s", name);
	return name != NULL;
}

struct doca_devinfo_rep {
	char pci[13];
	struct doca_dev *dev;
};

struct doca_dev_rep {
	struct doca_dev *dev;
};

doca_error_t doca_devinfo_create_list(struct doca_devinfo ***list, uint32_t *count)
{
	MAY_FAIL();
	struct doca_devinfo **made = stand_in_alloc(DEVICES * sizeof(*made));
	for (size_t i = 0; i < DEVICES; i++) {
		made[i] = stand_in_alloc(sizeof(**made));
		*made[i] = devices[i];
		made[i]->is_verbs = rename_device(made[i]) && !made[i]->is_host;
	}
	*list = made;
	*count = DEVICES;
	return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_destroy_list(struct doca_devinfo **list)
{
	MAY_FAIL();
	for (size_t i = 0; i < DEVICES; i++)
		stand_in_free(list[i], "info");
	stand_in_free(list, __func__);
	return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_get_pci_addr_str(const struct doca_devinfo *info, char *text)
{
	MAY_FAIL();
	memcpy(text, info->pci, sizeof(info->pci));
	return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_get_ibdev_name(const struct doca_devinfo *info, char *text, uint32_t size)
{
	MAY_FAIL();
	if (size < sizeof(info->name))
		return DOCA_ERROR_INVALID_VALUE;
	memcpy(text, info->name, sizeof(info->name));
	return DOCA_SUCCESS;
}

doca_error_t doca_dev_open(struct doca_devinfo *info, struct doca_dev **dev)
{
	MAY_FAIL();
	*dev = stand_in_alloc(sizeof(**dev));
	(*dev)->info = *info;
	snprintf((*dev)->pd, sizeof((*dev)->pd), "a protection domain of the stand-in");
	if (info->is_verbs && !stand_in_verbs_open(*dev)) {
		stand_in_free(*dev, "no-verbs");
		return DOCA_ERROR_DRIVER;
	}
	return DOCA_SUCCESS;
}

doca_error_t doca_dev_close(struct doca_dev *dev)
{
	MAY_FAIL();
	if (__atomic_load_n(&dev->users, __ATOMIC_SEQ_CST) != 0) {
		stand_in_note("closed-in-use");
		return DOCA_ERROR_IN_USE;
	}
	if (!stand_in_verbs_close(dev)) {
		stand_in_note("domain-in-use");
		return DOCA_ERROR_IN_USE;
	}
	stand_in_free(dev, __func__);
	return DOCA_SUCCESS;
}

struct doca_devinfo *doca_dev_as_devinfo(const struct doca_dev *dev)
{
	return (struct doca_devinfo *)&dev->info;
}

doca_error_t doca_devinfo_rep_create_list(struct doca_dev *dev, int filter, struct doca_devinfo_rep ***list, uint32_t *count)
{
	MAY_FAIL();
	if (dev->info.is_host)
		return DOCA_ERROR_NOT_SUPPORTED;
	if (filter != DOCA_DEVINFO_REP_FILTER_NET)
		return DOCA_ERROR_INVALID_VALUE;
	struct doca_devinfo_rep **made = stand_in_alloc(sizeof(*made));
	made[0] = stand_in_alloc(sizeof(**made));
	memcpy(made[0]->pci, HOST, sizeof(HOST));
	made[0]->dev = dev;
	*list = made;
	*count = 1;
	return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_rep_destroy_list(struct doca_devinfo_rep **list)
{
	MAY_FAIL();
	stand_in_free(list[0], "info");
	stand_in_free(list, __func__);
	return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_rep_get_pci_addr_str(const struct doca_devinfo_rep *info, char *text)
{
	MAY_FAIL();
	memcpy(text, info->pci, sizeof(info->pci));
	return DOCA_SUCCESS;
}

doca_error_t doca_dev_rep_open(struct doca_devinfo_rep *info, struct doca_dev_rep **rep)
{
	MAY_FAIL();
	*rep = stand_in_alloc(sizeof(**rep));
	(*rep)->dev = info->dev;
	__atomic_add_fetch(&info->dev->users, 1, __ATOMIC_SEQ_CST);
	return DOCA_SUCCESS;
}

doca_error_t doca_dev_rep_close(struct doca_dev_rep *rep)
{
	MAY_FAIL();
	__atomic_sub_fetch(&rep->dev->users, 1, __ATOMIC_SEQ_CST);
	stand_in_free(rep, __func__);
	return DOCA_SUCCESS;
}
