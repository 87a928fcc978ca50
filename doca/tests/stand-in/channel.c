/*
 * Progress engine, contexts, and the communication channel: a socket of whole messages in the shared directory. What comes in is
 * handed on however long it is: whoever uses it must not count on the other side's limit.
 */
#include "inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONTEXTS 4
#define CONNECTIONS 4
#define TASKS 4
#define NAME_LEN 120
#define MESSAGE_LEN 4080
#define RECEIVED_LEN (1 << 17)

struct doca_task {
	struct doca_ctx *ctx;
	doca_error_t status;
};

struct doca_comch_task_send {
	struct doca_task task;
	struct doca_comch_connection *peer;
	const void *message;
	uint32_t len;
};

struct doca_ctx {
	struct doca_pe *pe;
	struct doca_dev *dev;
	union doca_data data;
	enum doca_ctx_states state;
	bool is_server;
	char name[NAME_LEN];
	uint32_t max;
	int listener;
	struct doca_comch_connection *connections[CONNECTIONS];
	struct doca_comch_task_send *tasks[TASKS];
	doca_comch_task_send_completion_cb_t sent, not_sent;
	doca_comch_event_msg_recv_cb_t received;
	doca_comch_event_connection_status_changed_cb_t connected, disconnected;
};

struct doca_comch_server {
	struct doca_ctx ctx;
};

struct doca_comch_client {
	struct doca_ctx ctx;
};

struct doca_comch_connection {
	struct doca_ctx *ctx;
	int socket;
};

struct doca_pe {
	struct doca_ctx *contexts[CONTEXTS];
};

/* --- progress --- */

doca_error_t doca_pe_create(struct doca_pe **pe)
{
	MAY_FAIL();
	*pe = stand_in_alloc(sizeof(**pe));
	return DOCA_SUCCESS;
}

doca_error_t doca_pe_destroy(struct doca_pe *pe)
{
	MAY_FAIL();
	for (int i = 0; i < CONTEXTS; i++)
		if (pe->contexts[i])
			return DOCA_ERROR_IN_USE;
	stand_in_free(pe, __func__);
	return DOCA_SUCCESS;
}

doca_error_t doca_pe_connect_ctx(struct doca_pe *pe, struct doca_ctx *ctx)
{
	MAY_FAIL();
	for (int i = 0; i < CONTEXTS; i++) {
		if (!pe->contexts[i]) {
			pe->contexts[i] = ctx;
			ctx->pe = pe;
			return DOCA_SUCCESS;
		}
	}
	return DOCA_ERROR_NO_MEMORY;
}

static bool address_of(const struct doca_ctx *ctx, struct sockaddr_un *address)
{
	char path[PATH_MAX];
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	if (!stand_in_path(path, "comch-%s", ctx->name) || strlen(path) >= sizeof(address->sun_path))
		return false;
	memcpy(address->sun_path, path, strlen(path));
	return true;
}

static void add(struct doca_ctx *ctx, int socket)
{
	for (int i = 0; i < CONNECTIONS; i++) {
		if (ctx->connections[i])
			continue;
		struct doca_comch_connection *connection = stand_in_alloc(sizeof(*connection));
		connection->ctx = ctx;
		connection->socket = socket;
		ctx->connections[i] = connection;
		if (ctx->connected)
			ctx->connected(NULL, connection, 1);
		return;
	}
	close(socket);
}

static void cut(struct doca_ctx *ctx, int i)
{
	struct doca_comch_connection *connection = ctx->connections[i];
	ctx->connections[i] = NULL;
	if (ctx->disconnected)
		ctx->disconnected(NULL, connection, 1);
	for (int j = 0; j < TASKS; j++)
		if (ctx->tasks[j] && ctx->tasks[j]->peer == connection)
			ctx->tasks[j]->peer = NULL;
	close(connection->socket);
	stand_in_free(connection, "connection");
	if (!ctx->is_server && ctx->state == DOCA_CTX_STATE_RUNNING)
		ctx->state = DOCA_CTX_STATE_STOPPING;
}

static int send_tasks(struct doca_ctx *ctx)
{
	int done = 0;
	for (int i = 0; i < TASKS; i++) {
		struct doca_comch_task_send *task = ctx->tasks[i];
		if (!task)
			continue;
		bool is_well = task->peer && ctx->state == DOCA_CTX_STATE_RUNNING &&
			       send(task->peer->socket, task->message, task->len, MSG_NOSIGNAL | MSG_DONTWAIT) ==
				       (ssize_t)task->len;
		ctx->tasks[i] = NULL;
		task->task.status = is_well ? DOCA_SUCCESS : DOCA_ERROR_NOT_CONNECTED;
		(is_well ? ctx->sent : ctx->not_sent)(task, (union doca_data){ .u64 = 0 }, ctx->data);
		done++;
	}
	return done;
}

static int receive(struct doca_ctx *ctx)
{
	static __thread uint8_t bytes[RECEIVED_LEN];
	int done = 0;
	for (int i = 0; i < CONNECTIONS; i++) {
		struct doca_comch_connection *connection = ctx->connections[i];
		if (!connection)
			continue;
		ssize_t len = recv(connection->socket, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (len < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (len > 0)
			ctx->received(NULL, bytes, (uint32_t)len, connection);
		else
			cut(ctx, i);
		done++;
	}
	return done;
}

static int step(struct doca_ctx *ctx)
{
	struct sockaddr_un address;
	switch (ctx->state) {
	case DOCA_CTX_STATE_STARTING: {
		int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (client >= 0 && address_of(ctx, &address) &&
		    connect(client, (struct sockaddr *)&address, sizeof(address)) == 0) {
			ctx->state = DOCA_CTX_STATE_RUNNING;
			add(ctx, client);
		} else {
			if (client >= 0)
				close(client);
			ctx->state = DOCA_CTX_STATE_IDLE;
		}
		return 1;
	}
	case DOCA_CTX_STATE_RUNNING: {
		int done = 0;
		int client = ctx->is_server ? accept4(ctx->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
		if (client >= 0) {
			add(ctx, client);
			done++;
		}
		return done + send_tasks(ctx) + receive(ctx);
	}
	case DOCA_CTX_STATE_STOPPING:
		send_tasks(ctx);
		for (int i = 0; i < CONNECTIONS; i++)
			if (ctx->connections[i])
				cut(ctx, i);
		if (ctx->listener >= 0) {
			close(ctx->listener);
			ctx->listener = -1;
			if (address_of(ctx, &address))
				unlink(address.sun_path);
		}
		ctx->state = DOCA_CTX_STATE_IDLE;
		return 1;
	default:
		return 0;
	}
}

uint8_t doca_pe_progress(struct doca_pe *pe)
{
	int done = 0;
	for (int i = 0; i < CONTEXTS; i++)
		if (pe->contexts[i])
			done += step(pe->contexts[i]);
	return done != 0;
}

/* --- contexts --- */

static bool listens(struct doca_ctx *ctx)
{
	struct sockaddr_un address;
	if (!address_of(ctx, &address))
		return false;
	/* A server that was killed has left its name. */
	int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (client >= 0 && connect(client, (struct sockaddr *)&address, sizeof(address)) != 0 && errno == ECONNREFUSED)
		unlink(address.sun_path);
	if (client >= 0)
		close(client);
	ctx->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return ctx->listener >= 0 && bind(ctx->listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	       listen(ctx->listener, CONNECTIONS) == 0;
}

doca_error_t doca_ctx_start(struct doca_ctx *ctx)
{
	MAY_FAIL();
	if (!ctx->pe)
		return DOCA_ERROR_NOT_CONNECTED;
	if (ctx->state != DOCA_CTX_STATE_IDLE || !ctx->received || !ctx->sent)
		return DOCA_ERROR_BAD_STATE;
	if (!ctx->is_server) {
		ctx->state = DOCA_CTX_STATE_STARTING;
		return DOCA_ERROR_IN_PROGRESS;
	}
	if (!listens(ctx)) {
		if (ctx->listener >= 0)
			close(ctx->listener);
		ctx->listener = -1;
		return DOCA_ERROR_INITIALIZATION;
	}
	ctx->state = DOCA_CTX_STATE_RUNNING;
	return DOCA_SUCCESS;
}

doca_error_t doca_ctx_stop(struct doca_ctx *ctx)
{
	MAY_FAIL();
	if (ctx->state == DOCA_CTX_STATE_IDLE)
		return DOCA_ERROR_BAD_STATE;
	ctx->state = DOCA_CTX_STATE_STOPPING;
	return DOCA_ERROR_IN_PROGRESS;
}

doca_error_t doca_ctx_get_state(const struct doca_ctx *ctx, enum doca_ctx_states *state)
{
	MAY_FAIL();
	*state = ctx->state;
	return DOCA_SUCCESS;
}

doca_error_t doca_ctx_set_user_data(struct doca_ctx *ctx, union doca_data data)
{
	MAY_FAIL();
	ctx->data = data;
	return DOCA_SUCCESS;
}

doca_error_t doca_ctx_get_user_data(const struct doca_ctx *ctx, union doca_data *data)
{
	MAY_FAIL();
	*data = ctx->data;
	return DOCA_SUCCESS;
}

static doca_error_t create(struct doca_dev *dev, const char *name, bool is_server, struct doca_ctx *ctx)
{
	snprintf(ctx->name, sizeof(ctx->name), "%s", name);
	ctx->dev = dev;
	ctx->is_server = is_server;
	ctx->max = MESSAGE_LEN;
	ctx->listener = -1;
	__atomic_add_fetch(&dev->users, 1, __ATOMIC_SEQ_CST);
	return DOCA_SUCCESS;
}

static doca_error_t destroy(struct doca_ctx *ctx, const char *by)
{
	if (ctx->state != DOCA_CTX_STATE_IDLE)
		return DOCA_ERROR_IN_USE;
	for (int i = 0; ctx->pe && i < CONTEXTS; i++)
		if (ctx->pe->contexts[i] == ctx)
			ctx->pe->contexts[i] = NULL;
	__atomic_sub_fetch(&ctx->dev->users, 1, __ATOMIC_SEQ_CST);
	stand_in_free(ctx, by);
	return DOCA_SUCCESS;
}

/* --- tasks --- */

static doca_error_t task(struct doca_ctx *ctx, struct doca_comch_connection *peer, const void *message, uint32_t len,
			 struct doca_comch_task_send **made)
{
	if (ctx->state != DOCA_CTX_STATE_RUNNING)
		return DOCA_ERROR_BAD_STATE;
	if (!peer || !len || len > ctx->max)
		return DOCA_ERROR_INVALID_VALUE;
	*made = stand_in_alloc(sizeof(**made));
	(*made)->task.ctx = ctx;
	(*made)->peer = peer;
	(*made)->message = message;
	(*made)->len = len;
	return DOCA_SUCCESS;
}

doca_error_t doca_task_submit(struct doca_task *task)
{
	MAY_FAIL();
	for (int i = 0; i < TASKS; i++) {
		if (!task->ctx->tasks[i]) {
			task->ctx->tasks[i] = (struct doca_comch_task_send *)task;
			return DOCA_SUCCESS;
		}
	}
	return DOCA_ERROR_AGAIN;
}

void doca_task_free(struct doca_task *task)
{
	stand_in_free(task, __func__);
}

doca_error_t doca_task_get_status(const struct doca_task *task)
{
	MAY_FAIL();
	return task->status;
}

struct doca_task *doca_comch_task_send_as_task(struct doca_comch_task_send *task)
{
	return &task->task;
}

/* --- channel --- */

doca_error_t doca_comch_cap_get_max_name_len(const struct doca_devinfo *info, uint32_t *len)
{
	MAY_FAIL();
	(void)info;
	*len = NAME_LEN;
	return DOCA_SUCCESS;
}

doca_error_t doca_comch_cap_get_max_msg_size(const struct doca_devinfo *info, uint32_t *len)
{
	MAY_FAIL();
	(void)info;
	*len = MESSAGE_LEN;
	return DOCA_SUCCESS;
}

doca_error_t doca_comch_cap_server_is_supported(const struct doca_devinfo *info)
{
	MAY_FAIL();
	return info->is_host ? DOCA_ERROR_NOT_SUPPORTED : DOCA_SUCCESS;
}

doca_error_t doca_comch_cap_client_is_supported(const struct doca_devinfo *info)
{
	MAY_FAIL();
	return info->is_host ? DOCA_SUCCESS : DOCA_ERROR_NOT_SUPPORTED;
}

struct doca_comch_server *doca_comch_server_get_server_ctx(const struct doca_comch_connection *connection)
{
	return connection->ctx->is_server ? (struct doca_comch_server *)connection->ctx : NULL;
}

struct doca_comch_client *doca_comch_client_get_client_ctx(const struct doca_comch_connection *connection)
{
	return connection->ctx->is_server ? NULL : (struct doca_comch_client *)connection->ctx;
}

doca_error_t doca_comch_server_create(struct doca_dev *dev, struct doca_dev_rep *rep, const char *name,
				      struct doca_comch_server **server)
{
	MAY_FAIL();
	if (!rep)
		return DOCA_ERROR_INVALID_VALUE;
	*server = stand_in_alloc(sizeof(**server));
	return create(dev, name, true, &(*server)->ctx);
}

doca_error_t doca_comch_server_destroy(struct doca_comch_server *server)
{
	MAY_FAIL();
	return destroy(&server->ctx, __func__);
}

doca_error_t doca_comch_server_set_max_msg_size(struct doca_comch_server *server, uint32_t size)
{
	MAY_FAIL();
	server->ctx.max = size;
	return DOCA_SUCCESS;
}

struct doca_ctx *doca_comch_server_as_ctx(struct doca_comch_server *server)
{
	return &server->ctx;
}

doca_error_t doca_comch_server_disconnect(struct doca_comch_server *server, struct doca_comch_connection *connection)
{
	MAY_FAIL();
	for (int i = 0; i < CONNECTIONS; i++) {
		if (server->ctx.connections[i] == connection) {
			cut(&server->ctx, i);
			return DOCA_SUCCESS;
		}
	}
	return DOCA_ERROR_INVALID_VALUE;
}

doca_error_t doca_comch_server_task_send_set_conf(struct doca_comch_server *server, doca_comch_task_send_completion_cb_t sent,
						  doca_comch_task_send_completion_cb_t not_sent, uint32_t count)
{
	MAY_FAIL();
	if (!sent || !not_sent || count < 1 || count > TASKS)
		return DOCA_ERROR_INVALID_VALUE;
	server->ctx.sent = sent;
	server->ctx.not_sent = not_sent;
	return DOCA_SUCCESS;
}

doca_error_t doca_comch_server_task_send_alloc_init(struct doca_comch_server *server, struct doca_comch_connection *peer,
						    const void *message, uint32_t len, struct doca_comch_task_send **made)
{
	MAY_FAIL();
	return task(&server->ctx, peer, message, len, made);
}

doca_error_t doca_comch_server_event_msg_recv_register(struct doca_comch_server *server, doca_comch_event_msg_recv_cb_t received)
{
	MAY_FAIL();
	server->ctx.received = received;
	return DOCA_SUCCESS;
}

doca_error_t doca_comch_server_event_connection_status_changed_register(struct doca_comch_server *server,
									doca_comch_event_connection_status_changed_cb_t on,
									doca_comch_event_connection_status_changed_cb_t off)
{
	MAY_FAIL();
	server->ctx.connected = on;
	server->ctx.disconnected = off;
	return DOCA_SUCCESS;
}

doca_error_t doca_comch_client_create(struct doca_dev *dev, const char *name, struct doca_comch_client **client)
{
	MAY_FAIL();
	*client = stand_in_alloc(sizeof(**client));
	return create(dev, name, false, &(*client)->ctx);
}

doca_error_t doca_comch_client_destroy(struct doca_comch_client *client)
{
	MAY_FAIL();
	return destroy(&client->ctx, __func__);
}

doca_error_t doca_comch_client_set_max_msg_size(struct doca_comch_client *client, uint32_t size)
{
	MAY_FAIL();
	client->ctx.max = size;
	return DOCA_SUCCESS;
}

struct doca_ctx *doca_comch_client_as_ctx(struct doca_comch_client *client)
{
	return &client->ctx;
}

doca_error_t doca_comch_client_get_connection(const struct doca_comch_client *client, struct doca_comch_connection **connection)
{
	MAY_FAIL();
	if (client->ctx.state != DOCA_CTX_STATE_RUNNING)
		return DOCA_ERROR_BAD_STATE;
	*connection = client->ctx.connections[0];
	return DOCA_SUCCESS;
}

doca_error_t doca_comch_client_task_send_set_conf(struct doca_comch_client *client, doca_comch_task_send_completion_cb_t sent,
						  doca_comch_task_send_completion_cb_t not_sent, uint32_t count)
{
	MAY_FAIL();
	if (!sent || !not_sent || count < 1 || count > TASKS)
		return DOCA_ERROR_INVALID_VALUE;
	client->ctx.sent = sent;
	client->ctx.not_sent = not_sent;
	return DOCA_SUCCESS;
}

doca_error_t doca_comch_client_task_send_alloc_init(struct doca_comch_client *client, struct doca_comch_connection *peer,
						    const void *message, uint32_t len, struct doca_comch_task_send **made)
{
	MAY_FAIL();
	return task(&client->ctx, peer, message, len, made);
}

doca_error_t doca_comch_client_event_msg_recv_register(struct doca_comch_client *client, doca_comch_event_msg_recv_cb_t received)
{
	MAY_FAIL();
	client->ctx.received = received;
	return DOCA_SUCCESS;
}
