/*
 * mpi-runner: the entrypoint of an application container. Runs programs there for mpi-wrap in the pod's other containers.
 *
 * It listens at a Unix socket in a shared volume and is a server of docs/protocol.md. Each connection gets a process of
 * its own, the session, which reads START, starts the program and reports its exit. What a peer sends can therefore hurt
 * its own session only. A session is a child subreaper: all that its program starts stays below it, however it
 * daemonizes, so a session can end it all and knows when nothing is left. What a program leaves behind when it exits by
 * itself keeps running, as after ssh, and is reaped by the runner.
 *
 * In a container of podman (mpi-wrap --podman) it has one connection from its start, and ends with that session.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "messages.h"
#include "runner_processes.h"
#include "runner_program.h"

const char program_name[] = "mpi-runner";

enum { SESSIONS_MAX = 1024, FILES = 3, FULL_MS = 100 };

struct session {
    int connection, signals;
    int files[FILES];             /* the program's stdin, stdout and stderr; -1: none */
    int failed;                   /* a pipe: errno, if the program could not be executed */
    pid_t program;                /* 0: none runs */
    bool is_ending;               /* the client ended the program: nothing that it started keeps running */
    struct { struct header header; uint32_t number; } partial; /* a message that has not all come */
    size_t received;              /* bytes of it */
};

static void close_files(struct session *s) {
    for (int i = 0; i < FILES; i++) {
        if (s->files[i] >= 0) close(s->files[i]);
        s->files[i] = -1;
    }
}

/* Sends the last message of a session, after closing its files. Ends what still runs of it, and the session. */
static _Noreturn __attribute__((format(printf, 4, 5))) void finish(struct session *s, uint8_t kind, int code,
                                                                   const char *format, ...) {
    struct { struct header header; uint32_t number; char text[1024]; } answer = {.number = htonl((uint32_t)code)};
    va_list values;
    va_start(values, format);
    vsnprintf(answer.text, sizeof answer.text, format, values);
    va_end(values);
    for (char *at = answer.text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == '\x7f') *at = '?'; /* a name may hold anything */
    answer.header = header(kind, sizeof answer.number + strlen(answer.text));
    close_files(s);
    if (!send_message(s->connection, &answer.header)) s->is_ending = true; /* the client is gone */
    close(s->connection);
    if (s->program > 0 || s->is_ending) end_below(s->signals);
    _exit(0);
}

#define fail(s, ...) finish(s, FAIL, __VA_ARGS__)

static _Noreturn void reject(struct session *s) {
    fail(s, FAILED, "this is not version %d of the protocol; mpi-wrap and mpi-runner must be of one release", VERSION);
}

/* Reads `length` bytes of the first message; the files come with its first byte. Ends the session if they don't come. */
static void receive(struct session *s, void *to, size_t length, int64_t until) {
    for (size_t got = 0; got < length;) {
        union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int[FILES + 1]))]; } rights;
        struct iovec rest = {(char *)to + got, length - got};
        struct msghdr piece = {.msg_iov = &rest, .msg_iovlen = 1, .msg_control = &rights,
                               .msg_controllen = sizeof rights};
        struct pollfd on[] = {{s->connection, POLLIN, 0}, {s->signals, POLLIN, 0}};
        int64_t left = until - now_ms();
        if (left <= 0 || poll(on, 2, (int)left) == 0) fail(s, FAILED, "the first message did not come within %d s", PATIENCE_S);
        if (on[1].revents) fail(s, FAILED, "mpi-runner has ended");
        ssize_t n = recvmsg(s->connection, &piece, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n <= 0) _exit(0); /* the client is gone */
        const struct cmsghdr *came = CMSG_FIRSTHDR(&piece);
        if (came && came->cmsg_level == SOL_SOCKET && came->cmsg_type == SCM_RIGHTS) {
            if (s->received + got > 0 || piece.msg_flags & MSG_CTRUNC || came->cmsg_len != CMSG_LEN(sizeof s->files))
                fail(s, FAILED, "exactly stdin, stdout and stderr must come with the first byte of START");
            memcpy(s->files, CMSG_DATA(came), sizeof s->files);
        }
        got += (size_t)n;
    }
    s->received += length;
}

/* Reads START, and answers all else that can come first. Ends the session unless it is a valid START. */
static char *read_start(struct session *s, size_t *length) {
    const int64_t until = now_ms() + PATIENCE_S * 1000;
    struct header first;
    receive(s, &first, sizeof first, until);
    *length = ntohl(first.length);
    const struct header expected = header(first.kind, *length);
    if (memcmp(&first, &expected, sizeof first) != 0 || *length > PAYLOAD_MAX) reject(s);
    if (first.kind == CHECK && *length == 0) {
        const struct header answer = header(OK, 0);
        send_message(s->connection, &answer);
        _exit(0);
    }
    if (first.kind == RESUME) fail(s, FAILED, "mpi-runner has lost the session: how the program ended is not known");
    if (first.kind != START) reject(s);
    char *payload = malloc(*length + 1);
    if (!payload) fail(s, FAILED, "mpi-runner has no memory for the command");
    receive(s, payload, *length, until);
    s->received = 0;
    if (s->files[0] < 0) fail(s, FAILED, "stdin, stdout and stderr did not arrive; does SELinux forbid to pass them?");
    return payload;
}

/* In the child: becomes the program, or reports errno. All signals are as a program expects them at its start. */
static _Noreturn void become(const struct session *s, const struct program *program, int report) {
    sigset_t none;
    setpgid(0, 0);
    for (int i = 0; i < FILES; i++) dup2(s->files[i], i); /* they are above 2, as our own are open */
    for (int n = 1; n <= 64; n++) signal(n, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(program->path, program->argv, program->environment);
    int error = errno;
    (void)!write(report, &error, sizeof error);
    _exit(127);
}

/* Starts the program in a process group of its own in the session's: as that group's parent is in its session, the
 * program can be stopped by TSTP. The ticket is sent first, so that a client without one can try again. */
static void start(struct session *s, const struct program *program) {
    const struct header ticket = header(TICKET, 0);
    int report[2];
    if (!send_message(s->connection, &ticket)) _exit(0);
    if (pipe2(report, O_CLOEXEC) < 0 || (s->program = fork()) < 0)
        fail(s, FAILED, "no process can be started: %s; has the container reached its limit of processes?", strerror(errno));
    if (s->program == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        become(s, program, report[1]);
    }
    setpgid(s->program, s->program); /* whoever is first */
    close(report[1]);
    s->failed = report[0];
    close_files(s);
}

static void report_exit(struct session *s, const struct program *program, int status) {
    char why[1024];
    int error;
    s->program = 0;
    if (read(s->failed, &error, sizeof error) == sizeof error)
        fail(s, explain_exec(program, error, why, sizeof why), "%s", why);
    finish(s, EXIT, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), "%s", "");
}

/* Forwards the signals that the client sends. Ends the session if it is gone. */
static void read_connection(struct session *s) {
    const struct header expected = header(SIGNAL, 4);
    char *at = (char *)&s->partial + s->received;
    ssize_t n = recv(s->connection, at, sizeof s->partial - s->received, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) end_below(s->signals);
    s->received += (size_t)n;
    const size_t known = s->received < sizeof expected ? s->received : sizeof expected;
    if (memcmp(&s->partial, &expected, known) != 0) reject(s);
    if (s->received < sizeof s->partial) return;
    const uint32_t number = ntohl(s->partial.number);
    if (number < 1 || number > 64) reject(s);
    if (number == SIGHUP || number == SIGINT || number == SIGQUIT || number == SIGTERM || number == SIGKILL)
        s->is_ending = true;
    kill(-s->program, (int)number);
    s->received = 0;
}

static _Noreturn void serve(int connection, pid_t runner) {
    struct session s = {.connection = connection, .files = {-1, -1, -1}};
    struct program program;
    sigset_t taken;
    size_t length;
    char why[1024];
    int code, status;
    prctl(PR_SET_PDEATHSIG, SIGHUP); /* without the runner nothing runs on */
    if (getppid() != runner) _exit(0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setsid();
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    sigaddset(&taken, SIGHUP);
    sigaddset(&taken, SIGTERM); /* the runner's own end: as it comes here, no program that starts now is missed */
    if ((s.signals = signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC)) < 0)
        fail(&s, FAILED, "no descriptor is left in the container: %s", strerror(errno));
    char *payload = read_start(&s, &length);
    if (!read_program(payload, length, &program)) reject(&s);
    if (*program.folder && chdir(program.folder) < 0)
        fail(&s, 126, "working directory %s: %s; mount it in this container too, or choose another one (mpirun --wdir)",
             program.folder, strerror(errno));
    if ((code = find_program(&program, why, sizeof why)) != 0) fail(&s, code, "%s", why);
    start(&s, &program);
    free(program.argv);
    free(payload);
    for (;;) {
        struct pollfd on[] = {{s.signals, POLLIN, 0}, {s.connection, POLLIN, 0}};
        struct signalfd_siginfo signal;
        poll(on, 2, -1);
        while (read(s.signals, &signal, sizeof signal) == sizeof signal)
            if (signal.ssi_signo == SIGHUP) end_below(s.signals);
            else if (signal.ssi_signo == SIGTERM) terminate_below();
        for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
            if (ended == s.program) report_exit(&s, &program, status);
        if (on[1].revents) read_connection(&s);
    }
}

static int listen_at(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (snprintf(address.sun_path, sizeof address.sun_path, "%s", path) >= (int)sizeof address.sun_path)
        end(FAILED, "the path of the socket has more than 107 bytes: %s", path);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener >= 0) unlink(path); /* of the container before a restart */
    const mode_t before = umask(0177); /* for this user only: a process that can connect can run programs here */
    bool is_there = listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof address) == 0 &&
                    listen(listener, SESSIONS_MAX) == 0;
    umask(before);
    if (!is_there)
        end(FAILED, "can't listen at %s: %s; is the volume for sockets mounted there, and can this user (uid %d) write "
            "to it?", path, strerror(errno), (int)getuid());
    return listener;
}

/* The connection that we were started with. */
static int inherit(const char *number) {
    const int connection = atoi(number);
    if (connection <= 2 || fcntl(connection, F_SETFD, FD_CLOEXEC) < 0)
        end(FAILED, "\"%s\" is no connection that mpi-runner was started with", number);
    return connection;
}

int main(int argc, char **argv) {
    static pid_t sessions[SESSIONS_MAX];
    size_t count = 0;
    sigset_t all;
    signal(SIGCHLD, SIG_DFL); /* whoever started us may have ignored it */
    const bool is_one = argc == 3 && strcmp(argv[1], "--connection") == 0;
    if (argc != 3 || (!is_one && strcmp(argv[1], "--socket") != 0))
        end(FAILED, "usage: mpi-runner --socket PATH | --connection FD");
    sigfillset(&all);
    const int signals = open_signals(&all), listener = is_one ? -1 : listen_at(argv[2]);
    int connection = is_one ? inherit(argv[2]) : -1;
    const pid_t self = getpid();
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* where another process is PID 1 */
    for (bool is_ending = is_one;;) {
        pid_t session = connection < 0 ? -1 : fork();
        if (session == 0) {
            if (listener >= 0) close(listener);
            close(signals);
            serve(connection, self);
        }
        if (session > 0) sessions[count++] = session;
        if (connection >= 0) close(connection); /* without a session the client tries again */
        if (is_ending && count == 0) end_below(signals); /* what programs left behind */
        struct pollfd on[] = {{signals, POLLIN, 0}, {is_ending || count == SESSIONS_MAX ? -1 : listener, POLLIN, 0}};
        struct signalfd_siginfo taken;
        poll(on, 2, -1);
        while (read(signals, &taken, sizeof taken) == sizeof taken) {
            if (taken.ssi_signo != SIGTERM && taken.ssi_signo != SIGINT) continue;
            if (!is_ending) {
                close(listener);
                unlink(argv[2]);
            }
            is_ending = true;
            for (size_t i = 0; i < count; i++) kill(sessions[i], SIGTERM);
        }
        for (pid_t ended; (ended = waitpid(-1, NULL, WNOHANG)) > 0;)
            for (size_t i = 0; i < count; i++)
                if (sessions[i] == ended) sessions[i--] = sessions[--count];
        errno = 0;
        connection = on[1].revents && !is_ending ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (connection < 0 && (errno == EMFILE || errno == ENFILE)) poll(NULL, 0, FULL_MS); /* it stays readable */
    }
}
