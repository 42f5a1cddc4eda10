/* Reads a hostfile. A line is `HOST`, `HOST slots=N` (any name=number) or `HOST:N`; `#` begins a comment.
 *
 * A host becomes an argument of the agent, so it is only what can be a host's name or address: no option of ssh's.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostfile.h"

static const char blanks[] = " \t\r\n\f\v";

static char *failure(const char *path, size_t number, const char *what, const char *word) {
    char *text;
    if (asprintf(&text, "%s, line %zu: %s %.*s", path, number, what, 64, word) < 0) return strdup("out of memory");
    for (char *at = text; *at; at++)
        if (!isprint((unsigned char)*at)) *at = '?'; /* it goes to a terminal */
    return text;
}

static int is_number(const char *text) { return *text && strspn(text, "0123456789") == strlen(text); }

static int is_host(const char *text) {
    for (const char *at = text; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-@:/%", *at)) return 0;
    const char *name = strchr(text, '@') ? strchr(text, '@') + 1 : text;
    return *text != '-' && *name && *name != '-' && name != text + 1;
}

/* Takes `:N` from a host's name. An IPv6 address has several colons, and keeps them. */
static int take_slots(char *host) {
    char *colon = strchr(host, ':');
    if (!colon || colon != strrchr(host, ':')) return 1;
    *colon = '\0';
    return is_number(colon + 1);
}

char **read_hostfile(const char *path, size_t *count, char **error) {
    FILE *file = fopen(path, "re");
    char *line = NULL, **hosts = NULL;
    size_t size = 0, number = 0;
    *count = 0;
    *error = NULL;
    while (file && !*error && getline(&line, &size, file) >= 0) {
        number++;
        line[strcspn(line, "#")] = '\0';
        char *rest = NULL, *host = strtok_r(line, blanks, &rest);
        if (!host) continue;
        if (!take_slots(host)) *error = failure(path, number, "slots must be a number after", host);
        else if (!is_host(host)) *error = failure(path, number, "this can't be a host:", host);
        for (char *word; !*error && (word = strtok_r(NULL, blanks, &rest)) != NULL;) {
            char *value = strchr(word, '=');
            if (!value || value == word || !is_number(value + 1))
                *error = failure(path, number, "expected name=number, found", word);
        }
        char **more = realloc(hosts, (*count + 1) * sizeof *hosts);
        if (more) hosts = more;
        if (!more || !(hosts[(*count)++] = strdup(host))) *error = strdup("out of memory");
    }
    if (!*error && (!file || ferror(file)) && asprintf(error, "%s can't be read: %s", path, strerror(errno)) < 0)
        *error = strdup("out of memory");
    if (!*error && !*count && asprintf(error, "%s names no host", path) < 0) *error = strdup("out of memory");
    if (file) fclose(file);
    return *error ? NULL : hosts;
}
