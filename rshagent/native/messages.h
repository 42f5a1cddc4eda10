/* The messages of docs/protocol.md, and what else the programs that exchange them share. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { START = 1, RESUME = 2, SIGNAL = 3, CHECK = 4, TICKET = 16, EXIT = 17, LOCAL = 18, FAIL = 19, OK = 20 };
#ifndef PATIENCE_S
#define PATIENCE_S 10 /* how long to wait for the other side; shorter in tests */
#endif
enum { VERSION = 1, PAYLOAD_MAX = 4 << 20, TICKET_MAX = 4096, STRINGS_MAX = 65536, FAILED = 255 };

struct header {
    char magic[4];
    uint8_t version, kind;
    uint16_t reserved;
    uint32_t length; /* of the payload, which follows; big endian, as all numbers are */
};
_Static_assert(sizeof(struct header) == 12, "the header is 12 bytes");

/* Room for any message from a server. What it reads is followed by a NUL. */
struct message {
    struct header header;
    uint32_t number; /* big endian */
    char text[PAYLOAD_MAX];
};

extern const char program_name[]; /* begins each line for people; each program defines its own */

struct header header(uint8_t kind, size_t length);
int64_t now_ms(void);

/* One line for people, then the end. A stderr that takes nothing (a full pipe) holds us for a second. */
_Noreturn void end(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* START. The working directory is `folder`: NULL is this one, "" the server's. A variable without a "=" can't be sent
 * and is left out. */
const struct header *make_start(char **argv, char **environment, const char *folder, const char *instance);

/* Sends a whole message, START and RESUME with stdin, stdout and stderr. False: errno says why not. */
bool send_message(int socket, const struct header *message);

/* Whether errno of send_message says that descriptors can't be passed here, to any server. */
bool is_passing_forbidden(const struct header *message);

/* Reads one message; `length` is that of its payload. False: errno says why, EPROTO that it is none of version 1. */
bool read_message(int socket, struct message *message, size_t *length);

/* Blocks these signals and returns a signalfd for them. Opens /dev/null for a closed stdin, stdout or stderr. */
int open_signals(const sigset_t *taken);

#endif
