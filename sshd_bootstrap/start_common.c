/* What each use of sshd-start needs. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "start_common.h"

static char folder[FILENAME_MAX]; /* ours, with a slash at its end */

void end(int code, const char *format, ...) {
    char line[LINE_SIZE] = "sshd-start: ";
    va_list values;
    va_start(values, format);
    vsnprintf(line + strlen(line), sizeof line - strlen(line) - 1, format, values);
    va_end(values);
    int log = open("/dev/termination-log", O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK);
    if (log >= 0) (void)!write(log, line, strlen(line));
    strcat(line, "\n");
    (void)!write(STDERR_FILENO, line, strlen(line));
    exit(code);
}

void find_folder(void) {
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    char *slash = length > 0 ? strrchr(folder, '/') : NULL;
    if (!slash) end(VOLUME, "/proc can't be read: %s", strerror(errno));
    slash[1] = '\0';
}

char *beside(const char *name) {
    char *path;
    if (asprintf(&path, "%s%s", folder, name) < 0) end(VOLUME, "out of memory");
    return path;
}

char *take(int fd, char *text, size_t size) {
    size_t length = 0;
    for (ssize_t n; fd >= 0 && length < size - 1; length += (size_t)n) {
        n = read(fd, text + length, size - 1 - length);
        if (n < 0 && errno == EINTR) n = 0;
        else if (n <= 0) break;
    }
    if (fd >= 0) close(fd);
    text[length] = '\0';
    for (char *nul = text; (nul = memchr(nul, '\0', (size_t)(text + length - nul))) != NULL;) *nul = '\n';
    return text;
}

char *read_text(const char *path, char *text, size_t size) {
    return take(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), text, size);
}

static void stop(int number) { _exit(128 + number); }

void end_by(const int *numbers, size_t count) {
    struct sigaction now, ends = {.sa_handler = stop};
    for (size_t i = 0; i < count; i++)
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) sigaction(numbers[i], &ends, NULL);
}
