/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/node/install.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "oci/node/files.h"
#include "oci/node/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

/* Locks the prefix, which is made if it is missing, and reads the state: "" where there is none. */
static int begin(const struct install *install, bool makes, int *ret_lock, char **ret_state, struct err *err)
{
        _cleanup_(closep) int lock = -1;
        char place[PLACE];
        size_t size;
        int r;

        (void)snprintf(place, sizeof(place), "%s%s", install->host, install->prefix);
        if (makes && mkdir(place, 0755) < 0 && errno != EEXIST)
                return err_set(err, -errno, "creating %s", place);
        lock = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (lock < 0 || flock(lock, LOCK_EX) < 0)
                return err_set(err, -errno, "opening %s", place);
        (void)snprintf(place, sizeof(place), "%s/state", install->prefix);
        r = install_read(install, place, ret_state, &size);
        if (r == -ENOENT)
                r = (*ret_state = strdup("")) ? 0 : -ENOMEM;
        if (r < 0)
                return err_set(err, r, "reading %s%s", install->host, place);
        *ret_lock = TAKE_FD(lock);
        return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Calls `act` for each directory above a path, from the top. */
static int for_directories(const struct install *install, const char *path,
                           int (*act)(const char *place, const char *dir, void *context), void *context)
{
        char place[PLACE], dir[INSTALL_PATH];
        int r = 0;

        for (const char *slash = strchr(path + 1, '/'); slash && r == 0; slash = strchr(slash + 1, '/')) {
                (void)snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
                (void)snprintf(place, sizeof(place), "%s%s", install->host, dir);
                r = act(place, dir, context);
        }
        return r;
}

static int note_missing(const char *place, const char *dir, void *context)
{
        struct stat status;

        if (stat(place, &status) < 0 && errno == ENOENT)
                state_note(context, "dir ", dir);
        return 0;
}

static int make_missing(const char *place, const char *dir, void *context)
{
        (void)dir;
        if (mkdir(place, 0755) < 0 && errno != EEXIST)
                return err_set(context, -errno, "creating %s", place);
        return 0;
}

struct step {
        const struct install_file *file;
        char *copied;
        const char *bytes;
        size_t size;
        struct stat status; /* of the file that is there; st_ino 0: none */
        bool differs;
};

static void step_done(struct step *step)
{
        free(step->copied);
}

/* Compares a file with what is there (I3). */
static int step_begin(const struct install *install, const struct install_file *file, const char *state,
                      struct step *ret, struct err *err)
{
        _cleanup_(freep) char *there = NULL;
        char place[PLACE];
        struct stat status;
        size_t size = 0;
        int r;

        *ret = (struct step){ .file = file, .bytes = file->bytes, .size = file->bytes ? strlen(file->bytes) : 0 };
        if (!file->bytes) {
                r = file_read(file->from, 0, &ret->copied, &ret->size, &status);
                if (r < 0)
                        return err_set(err, r, "reading %s", file->from);
                ret->bytes = ret->copied;
        }
        (void)snprintf(place, sizeof(place), "%s%s", install->host, file->path);
        r = file_read(place, O_NOFOLLOW, &there, &size, &ret->status);
        if (r < 0 && r != -ENOENT)
                return r == -ELOOP || r == -EINVAL ?
                               err_say(err, r, "%s is a link or no file, and is left alone", place) :
                               err_set(err, r, "reading %s", place);
        if (r < 0)
                ret->status.st_ino = 0;
        ret->differs = r < 0 || size != ret->size || memcmp(there, ret->bytes, size) != 0 ||
                       (!file->is_shared && (ret->status.st_mode & 07777) != file->mode);
        if (r == 0 && ret->differs && !file->is_shared && !state_has(state, "file ", file->path))
                return err_say(err, -EEXIST, "%s is there and not ours: move it away first", place);
        return 0;
}

static int step_end(const struct install *install, struct step *step, struct err *err)
{
        struct stat like = step->status;
        char place[PLACE];
        int r;

        if (!step->file->is_shared || !like.st_ino)
                like = (struct stat){ .st_mode = step->file->mode };
        (void)snprintf(place, sizeof(place), "%s%s", install->host, step->file->path);
        r = for_directories(install, step->file->path, make_missing, err);
        return r < 0 ? r : file_write(place, step->bytes, step->size, &like, err);
}

static int plan_file(const struct install *install, const struct install_file *file, const char *old,
                     struct noting *noting, struct install_result *result, struct err *err)
{
        const char *kind = file->is_shared ? "made " : "file ";
        _cleanup_(step_done) struct step step = { 0 };
        int r = step_begin(install, file, old, &step, err);

        if (r < 0)
                return r;
        if (!step.status.st_ino || state_has(old, kind, file->path))
                state_note(noting, kind, file->path);
        result->n_changed += step.differs;
        result->wakes = result->wakes || (step.differs && file->wakes);
        return 0;
}

/* What is ours after this run: *ret, the caller's. */
static int plan(const struct install *install, const char *old, struct install_result *result, char **ret,
                struct err *err)
{
        struct noting noting = { 0 };
        char path[INSTALL_PATH];
        const char *at = old;
        int r = 0;

        noting.file = open_memstream(&noting.text, &noting.size);
        if (!noting.file)
                return err_set(err, -ENOMEM, "noting what is ours");
        while (state_next(&at, "dir ", path))
                state_note(&noting, "dir ", path);
        for (size_t i = 0; i < install->n; i++)
                (void)for_directories(install, install->files[i].path, note_missing, &noting);
        for (size_t i = 0; i < install->n && r == 0; i++)
                r = plan_file(install, &install->files[i], old, &noting, result, err);
        if (fclose(noting.file) == EOF && r == 0)
                r = err_set(err, -ENOMEM, "noting what is ours");
        *ret = noting.text;
        return r;
}

static int write_all(const struct install *install, const char *old, const char *now, struct err *err)
{
        char path[INSTALL_PATH];
        int r = 0;

        for (size_t i = 0; i < install->n && r == 0; i++) {
                _cleanup_(step_done) struct step step = { 0 };

                r = step_begin(install, &install->files[i], now, &step, err);
                if (r == 0 && step.differs)
                        r = step_end(install, &step, err);
        }
        while (r == 0 && state_next(&old, "file ", path))
                if (!state_has(now, "file ", path))
                        file_remove(install, path);
        return r;
}

int install_apply(const struct install *install, struct install_result *ret, struct err *err)
{
        _cleanup_(freep) char *old = NULL, *now = NULL, *both = NULL;
        _cleanup_(closep) int lock = -1;
        int r = begin(install, true, &lock, &old, err);
        bool was_busy;

        *ret = (struct install_result){ 0 };
        if (r < 0)
                return r;
        was_busy = !strncmp(old, "busy\n", 5);
        r = plan(install, old, ret, &now, err);
        if (r < 0 || (!was_busy && !ret->n_changed && !strcmp(old, now)))
                return r;
        ret->wakes = ret->wakes || was_busy;
        if (asprintf(&both, "busy\n%s%s", now, old + (was_busy ? 5 : 0)) < 0)
                return err_set(err, -ENOMEM, "noting what is ours");
        r = state_write(install, both, err);
        r = r < 0 ? r : write_all(install, old, now, err);
        both[5 + strlen(now)] = '\0'; /* without what was ours before */
        return r < 0 ? r : state_write(install, ret->wakes ? both : now, err);
}

int install_settle(const struct install *install, struct err *err)
{
        _cleanup_(freep) char *state = NULL;
        _cleanup_(closep) int lock = -1;
        int r = begin(install, true, &lock, &state, err);

        return r < 0 || strncmp(state, "busy\n", 5) != 0 ? r : state_write(install, state + 5, err);
}

/* ---- taking back ----------------------------------------------------------------------------- */

/* From the last line to the first: what is in a directory comes behind it. */
static void remove_directories(const struct install *install, char *state)
{
        char place[PLACE];
        char *line;

        for (size_t n = strlen(state); n > 0; n = strlen(state)) {
                state[n - 1] = '\0'; /* its line end */
                line = strrchr(state, '\n');
                line = line ? line + 1 : state;
                if (!strncmp(line, "dir ", 4)) {
                        (void)snprintf(place, sizeof(place), "%s%s", install->host, line + 4);
                        (void)rmdir(place);
                }
                *line = '\0';
        }
}

static int restore(const struct install *install, const char *state, const char *path, const char *shared,
                   const char *least, struct install_result *ret, struct err *err)
{
        _cleanup_(freep) char *there = NULL;
        char place[PLACE], next[PLACE_NEW];
        struct stat status;
        size_t size;

        (void)snprintf(place, sizeof(place), "%s%s", install->host, path);
        file_place_new(place, next);
        (void)unlink(next);
        if (!shared || file_read(place, O_NOFOLLOW, &there, &size, &status) < 0)
                return 0;
        if (state_has(state, "made ", path) && !strcmp(shared, least)) {
                file_remove(install, path);
                ret->n_changed++;
                return 0;
        }
        if (!strcmp(shared, there))
                return 0;
        ret->n_changed++;
        return file_write(place, shared, strlen(shared), &status, err);
}

int install_remove(const struct install *install, const char *path, const char *shared, const char *least,
                   struct install_result *ret, struct err *err)
{
        _cleanup_(freep) char *state = NULL;
        _cleanup_(closep) int lock = -1;
        char of_ours[INSTALL_PATH], place[PLACE];
        const char *at;
        int r;

        *ret = (struct install_result){ 0 };
        r = begin(install, false, &lock, &state, err);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        (void)snprintf(place, sizeof(place), "%s%s", install->host, install->prefix);
        if (!*state) { /* a run that was killed at once has made the prefix, and noted nothing */
                (void)rmdir(place);
                return 0;
        }
        r = restore(install, state, path, shared, least, ret, err);
        if (r < 0)
                return r;
        for (at = state; state_next(&at, "file ", of_ours); ret->n_changed++)
                file_remove(install, of_ours);
        ret->wakes = true;
        remove_directories(install, state);
        (void)snprintf(of_ours, sizeof(of_ours), "%s/state", install->prefix);
        file_remove(install, of_ours);
        (void)rmdir(place);
        return 0;
}
