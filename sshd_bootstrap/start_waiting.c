/* The start gate: a launcher's command begins when the workers' sshds answer. delivery, a sidecar, probes them, and
 * writes `ready` into our folder, or `failed` with an exit code and the reason. Waiting in this container, and not
 * before it, saves one of the kubelet's looks at the pod, once a second.
 * Each file is for one start. Its content is replaced, and the file stays, as only its owner may delete it, which is
 * another uid if ours was not known. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "start_waiting.h"
#include "start_common.h"

enum { SOON_MS = 20, LATER_MS = 200, SOON = 10000 / SOON_MS };

/* Overwrites the file with a text that is no shorter, and returns whether that worked. The file is never empty
 * meanwhile: delivery would not open the gate again after a process that ended at that point. */
static bool say(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool is_said = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) close(fd);
    return is_said;
}

/* Whether the command may begin. A gate that was opened for an earlier start of this container does not count, as
 * workers may have gone since: delivery is asked to check again. */
static bool may_begin(const char *path) {
    char text[LINE_SIZE];
    if (!*read_text(path, text, sizeof text) || strcmp(text, "again") == 0) return false;
    if (strcmp(text, "taken") == 0) return !say(path, "again");
    (void)say(path, "taken");
    return true;
}

/* Ends with delivery's exit code. delivery checks again once the file is empty, for a restarted container. */
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
