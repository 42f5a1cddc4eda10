/* Where no hub was set up for the client (client_hub.c). */
#ifndef CLIENT_HUB_H
#define CLIENT_HUB_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a hub was set up: whoever did made the folder that its socket is in, or will be in. */
bool is_set_up(const char *socket);

/* Returns the socket's path of a hub of our own. Ends with a line where there can be none; `socket` had no folder. */
const char *own_hub(const char *socket);

/* Starts that hub, unless it runs or is being started. Returns NULL, or why a start after `since` (ms) has failed. */
const char *start_own_hub(int64_t since);

const char *setting(const char *name, const char *otherwise);
int64_t wall_clock_ms(void);

#endif
