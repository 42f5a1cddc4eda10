/*
 * mpi-wrap: runs a program in an application container of this pod, or in one of podman's, as if it ran here.
 *
 * It is a client of docs/protocol.md: it hands arguments, environment, working directory, stdin, stdout and stderr to
 * that container's mpi-runner, forwards signals, and ends with the program's exit code. Unlike rshagent's, all signals
 * are the program's: there is no deadline. A runner that is lost before its ticket has started nothing, so for 10 s
 * START is sent again; after the ticket it is never sent again.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "client_launcher.h"
#include "client_signals.h"
#include "messages.h"
#include "wrap_container.h"
#include "wrap_podman.h"

const char program_name[] = "mpi-wrap";

enum { RETRY_MS = 100, STALL_S = 2 };

struct wrap {
    const char *folder, *wanted, *container; /* of the sockets; the container's name, as asked for, and found */
    const char *image;                       /* of podman; NULL: a container of the pod */
    const char *others;                      /* where it has no socket: the containers that have one */
    const struct header *start;
    int signals, parent, runner; /* signalfd, pidfd, socket; -1: none */
    int why;                     /* errno of what went wrong with the runner */
    bool is_started;             /* a ticket came */
    int64_t until;               /* ms: when we give up to connect */
};

static const char usage[] =
    "usage: mpi-wrap [--container NAME | --podman IMAGE] [--] PROGRAM [ARGUMENT...]\n"
    "Runs PROGRAM in an application container of this pod, or in a container that podman starts.\n"
    "  --container NAME  which one (or MPI_WRAP_CONTAINER); not needed if there is one only\n"
    "  --podman IMAGE    in a new container from this image; CONTAINER_ARGS has more arguments of podman run\n"
    "Exits with PROGRAM's exit code, 128+n if signal n ended it, 127 if it does not exist, 126 if it can't be run,\n"
    "255 if mpi-wrap fails.\n";

/* Reads the options; returns PROGRAM and its arguments. Called as CANOPIE-HPC 2022's script is, the image is MPI_IMAGE. */
static char **read_arguments(char **argv, struct wrap *w) {
    if (strcmp(program_invocation_short_name, "wrap-container.sh") == 0 && !(w->image = getenv("MPI_IMAGE")))
        end(FAILED, "no image: set MPI_IMAGE");
    while (*argv && **argv == '-') {
        const char *option = *argv++;
        if (strcmp(option, "--") == 0) break;
        if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0) exit(fputs(usage, stdout) < 0 ? FAILED : 0);
        if (strncmp(option, "--container=", 12) == 0)
            w->wanted = option + 12;
        else if (strcmp(option, "--container") == 0 && *argv)
            w->wanted = *argv++;
        else if (strncmp(option, "--podman=", 9) == 0)
            w->image = option + 9;
        else if (strcmp(option, "--podman") == 0 && *argv)
            w->image = *argv++;
        else
            end(FAILED, "%s is no option, or lacks its value; see mpi-wrap --help", option);
    }
    if (!*argv) end(FAILED, "no program; see mpi-wrap --help");
    if (w->image && (!*w->image || *w->image == '-'))
        end(FAILED, "\"%s\" is no name of an image; see mpi-wrap --help", w->image);
    return argv;
}

static int take_signals(void) {
    sigset_t taken;
    sigemptyset(&taken);
    for (int n = 1; n <= 64; n++)
        if (is_taken(n) || n == SIGCONT || n == SIGTSTP || n == SIGWINCH) sigaddset(&taken, n);
    return open_signals(&taken);
}

static void lose_runner(struct wrap *w) {
    w->why = errno;
    if (w->runner >= 0) close(w->runner);
    w->runner = -1;
    if (w->image && !w->is_started) explain_podman(w->image);
    if (w->is_started)
        end(FAILED, "container %s: mpi-runner is gone (%s), so how the program ended is not known; was the container "
            "restarted, or out of memory?", w->container, strerror(w->why));
}

static _Noreturn void end_by_user(const struct wrap *w) {
    end(FAILED, "container %s: its mpi-runner is of another user or group than this one (uid %d, gid %d); run both "
        "containers as one user and group (runAsUser, runAsGroup)", w->container, (int)geteuid(), (int)getegid());
}

/* Others can make a socket in the folder too, and must not get environment and files. Root may use any runner. With
   ranks of another group than its own, a PRRTE daemon would hang. */
static bool is_of_our_user(int socket) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    return geteuid() == 0 || (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid() &&
                               peer.gid == getegid());
}

static void send_start(struct wrap *w) {
    if (send_message(w->runner, w->start)) return;
    if (is_passing_forbidden(w->start))
        end(FAILED, "container %s: stdin, stdout and stderr can't be passed to it: %s; does seccomp, SELinux or a "
            "sandboxed runtime forbid it?", w->container, strerror(errno));
    if (errno != EPIPE && errno != ECONNRESET) lose_runner(w); /* else its answer is there to be read */
}

/* Nobody reads before the container is there, which may take a pull: a child waits for that, and we for signals. */
static void connect_podman(struct wrap *w) {
    const pid_t self = getpid();
    w->container = w->image;
    w->runner = start_podman(w->image);
    const pid_t sender = fork();
    if (sender < 0) end(FAILED, "no process can be started: %s; nothing was started", strerror(errno));
    if (sender > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the runner is to see that the connection has ended */
    _exit(getppid() == self && send_message(w->runner, w->start) ? 0 : 1);
}

static void connect_runner(struct wrap *w) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval stall = {STALL_S, 0};
    errno = ENOENT;
    if (!(w->container = find_container(w->folder, w->wanted, &address, &w->others))) {
        lose_runner(w);
        return;
    }
    w->runner = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(w->runner, SOL_SOCKET, SO_SNDTIMEO, &stall, sizeof stall);
    setsockopt(w->runner, SOL_SOCKET, SO_RCVTIMEO, &stall, sizeof stall);
    if (connect(w->runner, (struct sockaddr *)&address, sizeof address) < 0) {
        if (errno == EACCES || errno == EPERM) end_by_user(w);
        lose_runner(w);
        return;
    }
    if (!is_of_our_user(w->runner)) end_by_user(w);
    send_start(w);
}

static void read_answer(struct wrap *w) {
    static struct message message;
    size_t length = 0;
    const bool is_ours = read_message(w->runner, &message, &length);
    if (!is_ours && errno != EPROTO) {
        lose_runner(w);
        return;
    }
    const int kind = is_ours ? message.header.kind : 0;
    const uint32_t number = ntohl(message.number);
    if (kind == TICKET && length <= TICKET_MAX)
        w->is_started = true;
    else if (kind == EXIT && length == 4)
        exit(number > 255 ? FAILED : (int)number);
    else if (kind == FAIL && length >= 4)
        end(number == 0 || number > 255 ? FAILED : (int)number, "container %s: %s", w->container, message.text);
    else
        end(FAILED, "container %s: its mpi-runner does not speak version %d of the protocol; both must be of one release",
            w->container, VERSION);
}

/* Before the ticket nothing was started: a signal that ends a process by default ends us. */
static void read_signals(struct wrap *w) {
    struct signalfd_siginfo signal;
    while (read(w->signals, &signal, sizeof signal) == sizeof signal) {
        const int number = (int)signal.ssi_signo;
        struct { struct header header; uint32_t number; } message = {header(SIGNAL, 4), htonl((uint32_t)number)};
        if (number == SIGPIPE) continue;
        if (!w->is_started && is_taken(number)) exit(128 + number);
        if (w->is_started) send_message(w->runner, &message.header); /* if it fails, reading says so too */
        if (number == SIGTSTP) raise(SIGSTOP); /* who stops us (a shell) waits for that */
    }
}

/* In a login pod: names its DVM to the program, so that prun finds it even where there is another one. PMIx 5 takes the
 * name with a version, which a rank has already. */
static void name_dvm(void) {
    const char *path = getenv("MPI_WRAP_DVM");
    char uri[1024];
    FILE *file = fopen(path ? path : "/run/mpi-dvm/uri", "re");
    if (!file) return;
    if (fgets(uri, sizeof uri, file)) {
        uri[strcspn(uri, "\n")] = '\0';
        setenv("PMIX_SERVER_URI", uri, 0);
        setenv("PMIX_SERVER_URI41", uri, 0);
    }
    fclose(file);
}

int main(int argc, char **argv) {
    const char *folder = getenv("MPI_WRAP_FOLDER"), *wanted = getenv("MPI_WRAP_CONTAINER");
    struct wrap w = {.folder = folder && *folder ? folder : "/run/mpi-app", .runner = -1,
                     .wanted = wanted && *wanted ? wanted : NULL, .until = now_ms() + PATIENCE_S * 1000};
    char **program = read_arguments(argv + (argc > 0), &w);
    w.signals = take_signals();
    w.parent = watch_parent();
    name_dvm();
    w.start = make_start(program, environ, w.image ? "" : NULL, "0-0");
    read_signals(&w);
    for (w.image ? connect_podman(&w) : connect_runner(&w);;) {
        struct pollfd on[] = {{w.signals, POLLIN, 0}, {w.runner, POLLIN, 0}, {w.parent, POLLIN, 0}};
        poll(on, 3, w.runner < 0 ? RETRY_MS : -1);
        if (on[2].revents) exit(128 + SIGHUP); /* the end of our connection ends the program */
        if (on[1].revents) read_answer(&w);
        read_signals(&w);
        if (w.runner >= 0) continue;
        if (now_ms() < w.until)
            connect_runner(&w);
        else if (w.container)
            end(FAILED, "container %s: no mpi-runner answers for %d s (%s); nothing was started; is the container at its "
                "limit of processes, or restarting?", w.container, PATIENCE_S, strerror(w.why));
        else if (*w.others)
            end(FAILED, "container %s: it has no socket in %s for %d s, only: %s; nothing was started", w.wanted,
                w.folder, PATIENCE_S, w.others);
        else
            end(FAILED, "no application container has a socket in %s for %d s; nothing was started; are the pod's "
                "containers running?", w.folder, PATIENCE_S);
    }
}
