/* The launcher that a client works for, and the container that it is in. */
#ifndef CLIENT_LAUNCHER_H
#define CLIENT_LAUNCHER_H

#include <stddef.h>

/* A pidfd of our parent if it is a launcher, else -1. One that dies by KILL can't end its agents; the end of another
 * parent (a shell) means nothing. */
int watch_parent(void);

/* The launcher that called us, perhaps by a shell; "" where there is none: whoever did then sees our exit code. */
const char *caller(char *text, size_t size);

/* Tells one life of the launcher's container from the next: start time of its PID 1, and mount namespace. */
const char *instance(char *text, size_t size);

#endif
