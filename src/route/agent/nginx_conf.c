/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why each line is there. A request is read whole before a replica is chosen, so client_body_buffer_size is the limit
 * of a body (only what a request announces is allocated; nothing goes through a file). Answers are not buffered: slow
 * readers would grow files by gigabytes. Idle connections to replicas end after 3 s, because engines close theirs
 * after 5 s, and the side that reuses must be the shorter one. What a replica says to nginx itself (X-Accel-Redirect
 * and the like) is not obeyed. POST is retried only before anything was answered; the
 * module says what has failed (route/answers.def) and bounds how often. Each request of a client takes two connections
 * of a worker, so that one address with a quarter of them has half of what the worker can serve.
 */
#include "route/agent/nginx_conf.h"

#include <string.h>

enum {
        CONNECTIONS = 16384, /* of a worker: a client and a replica each */
};

static const char log_format[] =
        "        log_format sublet escape=json "
        "'{\"time\":\"$time_iso8601\",\"id\":\"$sublet_id\",\"client\":\"$remote_addr\","
        "\"key\":\"$sublet_key\",'\n"
        "                "
        "'\"method\":\"$request_method\",\"path\":\"$uri\",\"status\":$status,\"bytes\":$body_bytes_sent,"
        "\"seconds\":$request_time,'\n"
        "                '\"model\":\"$sublet_model\",\"replica\":\"$sublet_replica\",\"reason\":\"$sublet_reason\","
        "\"prompt\":\"$sublet_prompt\",\"matched\":\"$sublet_matched\",'\n"
        "                "
        "'\"held_ms\":\"$sublet_wait_ms\",\"first_ms\":\"$sublet_first_ms\",\"expected_ms\":\"$sublet_expected_ms\","
        "\"tries\":\"$sublet_tries\",\"stream\":\"$sublet_stream\",'\n"
        "                '\"decision_us\":\"$sublet_decision_us\",\"session\":\"$sublet_session\","
        "\"upstream\":\"$upstream_addr\",\"upstream_status\":\"$upstream_status\"}';\n";

/* For traces.c. The numbers of the spans are parts of the request's, which is made up. */
static const char spans[] =
        "        map $http_traceparent $sublet_trace {\n                default $sublet_id;\n"
        "                "
        "\"~^(?!ff)[0-9a-f]{2}-(?!0{32})(?<sublet_t>[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-|$)\" "
        "$sublet_t;\n        }\n"
        "        map $http_traceparent $sublet_parent {\n                default \"\";\n"
        "                "
        "\"~^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})(?<sublet_p>[0-9a-f]{16})-[0-9a-f]{2}(-|$)\" "
        "$sublet_p;\n        }\n"
        "        map $http_traceparent $sublet_flags {\n                default \"\";\n"
        "                "
        "\"~^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-(?<sublet_f>[0-9a-f]{2})(-|$)\" "
        "$sublet_f;\n        }\n"
        "        map $sublet_flags $sublet_traced {\n                default 0;\n                \"\" "
        "$sublet_sampled;\n"
        "                \"~[13579bdf]$\" 1;\n        }\n"
        "        map $sublet_id $sublet_span {\n                \"~^(?<sublet_s>.{16})\" $sublet_s;\n        }\n"
        "        map $sublet_id $sublet_span_client {\n                \"~(?<sublet_c>.{16})$\" $sublet_c;\n        "
        "}\n"
        "        map $sublet_id $sublet_span_hold {\n                \"~^.{8}(?<sublet_h>.{16})\" $sublet_h;\n        "
        "}\n"
        "        log_format spans escape=json "
        "'{\"trace\":\"$sublet_trace\",\"span\":\"$sublet_span\",\"parent\":\"$sublet_parent\",'\n"
        "                "
        "'\"span_client\":\"$sublet_span_client\",\"span_hold\":\"$sublet_span_hold\",\"end\":\"$msec\","
        "\"seconds\":$request_time,'\n"
        "                "
        "'\"id\":\"$sublet_id\",\"client\":\"$remote_addr\",\"key\":\"$sublet_key\",\"method\":\"$request_method\","
        "\"path\":\"$uri\",\"status\":$status,'\n"
        "                '\"model\":\"$sublet_model\",\"replica\":\"$sublet_replica\",\"reason\":\"$sublet_reason\","
        "\"prompt\":\"$sublet_prompt\",\"matched\":\"$sublet_matched\",'\n"
        "                "
        "'\"held_ms\":\"$sublet_wait_ms\",\"first_ms\":\"$sublet_first_ms\",\"expected_ms\":\"$sublet_expected_ms\","
        "\"tries\":\"$sublet_tries\",'\n"
        "                '\"decision_us\":\"$sublet_decision_us\",\"upstream\":\"$upstream_addr\","
        "\"upstream_status\":\"$upstream_status\"}';\n";

static const char proxy[] = "                        proxy_http_version 1.1;\n"
                            "                        proxy_set_header Host $host;\n"
                            "                        proxy_set_header X-Request-Id $sublet_id;\n"
                            "                        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n"
                            "                        proxy_buffering off;\n"
                            "                        proxy_connect_timeout 1s;\n"
                            "                        proxy_send_timeout 60s;\n"
                            "                        proxy_socket_keepalive on;\n"
                            "                        proxy_ignore_headers X-Accel-Redirect X-Accel-Expires "
                            "X-Accel-Limit-Rate X-Accel-Buffering X-Accel-Charset;\n"
                            "                        proxy_next_upstream error timeout invalid_header non_idempotent;\n"
                            "                        proxy_next_upstream_tries 0;\n"
                            "                        proxy_next_upstream_timeout 0;\n";

static long long whole_msec(nsec span)
{
        return span / NSEC_PER_MSEC;
}

/* Of a worker. */
static unsigned int connections_of(const struct nginx_environment *environment)
{
        return environment->files < CONNECTIONS ? environment->files : CONNECTIONS;
}

static void write_main(FILE *to, const struct settings *settings, const struct nginx_environment *environment)
{
        (void)fprintf(to,
                      "# Written by 'sublet route'. Change its file, not this one.\nload_module \"%s\";\ndaemon off;\n",
                      environment->module);
        if (environment->is_root)
                (void)fprintf(to, "user %s;\n", settings->user);
        if (settings->workers)
                (void)fprintf(to, "worker_processes %u;\n", settings->workers);
        else
                (void)fputs("worker_processes auto;\n", to);
        (void)fprintf(to,
                      "worker_rlimit_nofile %u;\nworker_shutdown_timeout %lldms;\npcre_jit on;\npid \"%s/nginx.pid\";\n"
                      "error_log \"%s/error.log\" warn;\nevents {\n        worker_connections %u;\n}\n",
                      environment->files, whole_msec(settings->drain), environment->dir, environment->dir,
                      connections_of(environment));
}

static void write_keys(FILE *to, const struct settings *settings)
{
        for (size_t i = 0; i < settings->n_keys; i++) {
                const struct settings_key *key = &settings->keys[i];
                uint32_t usec = request_rate_usec(&key->rate);

                (void)fprintf(to, "        sublet_key \"%s\" \"%s\"%s%s", key->name, key->key,
                              key->is_admin ? " admin" : "", key->may_priority ? " priority" : "");
                if (usec)
                        (void)fprintf(to, " rate=%u:%u", usec, key->burst);
                if (key->concurrent)
                        (void)fprintf(to, " concurrent=%u", key->concurrent);
                if (key->tokens)
                        (void)fprintf(to, " tokens=%u", key->tokens);
                (void)fputs(";\n", to);
        }
}

static void write_listens(FILE *to, const struct settings_list *list, const char *options)
{
        for (size_t i = 0; i < list->n; i++)
                (void)fprintf(to, "                listen %s%s;\n", list->at[i], options);
}

/*
 * A browser asks before it sends a key (a preflight), and shows an answer to a page's script only if the answer names
 * the page's origin. Both is of the router's own settings: what replicas say of it is dropped.
 */
static void write_origin_maps(FILE *to, const struct settings *settings)
{
        bool is_any = false;

        for (size_t i = 0; i < settings->origins.n; i++)
                is_any |= !strcmp(settings->origins.at[i], "*");
        (void)fprintf(to, "        map $http_origin $sublet_origin {\n                default \"%s\";\n",
                      is_any ? "*" : "");
        for (size_t i = 0; i < settings->origins.n && !is_any; i++)
                (void)fprintf(to, "                \"%s\" $http_origin;\n", settings->origins.at[i]);
        (void)fputs(
                "        }\n"
                "        map \"$request_method $sublet_origin $http_origin $http_access_control_request_method\" "
                "$sublet_preflight {\n"
                "                default \"\";\n                \"~^OPTIONS [^ ]+ [^ ]+ [A-Z]+$\" 1;\n        }\n"
                "        map $sublet_preflight $sublet_methods {\n"
                "                default \"\";\n                1 \"GET, POST, DELETE\";\n        }\n"
                "        map $sublet_preflight $sublet_headers {\n"
                "                default \"\";\n                1 $http_access_control_request_headers;\n        }\n"
                "        map $sublet_preflight $sublet_age {\n"
                "                default \"\";\n                1 600;\n        }\n"
                "        map $sublet_origin $sublet_exposed {\n"
                "                default \"X-Request-Id, Retry-After\";\n                \"\" \"\";\n        }\n",
                to);
}

static void write_origin_headers(FILE *to)
{
        (void)fputs("                add_header Access-Control-Allow-Origin $sublet_origin always;\n"
                    "                add_header Access-Control-Allow-Methods $sublet_methods always;\n"
                    "                add_header Access-Control-Allow-Headers $sublet_headers always;\n"
                    "                add_header Access-Control-Max-Age $sublet_age always;\n"
                    "                add_header Access-Control-Expose-Headers $sublet_exposed always;\n"
                    "                add_header Vary Origin always;\n"
                    "                proxy_hide_header Access-Control-Allow-Origin;\n"
                    "                proxy_hide_header Access-Control-Allow-Credentials;\n"
                    "                proxy_hide_header Access-Control-Allow-Methods;\n"
                    "                proxy_hide_header Access-Control-Allow-Headers;\n"
                    "                proxy_hide_header Access-Control-Expose-Headers;\n"
                    "                proxy_hide_header Access-Control-Max-Age;\n",
                    to);
}

/* Before a key is asked for. */
static void write_preflight(FILE *to, const struct settings *settings)
{
        if (settings->origins.n)
                (void)fputs("                        if ($sublet_preflight) {\n                                return "
                            "204;\n                        }\n",
                            to);
}

/* Where the module does not ask for a key itself. */
static void write_checks(FILE *to, const struct settings *settings)
{
        write_preflight(to, settings);
        if (settings->n_keys)
                (void)fputs("                        if ($sublet_key = \"\") {\n                                return "
                            "401;\n"
                            "                        }\n",
                            to);
}

/* https:// gives nginx what it needs for TLS; the module says for each try whether it is used. */
static void write_replica_tls(FILE *to, const struct settings *settings)
{
        if (!route_settings_has_tls(settings))
                return;
        (void)fputs("                        proxy_ssl_protocols TLSv1.2 TLSv1.3;\n"
                    "                        proxy_ssl_session_reuse off;\n"
                    "                        proxy_ssl_server_name on;\n"
                    "                        proxy_ssl_name $sublet_server_name;\n",
                    to);
        if (settings->verifies_replicas)
                (void)fprintf(to,
                              "                        proxy_ssl_verify on;\n"
                              "                        proxy_ssl_verify_depth 8;\n"
                              "                        proxy_ssl_trusted_certificate \"%s\";\n",
                              settings->replica_ca);
        if (*settings->replica_certificate)
                (void)fprintf(to,
                              "                        proxy_ssl_certificate \"%s\";\n"
                              "                        proxy_ssl_certificate_key \"%s\";\n",
                              settings->replica_certificate, settings->replica_certificate_key);
}

/* Where a connection may become a websocket. Elsewhere these headers are none, which is known before any request. */
static void write_upgrade(FILE *to, bool may_upgrade)
{
        (void)fprintf(to,
                      "                        proxy_set_header Connection %s;\n"
                      "                        proxy_set_header Upgrade %s;\n",
                      may_upgrade ? "$sublet_connection" : "\"\"", may_upgrade ? "$sublet_upgrade" : "\"\"");
}

static void write_route(FILE *to, const struct settings *settings, const char *where, bool may_upgrade)
{
        (void)fprintf(to, "                location %s {\n", where);
        write_preflight(to, settings);
        (void)fprintf(to, "                        sublet_route pool;\n                        proxy_pass %s://pool;\n",
                      route_settings_has_tls(settings) ? "https" : "http");
        (void)fputs(proxy, to);
        write_upgrade(to, may_upgrade);
        write_replica_tls(to, settings);
        if (*settings->traces)
                (void)fputs("                        proxy_set_header traceparent "
                            "00-$sublet_trace-$sublet_span_client-0$sublet_traced;\n",
                            to);
        (void)fprintf(to, "                        proxy_read_timeout %lldms;\n", whole_msec(settings->read_timeout));
        if (settings->n_keys) /* the router's keys are not for the replicas; what is compressed says no usage */
                (void)fputs("                        proxy_set_header Authorization \"\";\n"
                            "                        proxy_set_header X-Api-Key \"\";\n"
                            "                        proxy_set_header Accept-Encoding \"\";\n"
                            "                        proxy_set_header Sec-WebSocket-Extensions \"\";\n",
                            to);
        (void)fputs("                }\n", to);
}

/* A request line that nginx cannot read has no URI, and a named location refuses those: 500, for a client's mistake. */
static const char error_map[] = "        map $uri $sublet_error_at {\n"
                                "                \"\" /.unreadable;\n                default @error;\n        }\n";
static const char error_pages[] =
        "                error_page 400 414 505 $sublet_error_at;\n"
        "                error_page 401 403 404 405 413 429 494 497 500 501 502 503 504 @error;\n"
        "                location @error {\n                        sublet_error;\n"
        "                }\n"
        "                location = /.unreadable {\n                        internal;\n"
        "                        sublet_error;\n                }\n";

static void write_clients(FILE *to, const struct settings *settings)
{
        if (settings->origins.n)
                write_origin_maps(to, settings);
        (void)fprintf(to, "%s        server {\n", error_map);
        write_listens(to, &settings->listen, "");
        if (*settings->certificate) {
                write_listens(to, &settings->tls_listen, " ssl http2");
                (void)fprintf(to,
                              "                ssl_certificate \"%s\";\n                ssl_certificate_key \"%s\";\n"
                              "                ssl_protocols TLSv1.2 TLSv1.3;\n"
                              "                ssl_session_cache shared:tls:4m;\n",
                              settings->certificate, settings->certificate_key);
        }
        (void)fputs("                add_header X-Request-Id $sublet_id always;\n", to);
        if (settings->origins.n)
                write_origin_headers(to);
        (void)fputs(error_pages, to);
        (void)fputs("                location = /health {\n                        access_log off;\n"
                    "                        return 200 \"ok\\n\";\n                }\n"
                    "                location = /v1/models {\n",
                    to);
        write_checks(to, settings);
        (void)fputs("                        sublet_models pool;\n                }\n"
                    "                location ^~ /v1/models/ {\n",
                    to);
        write_checks(to, settings);
        (void)fputs("                        sublet_models pool;\n                }\n", to);
        write_route(to, settings, "= /v1/realtime", true);
        write_route(to, settings, "/", false);
        (void)fputs("        }\n", to);
}

static void write_ours(FILE *to, const struct settings *settings, const struct nginx_environment *environment)
{
        (void)fprintf(
                to,
                "        server {\n                listen \"unix:%s/api/api.sock\";\n                access_log off;\n"
                "                client_max_body_size 4m;\n                client_body_buffer_size 4m;\n"
                "                location / {\n                        sublet_api pool;\n                }\n        "
                "}\n",
                environment->dir);
        if (!settings->metrics.n)
                return;
        (void)fputs("        server {\n", to);
        write_listens(to, &settings->metrics, "");
        (void)fputs("                access_log off;\n                location = /metrics {\n"
                    "                        sublet_api pool;\n                }\n"
                    "                location / {\n                        return 404;\n                }\n        }\n",
                    to);
}

static void write_http(FILE *to, const struct settings *settings, const struct nginx_environment *environment)
{
        static const char *const temporary[] = { "client_body", "proxy", "fastcgi", "uwsgi", "scgi" };
        bytes body = settings->body;

        (void)fprintf(to,
                      "        sublet_zone pool %llu;\n        upstream pool {\n                sublet pool;\n"
                      "                keepalive 64;\n                keepalive_timeout 3s;\n"
                      "                keepalive_requests 100000;\n        }\n"
                      "        client_max_body_size %llu;\n        client_body_buffer_size %llu;\n"
                      "        http2_max_concurrent_streams 1024;\n        map_hash_bucket_size 512;\n"
                      "        large_client_header_buffers 4 16k;\n"
                      "        keepalive_requests 100000;\n        server_tokens off;\n        gzip off;\n",
                      (unsigned long long)settings->zone, (unsigned long long)body, (unsigned long long)body);
        if (settings->head_time)
                (void)fprintf(to, "        client_header_timeout %lldms;\n", whole_msec(settings->head_time));
        (void)fprintf(to, "        sublet_connections %u;\n",
                      settings->connections ? settings->connections : connections_of(environment) / 4);
        for (size_t i = 0; i < sizeof(temporary) / sizeof(temporary[0]); i++)
                (void)fprintf(to, "        %s_temp_path \"%s/tmp/%s\";\n", temporary[i], environment->dir,
                              temporary[i]);
}

/* "off" would be off for spans, too. */
static void write_logs(FILE *to, const struct settings *settings, const struct nginx_environment *environment)
{
        (void)fputs(log_format, to);
        if (!strcmp(settings->log, "off") && !*settings->traces)
                (void)fputs("        access_log off;\n", to);
        else if (*settings->log && strcmp(settings->log, "off") != 0)
                (void)fprintf(to, "        access_log \"%s\" sublet;\n", settings->log);
        else if (!*settings->log)
                (void)fprintf(to, "        access_log \"%s/requests.log\" sublet;\n", environment->dir);
        if (!*settings->traces)
                return;
        if (settings->traces_sample && settings->traces_sample < 1000)
                (void)fprintf(to, "        split_clients $sublet_id $sublet_sampled {\n                %u.%u%% 1;\n",
                              settings->traces_sample / 10, settings->traces_sample % 10);
        else
                (void)fputs("        map \"\" $sublet_sampled {\n", to);
        (void)fprintf(to, "                %s %d;\n        }\n",
                      settings->traces_sample && settings->traces_sample < 1000 ? "*" : "default",
                      settings->traces_sample >= 1000);
        (void)fputs(spans, to);
        (void)fprintf(
                to,
                "        access_log syslog:server=unix:%s/spans.sock,nohostname,tag=sublet spans if=$sublet_traced;\n",
                environment->dir);
}

void nginx_conf_write(FILE *to, const struct settings *settings, const struct nginx_environment *environment)
{
        write_main(to, settings, environment);
        (void)fputs("http {\n", to);
        write_http(to, settings, environment);
        write_logs(to, settings, environment);
        write_keys(to, settings);
        write_clients(to, settings);
        write_ours(to, settings, environment);
        (void)fputs("}\n", to);
}
