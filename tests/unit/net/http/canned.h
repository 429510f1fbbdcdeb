/* SPDX-License-Identifier: Apache-2.0 */
/* A server of one answer, for the tests of the clients: whatever it is asked, it says that, and keeps the request. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

struct server {
        char dir[64], base[96], /* DIR/sublet.sock, as an HTTP client's base */
                request[4096];
        const char *_Atomic answer; /* NULL: it hangs up; "": it waits until the client leaves */
        int listener;
        pthread_t thread;
};

int server_start(void **state);
int server_stop(void **state);

#define HEAD(status) "HTTP/1.1 " status "\r\nConnection: close\r\n\r\n"
