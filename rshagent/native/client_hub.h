/* Where no hub was set up for the client (client_hub.c). */
#ifndef CLIENT_HUB_H
#define CLIENT_HUB_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a hub was set up: whoever did made the folder that its socket is in, or will be in. */
bool is_set_up(const char *socket);

/* Becomes the program of direct mode. Returns, with that program's path, only where it can't be run. */
const char *run_direct(char **argv);

/* Whether there can be a hub of our own, in the folder `hub` beside the client, and its socket's path. */
bool own_hub(const char **socket);

/* Starts that hub, unless it runs or is being started. Returns NULL, or why a start after `since` (ms) has failed. */
const char *start_own_hub(int64_t since);

const char *setting(const char *name, const char *otherwise);
int64_t wall_clock_ms(void);

#endif
