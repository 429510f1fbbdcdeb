/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One resource offered to kubelet: its socket, five methods, and the registration.
 *
 * Kubelet connects back while it answers Register, so the socket is served first. When kubelet starts it empties its
 * directory, with our socket, and knows no plugin. So an endpoint is checked, at once after an inotify event and every
 * few seconds: the socket must exist, and kubelet must follow the list.
 */
#include "kube/plugin/plugin_run.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define CHECK_EVERY (5 * NSEC_PER_SEC)
#define RETRY_AFTER NSEC_PER_SEC

static int on_options(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err)
{
        (void)context;
        (void)request;
        (void)err;
        return plugin_options(ret);
}

static int on_list(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err)
{
        const struct endpoint *endpoint = context;

        (void)request;
        (void)err;
        return plugin_list(&endpoint->resource, &endpoint->plugin->node, ret);
}

static int on_prefer(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err)
{
        const struct endpoint *endpoint = context;

        return plugin_prefer(&endpoint->resource, &endpoint->plugin->node, request, ret, err);
}

static int on_allocate(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err)
{
        const struct endpoint *endpoint = context;
        const struct plugin *plugin = endpoint->plugin;

        return plugin_allocate(&endpoint->resource, &plugin->node, &plugin->ways, request, ret, err);
}

static int on_pre_start(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err)
{
        const struct endpoint *endpoint = context;

        return plugin_pre_start(&endpoint->resource, &endpoint->plugin->node, request, ret, err);
}

static const struct grpc_method methods[] = {
        { "/v1beta1.DevicePlugin/GetDevicePluginOptions", false, on_options },
        { "/v1beta1.DevicePlugin/ListAndWatch", true, on_list },
        { "/v1beta1.DevicePlugin/GetPreferredAllocation", false, on_prefer },
        { "/v1beta1.DevicePlugin/Allocate", false, on_allocate },
        { "/v1beta1.DevicePlugin/PreStartContainer", false, on_pre_start },
};

void endpoint_schedule(struct endpoint *endpoint, nsec delay)
{
        loop_timer_set(endpoint->plugin->loop, &endpoint->timer, delay, 0);
}

static void on_registered(void *context, int status, const char *text)
{
        struct endpoint *endpoint = context;

        endpoint->is_registered = status == GRPC_OK;
        if (status == GRPC_OK)
                endpoint->plugin->say("%s: registered with kubelet", endpoint->resource.name);
        else
                endpoint->plugin->say("%s: kubelet refused (%d): %s", endpoint->resource.name, status, text);
        endpoint->registration = grpc_call_free(endpoint->registration); /* with the text */
        endpoint_schedule(endpoint, CHECK_EVERY);
}

static int begin_register(struct endpoint *endpoint, struct err *err)
{
        _cleanup_(grpc_message_done) struct grpc_message request = { 0 };
        char kubelet[PLUGIN_PATH];
        int r = plugin_register(endpoint->resource.name, endpoint->name, &request);

        if (r < 0)
                return err_set(err, r, "registering %s", endpoint->resource.name);
        (void)snprintf(kubelet, sizeof(kubelet), "%s/kubelet.sock", endpoint->plugin->kubelet);
        return grpc_call_new(endpoint->plugin->loop, kubelet, "/v1beta1.Registration/Register", &request, on_registered,
                             endpoint, &endpoint->registration, err);
}

/* Serves, unless it does and its socket is still there. */
static int endpoint_serve(struct endpoint *endpoint, struct err *err)
{
        if (endpoint->server && access(endpoint->path, F_OK) == 0)
                return 0;
        endpoint->is_registered = false;
        endpoint->server = grpc_server_free(endpoint->server);
        return grpc_server_new(endpoint->plugin->loop, endpoint->path, methods, ARRAY_SIZE(methods), endpoint,
                               &endpoint->server, err);
}

static void on_due(struct loop_timer *timer)
{
        struct endpoint *endpoint = timer->context;
        struct err err = { 0 };
        int r;

        endpoint_schedule(endpoint, CHECK_EVERY);
        r = endpoint_serve(endpoint, &err);
        if (r == 0 && !(endpoint->is_registered && grpc_server_streams(endpoint->server)) && !endpoint->registration)
                r = begin_register(endpoint, &err);
        if (r == 0)
                return;
        if (r != -ECONNREFUSED && r != -ENOENT) /* kubelet is not running, or not yet */
                endpoint->plugin->say("%s", err.text);
        endpoint_schedule(endpoint, RETRY_AFTER);
}

void endpoint_begin(struct endpoint *endpoint)
{
        endpoint->timer = (struct loop_timer){ .due = on_due, .context = endpoint };
        endpoint_schedule(endpoint, 0);
}

void endpoint_end(struct endpoint *endpoint)
{
        if (endpoint->plugin && endpoint->plugin->loop)
                loop_timer_drop(endpoint->plugin->loop, &endpoint->timer);
        endpoint->registration = grpc_call_free(endpoint->registration);
        endpoint->server = grpc_server_free(endpoint->server);
}
