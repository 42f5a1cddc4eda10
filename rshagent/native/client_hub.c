/*
 * What the client does where no hub was set up for it: it starts one for its container.
 *
 * This is apart from client.c because it is about processes and files, and that is about the protocol. The hub's folder
 * is `hub` beside the client. Where that can't be made, or is another user's, it is one in /tmp or /dev/shm, named by
 * the user and the mount namespace: both may be shared by several containers, or pods. A hub has one namespace for all
 * of its clients, so MPI_AGENT_NAMESPACE is part of the folder's name. It holds
 *   lock      who starts the hub holds it by flock(2); the hub inherits that, so it is free when no hub is there.
 *             Its content is where in the log the last start began, until that hub serves and empties the file:
 *             who gets the lock and finds a start in it that is younger than itself knows that it has failed
 *   hub.sock  what the hub listens at
 *   log       what the hub writes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client_hub.h"
#include "messages.h"

#ifndef SYS_close_range
#define SYS_close_range 436 /* on all architectures */
#endif

enum { PATH_SIZE = FILENAME_MAX + 128, LOCK = 3 /* the hub's descriptor of it */ };

const char *setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

int64_t wall_clock_ms(void) { /* the one that files are stamped by */
    struct timespec t;
    clock_gettime(CLOCK_REALTIME_COARSE, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool is_set_up(const char *socket) {
    char folder[FILENAME_MAX];
    const char *slash = strrchr(socket, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - socket) + 1 : 1, slash ? socket : ".");
    return access(folder, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* The path of a file beside the client: by its executable, as a #! line or a link may have led to it. */
static char *beside(char path[PATH_SIZE], const char *name) {
    ssize_t length = readlink("/proc/self/exe", path, FILENAME_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    strcpy(slash ? slash + 1 : path, name);
    return path;
}

static char folder[PATH_SIZE]; /* the hub's */

static char *in_folder(char path[PATH_SIZE], const char *name) {
    snprintf(path, PATH_SIZE, "%.*s/%s", (int)sizeof folder - 16, folder, name);
    return path;
}

/* -1, or a descriptor that is none of the launcher's stdin, stdout and stderr, should one of those be closed. */
static int open_lock(void) {
    char path[PATH_SIZE];
    int fd = open(in_folder(path, "lock"), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    int lock = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (fd >= 0) close(fd);
    return lock;
}

static int lock = -1; /* open, and perhaps taken, from own_hub to start_own_hub */

/* What the folder's name ends with. */
static const char *of_namespace(void) {
    static char end[80];
    const char *name = setting("MPI_AGENT_NAMESPACE", "");
    if (*name && strlen(name) < sizeof end - 1 && !strchr(name, '/')) snprintf(end, sizeof end, "-%s", name);
    return end;
}

/* Makes the folder, and takes it if nobody else can write to it: there we would run what they want. */
static bool take_folder(void) {
    char path[PATH_SIZE];
    struct stat found;
    mkdir(folder, 0700);
    if (lstat(folder, &found) < 0 || !S_ISDIR(found.st_mode) || found.st_uid != geteuid() || found.st_mode & 022)
        return false;
    if (strlen(in_folder(path, "hub.sock")) >= sizeof ((struct sockaddr_un *)NULL)->sun_path) return false;
    if (lock >= 0) close(lock);
    lock = open_lock();
    return lock >= 0 && (flock(lock, LOCK_EX | LOCK_NB) == 0 || errno == EWOULDBLOCK);
}

/* Where everybody may write, only the sticky bit keeps others from putting a folder of theirs in our folder's place. */
static bool take_folder_in(const char *place) {
    struct stat at, space = {0};
    stat("/proc/self/ns/mnt", &space);
    snprintf(folder, sizeof folder, "%s/.mpi-agents-%u-%llu%s", place, (unsigned)geteuid(),
             (unsigned long long)space.st_ino, of_namespace());
    return stat(place, &at) == 0 && (!(at.st_mode & 022) || at.st_mode & S_ISVTX) && take_folder();
}

const char *own_hub(const char *socket) {
    static char path[PATH_SIZE];
    if (access(beside(path, "rshagent-direct"), X_OK) < 0)
        end(FAILED, "no hub is set up: there is no folder for %s, and %s can't be run instead (%s); mount the hub's "
            "volume there, or deliver the tool direct", socket, path, strerror(errno));
    strcat(beside(folder, "hub"), of_namespace());
    if (!take_folder() && !take_folder_in("/tmp") && !take_folder_in("/dev/shm"))
        end(FAILED, "no hub can be started: neither %s nor a folder in /tmp or /dev/shm can be made that only this user "
            "may write to; mount an emptyDir volume with medium Memory at /dev/shm", strcat(beside(path, "hub"), of_namespace()));
    return in_folder(path, "hub.sock");
}

/* The hub, in a child of ours: nothing of the launcher's but its environment. */
static _Noreturn void become_hub(int log, const char *socket) {
    char path[PATH_SIZE];
    sigset_t none;
    setsid(); /* what ends the launcher's process group is not meant for it */
    signal(SIGHUP, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    fcntl(lock, F_SETFD, 0);
    dup2(lock, LOCK);
    if (syscall(SYS_close_range, LOCK + 1, ~0U, 0) < 0) /* before Linux 5.9 */
        for (int fd = LOCK + 1; fd < 65536; fd++) close(fd);
    setenv("MPI_AGENT_SERVE", socket, 1);
    if (chdir("/") == 0) execl(beside(path, "rshagent-direct"), path, (char *)NULL);
    dprintf(STDERR_FILENO, "%s can't be run: %s\n", path, strerror(errno));
    _exit(127);
}

/* The last line that a hub wrote since `begin`: why it did not come to serve. Any bytes may be in both files. */
static const char *last_line(off_t begin) {
    static char text[2048];
    char path[PATH_SIZE];
    int log = open(in_folder(path, "log"), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    off_t end = lseek(log, 0, SEEK_END), first = end - (off_t)sizeof text + 1;
    ssize_t length = pread(log, text, sizeof text - 1, begin > first && begin <= end ? begin : first > 0 ? first : 0);
    if (log >= 0) close(log);
    text[length > 0 ? length : 0] = '\0';
    for (char *nul = text; (nul = memchr(nul, '\0', (size_t)(text + (length > 0 ? length : 0) - nul))) != NULL;) *nul = ' ';
    for (char *last = strrchr(text, '\n'); last && last[1] == '\0'; last = strrchr(text, '\n')) *last = '\0';
    char *line = strrchr(text, '\n');
    return line ? line + 1 : *text ? text : "it ended without a word";
}

const char *start_own_hub(int64_t since) {
    char path[PATH_SIZE];
    const char *failed = NULL;
    struct stat at;
    off_t begin;
    if (lock < 0) lock = open_lock();
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0 && fstat(lock, &at) == 0) { /* else one runs, or starts */
        bool is_ours = (int64_t)at.st_mtim.tv_sec * 1000 + at.st_mtim.tv_nsec / 1000000 >= since;
        if (is_ours && pread(lock, &begin, sizeof begin, 0) == sizeof begin) {
            failed = last_line(begin);
        } else {
            int log = open(in_folder(path, "log"), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
            begin = lseek(log, 0, SEEK_END);
            pid_t hub = -1;
            if (log >= 0 && pwrite(lock, &begin, sizeof begin, 0) == sizeof begin) hub = fork();
            if (hub == 0) become_hub(log, in_folder(path, "hub.sock"));
            if (hub < 0) {
                failed = strerror(errno);
                if (ftruncate(lock, 0) < 0) failed = strerror(errno); /* else this start would be the next one's, too */
            }
            if (log >= 0) close(log);
        }
    }
    if (lock >= 0) close(lock);
    lock = -1;
    return failed;
}
