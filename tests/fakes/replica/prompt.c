/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/replica.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct text {
        char *data;
        size_t size, room;
};

static void text_done(struct text *text)
{
        free(text->data);
}

static int text_append(struct text *text, const char *data, size_t size)
{
        if (text->size + size > text->room) {
                size_t room = 2 * (text->size + size) + 1024;
                char *grown = realloc(text->data, room);

                if (!grown)
                        return -ENOMEM;
                text->data = grown;
                text->room = room;
        }
        memcpy(text->data + text->size, data, size);
        text->size += size;
        return 0;
}

static uint64_t mix(uint64_t hash, const char *data, size_t size)
{
        for (size_t i = 0; i < size; i += 8) {
                uint64_t word = 0;

                memcpy(&word, data + i, size - i < 8 ? size - i : 8);
                hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
                hash ^= hash >> 29;
        }
        return hash;
}

/* An image costs 256 tokens; which ones depends on its URL or bytes. */
static int add_image(struct text *text, const char *url)
{
        uint64_t hash = mix(7, url, strlen(url));
        int r = 0;

        for (uint64_t i = 0; r == 0 && i < 128; i++) {
                uint64_t word = (hash + i) * 0x9e3779b97f4a7c15u;

                r = text_append(text, (const char *)&word, sizeof(word));
        }
        return r;
}

static int add_content(struct text *text, json_t *content)
{
        json_t *part;
        size_t i;

        if (json_is_string(content))
                return text_append(text, json_string_value(content), json_string_length(content));
        json_array_foreach (content, i, part) {
                json_t *words = json_object_get(part, "text"), *image = json_object_get(part, "image_url");
                int r = 0;

                if (json_is_object(image))
                        image = json_object_get(image, "url");
                if (json_is_string(words))
                        r = text_append(text, json_string_value(words), json_string_length(words));
                else if (json_is_string(image))
                        r = add_image(text, json_string_value(image));
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_messages(struct text *text, json_t *messages)
{
        json_t *message;
        size_t i;

        json_array_foreach (messages, i, message) {
                const char *role = json_string_value(json_object_get(message, "role"));

                if (!role || text_append(text, role, strlen(role)) < 0 || text_append(text, ":", 1) < 0 ||
                    add_content(text, json_object_get(message, "content")) < 0)
                        return -EINVAL;
        }
        return json_array_size(messages) > 0 ? 0 : -EINVAL;
}

static int add_tools(struct text *text, json_t *tools, struct answer *answer)
{
        json_t *first = json_array_get(tools, 0), *function = json_object_get(first, "function");
        const char *name = json_string_value(json_object_get(function ? function : first, "name"));
        _cleanup_(freep) char *words = tools ? json_dumps(tools, JSON_COMPACT) : NULL;

        if (name)
                (void)snprintf(answer->tool, sizeof(answer->tool), "%s", name);
        return words ? text_append(text, words, strlen(words)) : 0;
}

static int add_inputs(struct text *text, json_t *input, struct answer *answer)
{
        json_t *one;
        size_t i;

        answer->n_inputs = json_is_array(input) ? (uint32_t)json_array_size(input) : 1;
        if (json_is_string(input))
                return add_content(text, input);
        json_array_foreach (input, i, one)
                if (json_is_string(one) && add_content(text, one) < 0)
                        return -ENOMEM;
        return json_is_array(input) && answer->n_inputs > 0 ? 0 : -EINVAL;
}

static int collect(struct text *text, json_t *body, struct answer *answer)
{
        json_t *input = json_object_get(body, "input"), *prompt = json_object_get(body, "prompt");

        if (add_tools(text, json_object_get(body, "tools"), answer) < 0)
                return -ENOMEM;
        switch (answer->kind) {
        case ANSWER_CHAT:
                return add_messages(text, json_object_get(body, "messages"));
        case ANSWER_COMPLETION:
                return prompt ? add_inputs(text, prompt, answer) : -EINVAL;
        case ANSWER_RESPONSE:
                return json_is_array(input) ? add_messages(text, input) : input ? add_content(text, input) : -EINVAL;
        case ANSWER_EMBEDDING:
                return input ? add_inputs(text, input, answer) : -EINVAL;
        }
        return -EINVAL;
}

int prompt_read(json_t *body, struct answer *answer, uint32_t block)
{
        _cleanup_(text_done) struct text text = { 0 };
        size_t size = (size_t)block * 4, n_keys;
        uint64_t hash = 1;
        int r;

        r = collect(&text, body, answer);
        if (r < 0)
                return r;
        n_keys = text.size / size;
        answer->keys = calloc(n_keys + 1, sizeof(*answer->keys));
        if (!answer->keys)
                return -ENOMEM;
        for (size_t i = 0; i < n_keys; i++)
                answer->keys[i] = hash = mix(hash, text.data + i * size, size);
        answer->request.keys = answer->keys;
        answer->request.input = text.size < 4 ? 1 : (uint32_t)(text.size / 4);
        return 0;
}
