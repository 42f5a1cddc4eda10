/*
 * rshagent: what an MPI launcher runs where it would run ssh.
 *
 * It hands argv, stdin, stdout and stderr to the pod's hub over a Unix socket, forwards signals, and ends with the
 * exit code that the hub tells it (docs/protocol.md). It is static, for any image. Its states:
 *   connecting   no hub: try again every 100 ms, for 10 s. Where none was set up it is one that clients start
 *   asked        START is sent. Without a ticket nothing was started: if the hub is lost, the next gets START
 *   running      a ticket came: if the hub is lost, the next gets RESUME, and settles how the command ended
 * What ends it: EXIT or FAIL; LOCAL, which becomes /bin/sh; a hub that speaks something else; 10 s without a hub
 * (255), or after a signal that ends it (128+n). Never a signal: Open MPI 5 takes a killed agent for a success.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client_hub.h"
#include "client_signals.h"

enum { START = 1, RESUME = 2, SIGNAL = 3, TICKET = 16, EXIT = 17, LOCAL = 18, FAIL = 19 };
enum { VERSION = 1, PAYLOAD_MAX = 4 << 20, TICKET_MAX = 4096, LOCAL_NULL_STDIN = 1, FAILED = 255 };
enum { PATIENCE_MS = 10000, RETRY_MS = 100, LASTING_MS = 1000, STALL_S = 2 };

struct header {
    char magic[4];
    uint8_t version, kind;
    uint16_t reserved;
    uint32_t length; /* of the payload, which follows; big endian, as all numbers are */
};
_Static_assert(sizeof(struct header) == 12, "the header is 12 bytes");

struct client {
    int signals, parent, hub;     /* signalfd, pidfd, socket; -1: none */
    struct sockaddr_un address;
    const struct header *opening; /* what a connection begins with: START, or once a ticket came resume */
    struct { struct header header; char ticket[TICKET_MAX]; } resume;
    uint64_t unsent;              /* signals to forward: bit n - 1 is signal n */
    int told, why;                /* the first signal that ends us; errno of what went wrong with the hub */
    const char *log;              /* where the hub writes why it is not there, in words */
    bool is_own;                  /* clients start it themselves (client_hub.c) */
    int64_t told_until, hub_until, connected_at; /* ms */
    int64_t lost_at;              /* ms of the wall clock: when we began to be without a hub */
};

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* One line for people, then the end. A stderr that takes nothing (a full pipe) holds us for a second. */
static _Noreturn __attribute__((format(printf, 2, 3))) void end(int code, const char *format, ...) {
    char line[4096] = "rshagent: ";
    va_list values;
    va_start(values, format);
    vsnprintf(line + strlen(line), sizeof line - strlen(line) - 1, format, values);
    va_end(values);
    strcat(line, "\n");
    if (poll(&(struct pollfd){STDERR_FILENO, POLLOUT, 0}, 1, 1000) == 1)
        (void)!write(STDERR_FILENO, line, strlen(line)); /* if it fails, nobody is left to be told */
    exit(code);
}

static const char *read_proc(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

/* All signals that are for us become events, those as well that came since we began. A fault of our own still kills
 * us: the kernel sees to that. */
static void take_signals(struct client *c) {
    sigset_t taken;
    sigfillset(&taken);
    for (int n = 1; n <= 64; n++)
        if (!is_taken(n)) sigdelset(&taken, n);
    sigprocmask(SIG_SETMASK, &taken, NULL);
    for (int fd = 0; fd <= 2; fd++) /* first, or the signalfd would take the place of a closed one */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            end(FAILED, "fd %d is closed, and /dev/null can't be opened for it: %s", fd, strerror(errno));
    if ((c->signals = signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC)) < 0)
        end(FAILED, "signalfd fails: %s; does a seccomp profile forbid it?", strerror(errno));
}

/* Reads a process's parent and start time, and whether it is an MPI launcher. False if there is no such process. */
static bool look_at(int pid, int *parent, unsigned long long *started, bool *is_launcher) {
    static const char launchers[] = " mpirun mpiexec orterun prterun prte orted prted hydra_pmi_proxy "
                                    "hydra_bstrap_pr horovodrun "; /* comm holds 15 bytes */
    char text[1024], word[40], *comm, *at;
    snprintf(text, sizeof text, "/proc/%d/stat", pid);
    if (!(comm = strchr(read_proc(text, text, sizeof text), '(')) || !(at = strrchr(comm, ')'))) return false;
    *at = '\0'; /* field 2 ends there */
    snprintf(word, sizeof word, " %.*s ", (int)strcspn(comm + 1, ".\n"), comm + 1); /* mpiexec.hydra is mpiexec */
    *is_launcher = strstr(launchers, word) != NULL;
    if (sscanf(at + 1, " %*c %d", parent) != 1) return false;
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    *started = at ? strtoull(at, NULL, 10) : 0;
    return true;
}

/* A launcher that dies by KILL can't end its agents. The end of another parent (a shell) means nothing. */
static int watch_parent(void) {
    unsigned long long started;
    int parent = (int)getppid(), above;
    bool is_launcher = false;
    look_at(parent, &above, &started, &is_launcher);
    return is_launcher ? (int)syscall(SYS_pidfd_open, parent, 0) : -1; /* it is close-on-exec */
}

/* The launcher that called us, perhaps by a shell; "" where there is none: whoever did then sees our exit code. */
static const char *caller(char *text, size_t size) {
    unsigned long long started;
    bool is_launcher = false;
    text[0] = '\0';
    for (int pid = (int)getppid(), above, depth = 0; depth < 8 && look_at(pid, &above, &started, &is_launcher); depth++) {
        if (is_launcher) {
            snprintf(text, size, "%d-%llu", pid, started);
            break;
        }
        pid = above;
    }
    return text;
}

static _Noreturn void run_local(struct client *c, uint32_t flags, const char *text) {
    if (c->told) exit(128 + c->told);
    if (flags & LOCAL_NULL_STDIN && dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO) < 0)
        end(FAILED, "/dev/null can't be opened as the command's stdin");
    give_signals_back();
    execl("/bin/sh", "/bin/sh", "-c", text, (char *)NULL);
    end(errno == ENOENT ? 127 : 126, "/bin/sh can't be run in this container: %s", strerror(errno));
}

/* Tells one life of the launcher's container from the next: start time of its PID 1, and mount namespace. */
static const char *instance(char *text, size_t size) {
    char *at = strrchr(read_proc("/proc/1/stat", text, size), ')'); /* the end of field 2 */
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    struct stat mounts = {0};
    stat("/proc/self/ns/mnt", &mounts);
    snprintf(text, size, "%llu-%ju", at ? strtoull(at, NULL, 10) : 0, (uintmax_t)mounts.st_ino);
    return text;
}

static struct header header(uint8_t kind, size_t length) {
    return (struct header){{'M', 'P', 'I', 'A'}, VERSION, kind, 0, htonl((uint32_t)length)};
}
static void put(FILE *out, const char *text) { fwrite(text, strlen(text) + 1, 1, out); }

static const struct header *make_start(int argc, char **argv) {
    static char *message, text[FILENAME_MAX];
    struct { struct header header; uint32_t argc, envc; } fixed = {.argc = htonl((uint32_t)argc)};
    size_t size;
    FILE *out = open_memstream(&message, &size);
    if (!out || fwrite(&fixed, sizeof fixed, 1, out) != 1) end(FAILED, "out of memory");
    for (; *argv; argv++) put(out, *argv);
    if (*caller(text, sizeof text) && ++fixed.envc) {
        fputs("MPI_AGENT_CALLER=", out);
        put(out, text);
    }
    for (char **variable = environ; *variable; variable++)
        if (strncmp(*variable, "MPI_AGENT_", 10) == 0 && strncmp(*variable, "MPI_AGENT_CALLER=", 17) != 0 && ++fixed.envc)
            put(out, *variable);
    put(out, getcwd(text, sizeof text) ? text : "");
    put(out, setting("MPI_AGENT_INSTANCE", instance(text, sizeof text)));
    if (fclose(out) != 0 || size > sizeof(struct header) + PAYLOAD_MAX)
        end(FAILED, "the command line is longer than the 4 MiB that a hub takes: put it into a file");
    fixed.header = header(START, size - sizeof(struct header));
    fixed.envc = htonl(fixed.envc);
    return memcpy(message, &fixed, sizeof fixed);
}

static void lose_hub(struct client *c, int why) {
    close(c->hub);
    c->hub = -1;
    c->why = why;
    c->lost_at = wall_clock_ms();
    if (now_ms() - c->connected_at >= LASTING_MS) /* a hub that closes at once, each time, is no hub */
        c->hub_until = now_ms() + PATIENCE_MS;
}

/* A hub that does not take it is lost; that shows when all it sent before was read. */
static bool send_message(struct client *c, const struct header *message) {
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int[3]))]; } rights = {
        .header = {.cmsg_len = CMSG_LEN(sizeof(int[3])), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    memcpy(CMSG_DATA(&rights.header), (int[]){STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}, sizeof(int[3]));
    for (size_t sent = 0, length = sizeof *message + ntohl(message->length); sent < length;) {
        bool passes = sent == 0 && message->kind != SIGNAL;
        struct iovec rest = {(char *)message + sent, length - sent};
        struct msghdr piece = {.msg_iov = &rest, .msg_iovlen = 1, .msg_control = passes ? &rights : NULL,
                               .msg_controllen = passes ? sizeof rights : 0};
        ssize_t n = sendmsg(c->hub, &piece, MSG_NOSIGNAL);
        if (passes && n < 0 && (errno == EPERM || errno == EACCES || errno == EINVAL))
            end(FAILED, "stdin, stdout and stderr can't be passed to the hub at %s: %s; does seccomp, SELinux "
                "or a sandboxed runtime forbid it?", c->address.sun_path, strerror(errno));
        if (n < 0 && errno != EINTR) {
            if (errno != EPIPE && errno != ECONNRESET) lose_hub(c, errno);
            return false;
        }
        sent += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static void forward_signals(struct client *c) {
    while (c->hub >= 0 && c->unsent) {
        uint32_t number = (uint32_t)ffsll((long long)c->unsent);
        struct { struct header header; uint32_t number; } message = {header(SIGNAL, 4), htonl(number)};
        if (!send_message(c, &message.header)) return;
        c->unsent &= c->unsent - 1;
    }
}

static void connect_hub(struct client *c) {
    struct timeval stall = {STALL_S, 0}; /* a hub that stops in the middle of a message is lost, too */
    const char *failed = c->is_own ? start_own_hub(c->lost_at) : NULL;
    if (failed) end(FAILED, "the hub at %s did not start: %s; see %s", c->address.sun_path, failed, c->log);
    c->hub = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(c->hub, SOL_SOCKET, SO_SNDTIMEO, &stall, sizeof stall);
    setsockopt(c->hub, SOL_SOCKET, SO_RCVTIMEO, &stall, sizeof stall);
    int why = connect(c->hub, (struct sockaddr *)&c->address, sizeof c->address) < 0 ? errno : 0;
    c->connected_at = now_ms();
    if (why) {
        close(c->hub);
        c->hub = -1;
        c->why = why;
    } else
        send_message(c, c->opening);
    if (c->told) c->unsent |= UINT64_C(1) << (c->told - 1);
}

static bool receive(struct client *c, void *to, size_t length) {
    ssize_t n = length > 0 ? recv(c->hub, to, length, MSG_WAITALL) : 0;
    if (n == (ssize_t)length) return true;
    lose_hub(c, n < 0 ? errno : ECONNRESET);
    return false;
}

static void handle_message(struct client *c) {
    static struct { struct header header; uint32_t number; char text[PAYLOAD_MAX]; } message;
    if (!receive(c, &message, sizeof message.header)) return;
    size_t length = ntohl(message.header.length);
    struct header ours = header(message.header.kind, length);
    if (memcmp(&ours, &message.header, sizeof ours) != 0 || length > PAYLOAD_MAX) length = ours.kind = 0;
    if (!receive(c, &message.number, length)) return;
    ((char *)&message.number)[length] = '\0';
    uint32_t number = ntohl(message.number);
    if (ours.kind == TICKET && length <= TICKET_MAX) {
        c->opening = memcpy(&c->resume, &message, sizeof ours + length);
        c->resume.header.kind = RESUME;
    } else if (ours.kind == EXIT && length == 4)
        exit(number > 255 ? FAILED : (int)number);
    else if (ours.kind == FAIL && length >= 4)
        end(number == 0 || number > 255 ? FAILED : (int)number, "%s", message.text);
    else if (ours.kind == LOCAL && length >= 4 && strlen(message.text) == length - 4)
        run_local(c, number, message.text);
    else
        end(FAILED, "what listens at %s does not speak version %d of the hub's protocol; client and hub must "
            "be of one release", c->address.sun_path, VERSION);
}

static void tell(struct client *c, int number) {
    c->unsent |= UINT64_C(1) << (number - 1);
    if (c->told || number == SIGUSR1 || number == SIGUSR2 || number == SIGALRM) return; /* the application's */
    c->told = number;
    c->told_until = now_ms() + PATIENCE_MS;
}

static void read_signals(struct client *c) {
    struct signalfd_siginfo signal;
    while (read(c->signals, &signal, sizeof signal) == sizeof signal)
        if (signal.ssi_signo != SIGPIPE) tell(c, (int)signal.ssi_signo);
}

static void check_deadlines(const struct client *c, int64_t now) {
    bool running = c->opening->kind == RESUME;
    if (c->told && c->hub < 0 && !running) exit(128 + c->told);
    if (c->told && now >= c->told_until)
        end(128 + c->told, "ended by signal %d; the hub at %s did not answer for 10 s%s", c->told,
            c->address.sun_path, running ? ", so the command may still run in the worker" : "");
    if (c->hub < 0 && !c->told && now >= c->hub_until)
        end(FAILED, "no hub at %s for 10 s (%s): %s; see %s", c->address.sun_path, strerror(c->why),
            running ? "how the command ended is not known" : "nothing was started", c->log);
}

int main(int argc, char **argv) {
    struct client c = {.hub = -1, .address.sun_family = AF_UNIX, .hub_until = now_ms() + PATIENCE_MS,
                       .lost_at = wall_clock_ms(), .log = "the log of the hub's container"};
    const char *given = setting("MPI_AGENT_SOCKET", NULL), *path = given ? given : "/run/mpi-agents/hub.sock";
    if (setting("MPI_AGENT_EXPLAIN", NULL)) run_direct(argv);
    if (!is_set_up(path)) {
        c.is_own = !given && own_hub(&path);
        const char *direct = c.is_own ? NULL : run_direct(argv);
        if (!c.is_own)
            end(FAILED, "no hub is set up: there is no folder for %s, and %s can't be run instead (%s); mount the "
                "hub's volume there, or set MPI_AGENT_SOCKET or MPI_AGENT_DIRECT", path, direct, strerror(errno));
        c.log = "the file log beside it";
    }
    if (snprintf(c.address.sun_path, sizeof c.address.sun_path, "%s", path) >= (int)sizeof c.address.sun_path)
        end(FAILED, "the path of the hub's socket has more than 107 bytes: %s", path);
    take_signals(&c);
    c.parent = watch_parent();
    c.opening = make_start(argc, argv);
    read_signals(&c);
    check_deadlines(&c, now_ms()); /* nothing is started for who was told to end, here and below */
    for (connect_hub(&c);;) {
        int64_t now = now_ms();
        check_deadlines(&c, now);
        forward_signals(&c);
        struct pollfd on[] = {{c.signals, POLLIN, 0}, {c.told ? -1 : c.parent, POLLIN, 0}, {c.hub, POLLIN, 0}};
        poll(on, 3, c.hub < 0 ? RETRY_MS : c.told ? (int)(c.told_until - now) : -1);
        read_signals(&c);
        if (on[1].revents) tell(&c, SIGHUP);
        if (on[2].revents) handle_message(&c);
        else if (c.hub < 0) check_deadlines(&c, now_ms()), connect_hub(&c);
    }
}
