/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/field.h"

#include <string.h>
#include <wchar.h>
#include <wctype.h>

uint64_t field_number(const json_t *object, const char *name)
{
        const json_t *value = json_object_get(object, name);
        double real = json_number_value(value);

        if (json_is_integer(value) && json_integer_value(value) > 0)
                return (uint64_t)json_integer_value(value);
        return real > 0 && real < 0x1p63 ? (uint64_t)real : 0;
}

double field_real(const json_t *object, const char *name)
{
        return json_number_value(json_object_get(object, name));
}

double field_permille(const json_t *object, const char *name)
{
        double value = field_real(object, name);

        return value > 1000 ? 1000 : value > 0 ? value : 0;
}

nsec field_moment(const json_t *object, const char *name)
{
        double seconds = field_real(object, name);

        return seconds > 0 && seconds < 7258118400.0 ? (nsec)(seconds * 1e9) : 0;
}

const char *field_text(const json_t *object, const char *name)
{
        const char *text = json_string_value(json_object_get(object, name));

        return text ? text : "";
}

bool field_is(const json_t *object, const char *name)
{
        return json_is_true(json_object_get(object, name));
}

json_t *field_array(const json_t *object, const char *name)
{
        json_t *array = json_object_get(object, name);

        return json_is_array(array) ? array : NULL;
}

const char *field_clean(const char *text, char *buffer, size_t size)
{
        size_t length = strlen(text), n = 0;
        mbstate_t state = { 0 };

        while (length) {
                wchar_t c;
                size_t used = mbrtowc(&c, text, length, &state);
                bool prints =
                        used != 0 && used != (size_t)-1 && used != (size_t)-2 && iswprint((wint_t)c) && wcwidth(c) > 0;

                if (!prints) {
                        state = (mbstate_t){ 0 };
                        used = used == 0 || used > length ? 1 : used;
                }
                if (n + (prints ? used : 1) + 1 > size)
                        break;
                if (prints)
                        memcpy(buffer + n, text, used);
                else
                        buffer[n] = '?';
                n += prints ? used : 1;
                text += used;
                length -= used;
        }
        buffer[n] = '\0';
        return buffer;
}
