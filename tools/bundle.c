/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the page's files as C, at build time: the rows of src/daemon/api/page/assets.h.
 *
 *      bundle OUT FILE...
 *
 * Each becomes "/NAME", index.html "/" as well. The tag is a hash of the bytes.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const struct {
        const char *ending, *type;
} types[] = {
        { ".html", "text/html; charset=utf-8" },
        { ".css", "text/css; charset=utf-8" },
        { ".js", "text/javascript; charset=utf-8" },
        { ".svg", "image/svg+xml" },
};

static const char *type_of(const char *name)
{
        const char *ending = strrchr(name, '.');

        for (size_t i = 0; ending && i < sizeof(types) / sizeof(types[0]); i++)
                if (!strcmp(ending, types[i].ending))
                        return types[i].type;
        return NULL;
}

static const char *last_part(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* The bytes, and their hash (FNV-1a). A NUL stands behind them: text can be read as such. */
static int write_bytes(FILE *out, const char *path, int number, uint64_t *ret_hash)
{
        FILE *in = fopen(path, "rbe");
        uint64_t hash = 0xcbf29ce484222325u;
        size_t size = 0;
        int byte;

        if (!in) {
                perror(path);
                return -1;
        }
        (void)fprintf(out, "static const unsigned char bytes_%d[] = {", number);
        while ((byte = getc(in)) != EOF) {
                (void)fprintf(out, "%s%d,", size++ % 24 ? "" : "\n", byte);
                hash = (hash ^ (uint64_t)byte) * 0x100000001b3u;
        }
        (void)fprintf(out, "0\n};\n");
        *ret_hash = hash;
        return fclose(in);
}

static void write_row(FILE *out, const char *path, const char *type, int number, uint64_t hash)
{
        (void)fprintf(out, "        { \"/%s\", \"%s\", \"\\\"%016llx\\\"\", bytes_%d, sizeof(bytes_%d) - 1 },\n", path,
                      type, (unsigned long long)hash, number, number);
}

int main(int argc, char **argv)
{
        FILE *out = argc > 2 ? fopen(argv[1], "we") : NULL;
        uint64_t hashes[16];

        if (!out || argc - 2 > (int)(sizeof(hashes) / sizeof(hashes[0]))) {
                (void)fprintf(stderr, "usage: bundle OUT FILE...\n");
                return 2;
        }
        (void)fprintf(out, "#include \"daemon/api/page/assets.h\"\n");
        for (int i = 2; i < argc; i++)
                if (!type_of(argv[i]) || write_bytes(out, argv[i], i, &hashes[i - 2]) != 0)
                        return 1;
        (void)fprintf(out, "const struct page_asset page_assets[] = {\n");
        for (int i = 2; i < argc; i++) {
                const char *name = last_part(argv[i]);

                write_row(out, name, type_of(name), i, hashes[i - 2]);
                if (!strcmp(name, "index.html"))
                        write_row(out, "", type_of(name), i, hashes[i - 2]);
        }
        (void)fprintf(out, "        { 0 },\n};\n");
        return fclose(out) ? 1 : 0;
}
