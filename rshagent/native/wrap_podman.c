/*
 * mpi-wrap --podman: see wrap_podman.h.
 *
 * The container's entrypoint is our mpi-runner, which gets one end of a connection as an open file. So it knows when
 * mpi-wrap is gone, however and whenever that ends (a launcher kills its process group): it then ends what it has
 * started, and podman's monitor removes the container. podman itself is in a group of its own, and may finish its start.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "messages.h"
#include "wrap_podman.h"

enum { CONNECTION = 3, ARGUMENTS_MAX = 256 }; /* --preserve-fds counts from 3 */

#define RUNNER "/run/mpi-runner" /* in the container */

static pid_t podman;
static size_t count;
static char *command[ARGUMENTS_MAX]; /* podman's, which ends with NULL */

static void add(const char *argument) {
    if (count == ARGUMENTS_MAX - 1) end(FAILED, "CONTAINER_ARGS has more than about %d arguments", ARGUMENTS_MAX);
    if (!(command[count++] = strdup(argument))) end(FAILED, "out of memory");
}

static void add_volume(const char *from, const char *to) {
    char option[2 * PATH_MAX + 16];
    snprintf(option, sizeof option, "--volume=%s:%s", from, to);
    add(option);
}

/* mpi-runner is in the folder of mpi-wrap. */
static void add_runner(void) {
    char path[PATH_MAX + 16] = "";
    if (readlink("/proc/self/exe", path, PATH_MAX - 1) < 0)
        end(FAILED, "/proc/self/exe can't be read: %s", strerror(errno));
    strcpy(strrchr(path, '/') + 1, "mpi-runner");
    if (access(path, X_OK) < 0) end(FAILED, "%s is needed for --podman: %s", path, strerror(errno));
    add_volume(path, RUNNER ":ro");
    add("--entrypoint=" RUNNER);
}

/* The pod's namespaces, as ranks find their daemon and each other by network, process id, shared memory and host name.
 * Ranks read each other's memory (CMA), for which Linux wants SYS_PTRACE. */
static void make_command(const char *image) {
    static const char *const shared[] = {"run", "--rm", "--detach", "--network=host", "--pid=host", "--ipc=host",
                                         "--uts=host", "--cgroups=no-conmon", "--cap-add=sys_ptrace",
                                         "--log-driver=none", "--preserve-fds=1", "--ulimit=host",
                                         "--volume=/dev/shm:/dev/shm"};
    const char *more = getenv("CONTAINER_ARGS"), *debug = getenv("WRAP_DEBUG");
    const char *sessions = getenv("PMIX_SERVER_TMPDIR");
    const bool is_debug = debug && *debug;
    add("podman");
    if (!is_debug) add("--log-level=error");
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) add(shared[i]);
    if (sessions && *sessions == '/' && sessions[1] && access(sessions, F_OK) == 0) add_volume(sessions, sessions);
    add_runner();
    char *copy = strdup(more ? more : "");
    for (char *one = copy ? strtok(copy, " \t\n") : NULL; one; one = strtok(NULL, " \t\n")) add(one);
    free(copy);
    add(image);
    add("--connection");
    add("3"); /* CONNECTION */
    for (size_t i = 0; is_debug && i < count; i++)
        fprintf(stderr, "%s%s%s", i ? " " : "mpi-wrap: ", command[i], i == count - 1 ? "\n" : "");
}

int start_podman(const char *image) {
    int ends[2];
    sigset_t none;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    make_command(image);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) end(FAILED, "no socket: %s", strerror(errno));
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0); /* the container's id */
    posix_spawn_file_actions_adddup2(&files, ends[1], CONNECTION);
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&how, &none);
    unsetenv("MPI_AGENT_MARK"); /* a session's end is ours: podman sees its start to the end, and leaves no half container */
    int error = posix_spawnp(&podman, command[0], &files, &how, command, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    if (error)
        end(FAILED, "podman can't be started: %s; is it installed in this image, and in PATH (%s)?", strerror(error),
            getenv("PATH"));
    close(ends[1]);
    return ends[0];
}

_Noreturn void explain_podman(const char *image) {
    int status = 0;
    waitpid(podman, &status, 0);
    if (WIFSIGNALED(status)) end(FAILED, "podman was ended by signal %d; nothing was started", WTERMSIG(status));
    if (WEXITSTATUS(status))
        end(FAILED, "podman started no container from %s (its exit code is %d, the reason is above); nothing was started",
            image, WEXITSTATUS(status));
    end(FAILED, "the container from %s ended before anything was started in it; is its mpi-runner of this release?", image);
}
