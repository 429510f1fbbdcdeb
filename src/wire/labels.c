/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/labels.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

bool label_word_is_good(const char *word, size_t size)
{
        for (size_t i = 0; i < size; i++)
                if (!isascii(word[i]) || (!isalnum((unsigned char)word[i]) && (!word[i] || !strchr("._/-", word[i]))))
                        return false;
        return size >= 1 && size <= LABEL_PART && isalnum((unsigned char)word[0]);
}

/* Whether one of them has this name. *ret_n: how many there are. */
static bool has_name(const char *labels, const char *name, size_t size, unsigned int *ret_n)
{
        bool is_there = false;

        *ret_n = 0;
        while (*labels) {
                is_there = is_there || (!strncmp(labels, name, size) && labels[size] == '=');
                ++*ret_n;
                labels += strcspn(labels, ",");
                labels += *labels == ',';
        }
        return is_there;
}

static int labels_append(char labels[static LABELS_TEXT], const char *label, size_t size)
{
        const char *equal = memchr(label, '=', size);
        size_t used = strlen(labels), name = equal ? (size_t)(equal - label) : 0;
        unsigned int n;

        if (!equal || !label_word_is_good(label, name) || !label_word_is_good(equal + 1, size - name - 1))
                return -EINVAL;
        if (has_name(labels, label, name, &n))
                return -EEXIST;
        if (n == LABELS_MOST || used + size + 2 > LABELS_TEXT)
                return -ENOSPC;
        (void)snprintf(labels + used, LABELS_TEXT - used, "%s%.*s", used ? "," : "", (int)size, label);
        return 0;
}

int labels_add(char labels[static LABELS_TEXT], const char *label)
{
        return labels_append(labels, label, strlen(label));
}

bool labels_are_good(const char *labels)
{
        char copy[LABELS_TEXT] = "";

        while (*labels) {
                size_t size = strcspn(labels, ",");

                if (labels_append(copy, labels, size) < 0 || (labels[size] == ',' && !labels[size + 1]))
                        return false;
                labels += size + (labels[size] == ',');
        }
        return true;
}

json_t *labels_new(const char *labels)
{
        json_t *object = json_object();

        while (object && *labels) {
                size_t size = strcspn(labels, ","), name = strcspn(labels, "=");
                char key[LABEL_PART + 1];

                if (name >= size || name > LABEL_PART)
                        break;
                (void)snprintf(key, sizeof(key), "%.*s", (int)name, labels);
                (void)json_object_set_new(object, key, json_stringn(labels + name + 1, size - name - 1));
                labels += size + (labels[size] == ',');
        }
        return object;
}

bool labels_read(const json_t *object, char ret[static LABELS_TEXT])
{
        const char *name;
        json_t *value;

        *ret = '\0';
        if (object && !json_is_object(object) && !json_is_null(object))
                return false;
        json_object_foreach ((json_t *)object, name, value) {
                char label[2 * LABEL_PART + 2];

                if (!json_is_string(value) || strlen(name) > LABEL_PART || json_string_length(value) > LABEL_PART)
                        return false;
                (void)snprintf(label, sizeof(label), "%s=%s", name, json_string_value(value));
                if (labels_add(ret, label) < 0)
                        return false;
        }
        return true;
}
