/* sshd's ForceCommand. sshd passes almost nothing of its own environment to a session, and an image's LD_LIBRARY_PATH,
 * or what the job's template sets, must reach the ranks: the first process saves it in a file, and sessions read it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "start_session.h"
#include "start_common.h"

static const char kept[] = "environment";

/* It may hold secrets, so only this uid may read it. */
void save_environment(void) {
    char *path = beside(kept), *part = beside(".environment.part");
    unlink(part);
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    for (char **variable = environ; file && *variable; variable++) fwrite(*variable, strlen(*variable) + 1, 1, file);
    if (!file || fclose(file) != 0 || rename(part, path) < 0)
        end(VOLUME, "%s can't be written by uid %u: %s", path, (unsigned)geteuid(), strerror(errno));
    free(path);
    free(part);
}

/* Whether sshd sets it for each session, so that the container's own does not apply. */
static bool is_sessions(const char *variable) {
    static const char *const names[] = {"USER=", "LOGNAME=", "HOME=", "SHELL=", "MAIL=", "TERM=", "SSH_"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0) return true;
    return false;
}

enum { KEPT_MAX = 16 << 20 }; /* execve takes far less */

/* The saved variables, each with its NUL, except perhaps the last if another program wrote the file; none for another
 * user than the one who started sshd. */
static char *read_kept(size_t *size) {
    struct stat found;
    int fd = open(beside(kept), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    bool is_file = fd >= 0 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size <= KEPT_MAX;
    char *text = is_file ? malloc((size_t)found.st_size + 1) : NULL;
    ssize_t n = 1;
    *size = 0;
    while (text && *size < (size_t)found.st_size && n != 0) { /* it may have become shorter since */
        n = read(fd, text + *size, (size_t)found.st_size - *size);
        if (n < 0 && errno != EINTR) break;
        *size += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0) close(fd);
    if (text) text[*size] = '\0';
    return text;
}

static void use_kept_environment(void) {
    size_t size, count = 1; /* a last one without its end */
    bool has_path = false;
    char *text = read_kept(&size);
    if (!text) return;
    for (char **variable = environ; *variable; variable++) count++;
    for (size_t at = 0; at < size; at++) count += text[at] == '\0';
    char **all = calloc(count + 1, sizeof *all), **next = all;
    if (!all) end(VOLUME, "out of memory");
    for (char *at = text; at < text + size; at += strlen(at) + 1) {
        has_path |= strncmp(at, "PATH=", 5) == 0;
        if (strchr(at, '=') && !is_sessions(at)) *next++ = at;
    }
    for (char **variable = environ; *variable; variable++)
        if (is_sessions(*variable) || (!has_path && strncmp(*variable, "PATH=", 5) == 0)) *next++ = *variable;
    environ = all;
}

void run_session(void) {
    static char login[FILENAME_MAX];
    char *command = getenv("SSH_ORIGINAL_COMMAND");
    use_kept_environment();
    unsetenv("SSH_ORIGINAL_COMMAND"); /* sessions without a ForceCommand have none */
    const char *shell = getenv("SHELL");
    if (!shell || !*shell) shell = "/bin/sh";
    const char *slash = strrchr(shell, '/'), *name = slash ? slash + 1 : shell;
    snprintf(login, sizeof login, "-%s", name);
    if (command && *command) execl(shell, name, "-c", command, (char *)NULL);
    else execl(shell, login, (char *)NULL);
    int failed = errno; /* of this session: the container keeps running */
    dprintf(STDERR_FILENO, "sshd-start: %s can't be run: %s\n", shell, strerror(failed));
    exit(failed == ENOENT ? MISSING : NOT_EXECUTABLE);
}
