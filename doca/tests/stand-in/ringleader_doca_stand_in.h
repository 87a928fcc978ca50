/*
 * Declarations of what ringleader-doca calls of DOCA 2.10, for its tests on machines without the SDK. This is not the SDK, and
 * nothing of it: the functions behind these names are those of this folder, which move bytes between processes by files and
 * sockets in the directory DOCA_STAND_IN_DIR. It is never installed, has no pkg-config file, another soname, and the function
 * ringleader_doca_stand_in(), by which a program built against the SDK refuses to run with it.
 */
#ifndef RINGLEADER_DOCA_STAND_IN_H
#define RINGLEADER_DOCA_STAND_IN_H

#include <stddef.h>
#include <stdint.h>

/* --- for the tests --- */

/* The mark. */
int ringleader_doca_stand_in(void);
/* That directory, for this process, in the place of the variable. */
void ringleader_doca_stand_in_directory(const char *path);
/* Objects of this process that were made and not freed. */
int64_t ringleader_doca_stand_in_live(void);
/* What was freed since this was called last, in order, with spaces between; and "closed-in-use" where DOCA would do so, and say no. */
size_t ringleader_doca_stand_in_freed(char *text, size_t size);
/* From now on that function answers with that code, whatever it is; 0: it works again. NULL: all work again. */
void ringleader_doca_stand_in_fail(const char *function, unsigned int code);
/* What doca_version_runtime() says; NULL: nothing. */
void ringleader_doca_stand_in_version(const char *version);
/* Memory that can be exported: a file, mapped. */
void *ringleader_doca_stand_in_memory(size_t len);
void ringleader_doca_stand_in_memory_free(void *memory);
/* What a NIC does for who has a key: 0, or why it does not. */
enum ringleader_doca_stand_in_access {
	STAND_IN_DONE = 0,
	STAND_IN_NO_KEY = 1,
	STAND_IN_NO_RANGE = 2,
	STAND_IN_NO_PERMISSION = 3,
	STAND_IN_NO_EXPORT = 4,
};
int ringleader_doca_stand_in_write(uint32_t key, uint64_t address, const void *bytes, size_t len);
int ringleader_doca_stand_in_read(uint32_t key, uint64_t address, void *bytes, size_t len);

/* --- what DOCA has --- */

typedef enum doca_error {
	DOCA_SUCCESS = 0,
	DOCA_ERROR_UNKNOWN = 1,
	DOCA_ERROR_NOT_PERMITTED = 2,
	DOCA_ERROR_IN_USE = 3,
	DOCA_ERROR_NOT_SUPPORTED = 4,
	DOCA_ERROR_AGAIN = 5,
	DOCA_ERROR_INVALID_VALUE = 6,
	DOCA_ERROR_NO_MEMORY = 7,
	DOCA_ERROR_INITIALIZATION = 8,
	DOCA_ERROR_NOT_CONNECTED = 14,
	DOCA_ERROR_NOT_FOUND = 16,
	DOCA_ERROR_BAD_STATE = 18,
	DOCA_ERROR_DRIVER = 21,
	DOCA_ERROR_IN_PROGRESS = 26,
} doca_error_t;

enum doca_access_flag {
	DOCA_ACCESS_FLAG_LOCAL_READ_ONLY = 0,
	DOCA_ACCESS_FLAG_LOCAL_READ_WRITE = 1 << 0,
	DOCA_ACCESS_FLAG_RDMA_READ = 1 << 1,
	DOCA_ACCESS_FLAG_RDMA_WRITE = 1 << 2,
	DOCA_ACCESS_FLAG_RDMA_ATOMIC = 1 << 3,
	DOCA_ACCESS_FLAG_PCI_READ_ONLY = 1 << 4,
	DOCA_ACCESS_FLAG_PCI_READ_WRITE = 1 << 5,
	DOCA_ACCESS_FLAG_PCI_RELAXED_ORDERING = 1 << 6,
};

enum doca_devinfo_rep_filter {
	DOCA_DEVINFO_REP_FILTER_ALL = 0,
	DOCA_DEVINFO_REP_FILTER_NET = 1 << 1,
	DOCA_DEVINFO_REP_FILTER_EMULATED = 1 << 2,
};

enum doca_ctx_states {
	DOCA_CTX_STATE_IDLE = 0,
	DOCA_CTX_STATE_STARTING = 1,
	DOCA_CTX_STATE_RUNNING = 2,
	DOCA_CTX_STATE_STOPPING = 3,
};

#define DOCA_DEVINFO_PCI_ADDR_SIZE 13
#define DOCA_DEVINFO_IBDEV_NAME_SIZE 64
#define DOCA_DEVINFO_REP_PCI_ADDR_SIZE 13

union doca_data {
	void *ptr;
	uint64_t u64;
};

struct ibv_pd;
struct doca_devinfo;
struct doca_devinfo_rep;
struct doca_dev;
struct doca_dev_rep;
struct doca_mmap;
struct doca_pe;
struct doca_ctx;
struct doca_task;
struct doca_comch_server;
struct doca_comch_client;
struct doca_comch_connection;
struct doca_comch_task_send;
struct doca_comch_event_msg_recv;
struct doca_comch_event_connection_status_changed;

const char *doca_version_runtime(void);
const char *doca_error_get_name(doca_error_t);
const char *doca_error_get_descr(doca_error_t);

doca_error_t doca_devinfo_create_list(struct doca_devinfo ***, uint32_t *);
doca_error_t doca_devinfo_destroy_list(struct doca_devinfo **);
doca_error_t doca_devinfo_get_pci_addr_str(const struct doca_devinfo *, char *);
doca_error_t doca_devinfo_get_ibdev_name(const struct doca_devinfo *, char *, uint32_t);
doca_error_t doca_dev_open(struct doca_devinfo *, struct doca_dev **);
doca_error_t doca_dev_close(struct doca_dev *);
struct doca_devinfo *doca_dev_as_devinfo(const struct doca_dev *);
doca_error_t doca_devinfo_rep_create_list(struct doca_dev *, int, struct doca_devinfo_rep ***, uint32_t *);
doca_error_t doca_devinfo_rep_destroy_list(struct doca_devinfo_rep **);
doca_error_t doca_devinfo_rep_get_pci_addr_str(const struct doca_devinfo_rep *, char *);
doca_error_t doca_dev_rep_open(struct doca_devinfo_rep *, struct doca_dev_rep **);
doca_error_t doca_dev_rep_close(struct doca_dev_rep *);

doca_error_t doca_mmap_create(struct doca_mmap **);
doca_error_t doca_mmap_destroy(struct doca_mmap *);
doca_error_t doca_mmap_add_dev(struct doca_mmap *, struct doca_dev *);
doca_error_t doca_mmap_set_memrange(struct doca_mmap *, void *, size_t);
doca_error_t doca_mmap_set_permissions(struct doca_mmap *, uint32_t);
doca_error_t doca_mmap_start(struct doca_mmap *);
doca_error_t doca_mmap_export_pci(struct doca_mmap *, const struct doca_dev *, const void **, size_t *);
doca_error_t doca_mmap_create_from_export(const union doca_data *, const void *, size_t, struct doca_dev *, struct doca_mmap **);
doca_error_t doca_mmap_get_memrange(const struct doca_mmap *, void **, size_t *);
doca_error_t doca_mmap_cap_is_export_pci_supported(const struct doca_devinfo *, uint8_t *);
doca_error_t doca_mmap_cap_is_create_from_export_pci_supported(const struct doca_devinfo *, uint8_t *);
doca_error_t doca_rdma_bridge_get_dev_pd(const struct doca_dev *, struct ibv_pd **);
doca_error_t doca_rdma_bridge_get_mmap_mkey_from_pd(const struct doca_mmap *, struct ibv_pd *, uint32_t *);

doca_error_t doca_pe_create(struct doca_pe **);
doca_error_t doca_pe_destroy(struct doca_pe *);
uint8_t doca_pe_progress(struct doca_pe *);
doca_error_t doca_pe_connect_ctx(struct doca_pe *, struct doca_ctx *);
doca_error_t doca_ctx_start(struct doca_ctx *);
doca_error_t doca_ctx_stop(struct doca_ctx *);
doca_error_t doca_ctx_get_state(const struct doca_ctx *, enum doca_ctx_states *);
doca_error_t doca_ctx_set_user_data(struct doca_ctx *, union doca_data);
doca_error_t doca_ctx_get_user_data(const struct doca_ctx *, union doca_data *);
doca_error_t doca_task_submit(struct doca_task *);
void doca_task_free(struct doca_task *);
doca_error_t doca_task_get_status(const struct doca_task *);

typedef void (*doca_comch_task_send_completion_cb_t)(struct doca_comch_task_send *, union doca_data, union doca_data);
typedef void (*doca_comch_event_msg_recv_cb_t)(struct doca_comch_event_msg_recv *, uint8_t *, uint32_t,
					       struct doca_comch_connection *);
typedef void (*doca_comch_event_connection_status_changed_cb_t)(struct doca_comch_event_connection_status_changed *,
								struct doca_comch_connection *, uint8_t);

doca_error_t doca_comch_cap_get_max_name_len(const struct doca_devinfo *, uint32_t *);
doca_error_t doca_comch_cap_get_max_msg_size(const struct doca_devinfo *, uint32_t *);
doca_error_t doca_comch_cap_server_is_supported(const struct doca_devinfo *);
doca_error_t doca_comch_cap_client_is_supported(const struct doca_devinfo *);
struct doca_comch_server *doca_comch_server_get_server_ctx(const struct doca_comch_connection *);
struct doca_comch_client *doca_comch_client_get_client_ctx(const struct doca_comch_connection *);
doca_error_t doca_comch_server_create(struct doca_dev *, struct doca_dev_rep *, const char *, struct doca_comch_server **);
doca_error_t doca_comch_server_destroy(struct doca_comch_server *);
doca_error_t doca_comch_server_set_max_msg_size(struct doca_comch_server *, uint32_t);
struct doca_ctx *doca_comch_server_as_ctx(struct doca_comch_server *);
doca_error_t doca_comch_server_disconnect(struct doca_comch_server *, struct doca_comch_connection *);
doca_error_t doca_comch_server_task_send_set_conf(struct doca_comch_server *, doca_comch_task_send_completion_cb_t,
						  doca_comch_task_send_completion_cb_t, uint32_t);
doca_error_t doca_comch_server_task_send_alloc_init(struct doca_comch_server *, struct doca_comch_connection *, const void *,
						    uint32_t, struct doca_comch_task_send **);
doca_error_t doca_comch_server_event_msg_recv_register(struct doca_comch_server *, doca_comch_event_msg_recv_cb_t);
doca_error_t doca_comch_server_event_connection_status_changed_register(struct doca_comch_server *,
									doca_comch_event_connection_status_changed_cb_t,
									doca_comch_event_connection_status_changed_cb_t);
doca_error_t doca_comch_client_create(struct doca_dev *, const char *, struct doca_comch_client **);
doca_error_t doca_comch_client_destroy(struct doca_comch_client *);
doca_error_t doca_comch_client_set_max_msg_size(struct doca_comch_client *, uint32_t);
struct doca_ctx *doca_comch_client_as_ctx(struct doca_comch_client *);
doca_error_t doca_comch_client_get_connection(const struct doca_comch_client *, struct doca_comch_connection **);
doca_error_t doca_comch_client_task_send_set_conf(struct doca_comch_client *, doca_comch_task_send_completion_cb_t,
						  doca_comch_task_send_completion_cb_t, uint32_t);
doca_error_t doca_comch_client_task_send_alloc_init(struct doca_comch_client *, struct doca_comch_connection *, const void *,
						    uint32_t, struct doca_comch_task_send **);
doca_error_t doca_comch_client_event_msg_recv_register(struct doca_comch_client *, doca_comch_event_msg_recv_cb_t);
struct doca_task *doca_comch_task_send_as_task(struct doca_comch_task_send *);

#endif
