/* Messages and their transport: see messages.h and docs/protocol.md. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "messages.h"

int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

_Noreturn void end(int code, const char *format, ...) {
    char line[4096];
    va_list values;
    int length = snprintf(line, sizeof line, "%s: ", program_name);
    va_start(values, format);
    vsnprintf(line + length, sizeof line - (size_t)length - 1, format, values);
    va_end(values);
    strcat(line, "\n");
    if (poll(&(struct pollfd){STDERR_FILENO, POLLOUT, 0}, 1, 1000) == 1)
        (void)!write(STDERR_FILENO, line, strlen(line)); /* if it fails, nobody is left to be told */
    exit(code);
}

struct header header(uint8_t kind, size_t length) {
    return (struct header){{'M', 'P', 'I', 'A'}, VERSION, kind, 0, htonl((uint32_t)length)};
}

static void put(FILE *out, const char *text) { fwrite(text, strlen(text) + 1, 1, out); }

const struct header *make_start(char **argv, char **environment, const char *folder, const char *instance) {
    static char *message, here[FILENAME_MAX];
    struct { struct header header; uint32_t argc, envc; } fixed = {.argc = 0};
    size_t size;
    FILE *out = open_memstream(&message, &size);
    if (!out || fwrite(&fixed, sizeof fixed, 1, out) != 1) end(FAILED, "out of memory");
    for (; *argv; argv++, fixed.argc++) put(out, *argv);
    for (; *environment; environment++)
        if (strchr(*environment, '=') && ++fixed.envc) put(out, *environment);
    if ((uint64_t)fixed.argc + fixed.envc > STRINGS_MAX)
        end(FAILED, "the command has more than %d arguments and variables: put them into a file", STRINGS_MAX);
    if (!folder) folder = getcwd(here, sizeof here);
    put(out, folder ? folder : "");
    put(out, instance);
    if (fclose(out) != 0 || size > sizeof(struct header) + PAYLOAD_MAX)
        end(FAILED, "the command line is longer than the 4 MiB of a message: put it into a file");
    fixed.header = header(START, size - sizeof(struct header));
    fixed.argc = htonl(fixed.argc);
    fixed.envc = htonl(fixed.envc);
    return memcpy(message, &fixed, sizeof fixed);
}

bool send_message(int socket, const struct header *message) {
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int[3]))]; } rights = {
        .header = {.cmsg_len = CMSG_LEN(sizeof(int[3])), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    memcpy(CMSG_DATA(&rights.header), (int[]){STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}, sizeof(int[3]));
    for (size_t sent = 0, length = sizeof *message + ntohl(message->length); sent < length;) {
        bool passes = sent == 0 && (message->kind == START || message->kind == RESUME);
        struct iovec rest = {(char *)message + sent, length - sent};
        struct msghdr piece = {.msg_iov = &rest, .msg_iovlen = 1, .msg_control = passes ? &rights : NULL,
                               .msg_controllen = passes ? sizeof rights : 0};
        ssize_t n = sendmsg(socket, &piece, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) return false;
        sent += n > 0 ? (size_t)n : 0;
    }
    return true;
}

bool is_passing_forbidden(const struct header *message) {
    return message->kind != SIGNAL && (errno == EPERM || errno == EACCES || errno == EINVAL);
}

static bool receive(int socket, void *to, size_t length) {
    ssize_t n = length > 0 ? recv(socket, to, length, MSG_WAITALL) : 0;
    if (n >= 0) errno = ECONNRESET;
    return n == (ssize_t)length;
}

bool read_message(int socket, struct message *message, size_t *length) {
    if (!receive(socket, &message->header, sizeof message->header)) return false;
    *length = ntohl(message->header.length);
    struct header expected = header(message->header.kind, *length);
    if (memcmp(&expected, &message->header, sizeof expected) != 0 || *length > PAYLOAD_MAX) {
        errno = EPROTO;
        return false;
    }
    message->number = 0;
    if (!receive(socket, &message->number, *length)) return false;
    ((char *)&message->number)[*length] = '\0';
    return true;
}

int open_signals(const sigset_t *taken) {
    sigprocmask(SIG_SETMASK, taken, NULL);
    for (int fd = 0; fd <= 2; fd++) /* first, or the signalfd would take the place of a closed one */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            end(FAILED, "fd %d is closed, and /dev/null can't be opened for it: %s", fd, strerror(errno));
    int signals = signalfd(-1, taken, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals < 0) end(FAILED, "signalfd fails: %s; does a seccomp profile forbid it?", strerror(errno));
    return signals;
}
