/* SPDX-License-Identifier: Apache-2.0 */
/* Runs every file of a directory through a fuzz target once: a corpus is a test everywhere. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void replay(const char *directory, const char *name)
{
        static uint8_t data[1 << 20];
        char path[4096];
        FILE *file;

        (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
        file = fopen(path, "rb");
        if (!file) {
                printf("not ok - %s cannot be read\n", name);
                return;
        }
        (void)LLVMFuzzerTestOneInput(data, fread(data, 1, sizeof(data), file));
        (void)fclose(file);
        printf("ok - %s\n", name);
}

int main(int argc, char **argv)
{
        struct dirent **entries;
        int n, n_files = 0;

        n = argc == 2 ? scandir(argv[1], &entries, NULL, alphasort) : -1;
        if (n < 0) {
                fprintf(stderr, "usage: replay DIRECTORY-OF-A-CORPUS\n");
                return 2;
        }
        for (int i = 0; i < n; i++) {
                if (entries[i]->d_name[0] != '.') {
                        replay(argv[1], entries[i]->d_name);
                        n_files++;
                }
                free(entries[i]);
        }
        free(entries);
        printf("1..%d\n", n_files);
        return 0;
}
