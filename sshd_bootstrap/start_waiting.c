/* A launcher's command begins when the workers' sshds answer. delivery asks them, in a container beside this one, and
 * leaves `ready` in our folder, or `failed` with an exit code and why. Waiting in here, and not before this container,
 * saves one of the looks at a pod that the kubelet takes each second.
 * Each is for one start: what it says is taken out of it, for to take it away is for its owner alone, and where the uid
 * was not known that is another. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "start.h"

enum { SOON_MS = 20, LATER_MS = 200, SOON = 10000 / SOON_MS };

/* Whether the file could be made to say this, which is no shorter than what it says: it is never empty meanwhile, as
 * nobody would give a word to who comes after one that ended there. */
static bool say(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool is_said = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) close(fd);
    return is_said;
}

/* Whether the command may begin. What an earlier start of this container was told is no word for this one, as workers
 * may have gone since: delivery is asked to look again. */
static bool may_begin(const char *path) {
    char text[LINE_SIZE];
    if (!*read_text(path, text, sizeof text) || strcmp(text, "again") == 0) return false;
    if (strcmp(text, "taken") == 0) return !say(path, "again");
    (void)say(path, "taken");
    return true;
}

/* Ends as delivery did, which looks again once the file is empty, for a container that is started again. */
static void give_up(const char *path) {
    char text[LINE_SIZE], *line;
    if (!*read_text(path, text, sizeof text)) return;
    (void)!truncate(path, 0);
    long code = strtol(text, &line, 10);
    end(code > 0 && code < 256 ? (int)code : VOLUME, "%s", *line ? line + 1 : line); /* never a success */
}

void run_when_ready(char **words) {
    if (!*words) end(USAGE, "usage: sshd-start --when-ready COMMAND ARGUMENT...");
    end_by((int[]){SIGTERM, SIGINT, SIGHUP, SIGQUIT}, 4);
    const char *ready = beside("ready"), *failed = beside("failed");
    for (int looks = 0; !may_begin(ready); looks += looks < SOON) {
        give_up(failed);
        nanosleep(&(struct timespec){.tv_nsec = (looks < SOON ? SOON_MS : LATER_MS) * 1000000L}, NULL);
    }
    execvp(words[0], words);
    int why = errno;
    end(why == ENOENT ? MISSING : NOT_EXECUTABLE, "%s can't be run: %s", words[0], strerror(why));
}
