/* What START asks for, as it can be run in this container. */
#ifndef RUNNER_PROGRAM_H
#define RUNNER_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

struct program {
    char **argv, **environment; /* end with NULL */
    const char *folder;         /* "": the runner's own */
    char path[4096];            /* of the executable */
};

/* Reads START's payload, which stays in use. Adds this container's own environment. False: it is malformed. */
bool read_program(char *payload, size_t length, struct program *program);

/* Finds the executable, in PATH if its name has no slash. Returns 0, or the exit code for `why`, one line. */
int find_program(struct program *program, char *why, size_t size);

/* Says what an errno of execve(2) means, in one line. Returns the exit code. */
int explain_exec(const struct program *program, int error, char *why, size_t size);

#endif
