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
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client_hub.h"
#include "client_launcher.h"
#include "client_signals.h"
#include "messages.h"

const char program_name[] = "rshagent";

enum { LOCAL_NULL_STDIN = 1, PATIENCE_MS = PATIENCE_S * 1000, RETRY_MS = 100, LASTING_MS = 1000, STALL_S = 2 };

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

/* All signals that are for us become events, those as well that came since we began. A fault of our own still kills
 * us: the kernel sees to that. */
static int take_signals(void) {
    sigset_t taken;
    sigfillset(&taken);
    for (int n = 1; n <= 64; n++)
        if (!is_taken(n)) sigdelset(&taken, n);
    return open_signals(&taken);
}

static _Noreturn void run_local(struct client *c, uint32_t flags, const char *text) {
    if (c->told) exit(128 + c->told);
    if (flags & LOCAL_NULL_STDIN && dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO) < 0)
        end(FAILED, "/dev/null can't be opened as the command's stdin");
    give_signals_back();
    execl("/bin/sh", "/bin/sh", "-c", text, (char *)NULL);
    end(errno == ENOENT ? 127 : 126, "/bin/sh can't be run in this container: %s", strerror(errno));
}

/* Of our environment only MPI_AGENT_*: a launcher's can hold secrets. */
static const struct header *start_message(char **argv) {
    static char calling[64] = "MPI_AGENT_CALLER=", text[1024];
    size_t count = 0, sent = 0;
    while (environ[count]) count++;
    char **chosen = calloc(count + 2, sizeof *chosen);
    if (!chosen) end(FAILED, "out of memory");
    const size_t name = strlen(calling);
    if (*caller(calling + name, sizeof calling - name)) chosen[sent++] = calling;
    for (char **variable = environ; *variable; variable++)
        if (strncmp(*variable, "MPI_AGENT_", 10) == 0 && strncmp(*variable, "MPI_AGENT_CALLER=", name) != 0)
            chosen[sent++] = *variable;
    const char *life = setting("MPI_AGENT_INSTANCE", instance(text, sizeof text));
    const struct header *start = make_start(argv, chosen, NULL, life);
    free(chosen);
    return start;
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
static bool send_to_hub(struct client *c, const struct header *message) {
    if (send_message(c->hub, message)) return true;
    if (is_passing_forbidden(message))
        end(FAILED, "stdin, stdout and stderr can't be passed to the hub at %s: %s; does seccomp, SELinux "
            "or a sandboxed runtime forbid it?", c->address.sun_path, strerror(errno));
    if (errno != EPIPE && errno != ECONNRESET) lose_hub(c, errno);
    return false;
}

static void forward_signals(struct client *c) {
    while (c->hub >= 0 && c->unsent) {
        uint32_t number = (uint32_t)ffsll((long long)c->unsent);
        struct { struct header header; uint32_t number; } message = {header(SIGNAL, 4), htonl(number)};
        if (!send_to_hub(c, &message.header)) return;
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
        send_to_hub(c, c->opening);
    if (c->told) c->unsent |= UINT64_C(1) << (c->told - 1);
}

static void handle_message(struct client *c) {
    static struct message message;
    size_t length;
    bool is_ours = read_message(c->hub, &message, &length);
    if (!is_ours && errno != EPROTO) {
        lose_hub(c, errno);
        return;
    }
    int kind = is_ours ? message.header.kind : 0;
    uint32_t number = ntohl(message.number);
    if (kind == TICKET && length <= TICKET_MAX) {
        c->opening = memcpy(&c->resume, &message, sizeof message.header + length);
        c->resume.header.kind = RESUME;
    } else if (kind == EXIT && length == 4)
        exit(number > 255 ? FAILED : (int)number);
    else if (kind == FAIL && length >= 4)
        end(number == 0 || number > 255 ? FAILED : (int)number, "%s", message.text);
    else if (kind == LOCAL && length >= 4 && strlen(message.text) == length - 4)
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
        end(128 + c->told, "ended by signal %d; the hub at %s did not answer for %d s%s", c->told,
            c->address.sun_path, PATIENCE_S, running ? ", so the command may still run in the worker" : "");
    if (c->hub < 0 && !c->told && now >= c->hub_until)
        end(FAILED, "no hub at %s for %d s (%s): %s; see %s", c->address.sun_path, PATIENCE_S,
            strerror(c->why), running ? "how the command ended is not known" : "nothing was started", c->log);
}

int main(int argc, char **argv) {
    (void)argc;
    struct client c = {.hub = -1, .address.sun_family = AF_UNIX, .hub_until = now_ms() + PATIENCE_MS,
                       .lost_at = wall_clock_ms(), .log = "the log of the hub's container"};
    const char *given = setting("MPI_AGENT_SOCKET", NULL), *path = given ? given : "/run/mpi-agents/hub.sock";
    if (!is_set_up(path)) {
        if (given)
            end(FAILED, "no hub is set up: there is no folder for MPI_AGENT_SOCKET=%s; mount the hub's volume there, or "
                "unset it to have a hub started", path);
        path = own_hub(path);
        c.is_own = true;
        c.log = "the file log beside it";
    }
    if (snprintf(c.address.sun_path, sizeof c.address.sun_path, "%s", path) >= (int)sizeof c.address.sun_path)
        end(FAILED, "the path of the hub's socket has more than 107 bytes: %s", path);
    c.signals = take_signals();
    c.parent = watch_parent();
    c.opening = start_message(argv);
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
