/* SPDX-License-Identifier: Apache-2.0 */
/* What a runtime says: bounded texts within their alphabets, and a state that is whole is not called cut off; the same
 * bytes as a config.json. */
#include "oci/state.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require(int holds)
{
        if (!holds)
                abort();
}

static void check_container(const struct oci_container *container)
{
        char line[512];

        require(container->id[0] && strlen(container->id) < sizeof(container->id) && !strchr(container->id, '/'));
        require(container->pid >= 0 && container->process >= 0);
        require(!container->bundle[0] || container->bundle[0] == '/');
        require(!strpbrk(container->pod, "/\n \"") && !strpbrk(container->namespace, "/\n \"") &&
                !strpbrk(container->name, "/\n \"") && !strpbrk(container->container, "/\n \""));
        require(strlen(oci_container_format(container, line)) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct oci_container container;
        static struct oci_request request;
        const char *text = (const char *)data, *wrong = NULL;
        int r = oci_state_parse(text, size, &container, &wrong);

        require(r == 0 || r == OCI_E_NOT_WHOLE || (r < 0 && wrong));
        if (r == 0)
                check_container(&container);
        memset(&request, 0, sizeof(request));
        r = oci_config_parse(text, size, &request, &wrong);
        require(r == 0 || (r < 0 && wrong));
        if (r == 0)
                require(memchr(request.mem, 0, sizeof(request.mem)) && memchr(request.gpus, 0, sizeof(request.gpus)) &&
                        !strchr(request.mem, '\n'));
        return 0;
}
