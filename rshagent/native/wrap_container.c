/* Which container: see wrap_container.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "messages.h"
#include "wrap_container.h"

enum { NAME_MAX_LENGTH = 63 };

static const char suffix[] = ".sock";

/* Whether a container can have this name: a label of RFC 1123. */
static bool is_name(const char *text) {
    const size_t length = strlen(text);
    return length > 0 && length <= NAME_MAX_LENGTH && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == length &&
           text[0] != '-' && text[length - 1] != '-';
}

const char *find_container(const char *folder, const char *wanted, struct sockaddr_un *address, const char **others) {
    static char name[NAME_MAX_LENGTH + 1], names[1024];
    int count = 0;
    bool is_there = false;
    names[0] = '\0';
    *others = names;
    if (wanted && !is_name(wanted))
        end(FAILED, "there is no application container \"%.64s\": a name has 1 to 63 of a-z, 0-9 and -", wanted);
    DIR *sockets = opendir(folder);
    if (!sockets)
        end(FAILED, "there is no application container here: %s: %s; run this in a node of a VirtualCluster with "
            "application containers", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(sockets)) != NULL;) {
        const size_t length = strlen(entry->d_name), name_length = length - strlen(suffix);
        if (length <= strlen(suffix) || strcmp(entry->d_name + name_length, suffix) != 0) continue;
        entry->d_name[name_length] = '\0';
        if (!is_name(entry->d_name)) continue;
        if (!wanted || strcmp(entry->d_name, wanted) == 0) {
            strcpy(name, entry->d_name);
            is_there = true;
        }
        if (strlen(names) + name_length + 3 < sizeof names) strcat(strcat(names, count ? ", " : ""), entry->d_name);
        count++;
    }
    closedir(sockets);
    if (count > 1 && !wanted)
        end(FAILED, "this pod has several application containers: %s; choose one by --container or MPI_WRAP_CONTAINER",
            names);
    if (!is_there) return NULL;
    if (snprintf(address->sun_path, sizeof address->sun_path, "%s/%s%s", folder, name, suffix) >=
        (int)sizeof address->sun_path)
        end(FAILED, "the path of the runner's socket has more than 107 bytes: %s/%s%s", folder, name, suffix);
    return name;
}
