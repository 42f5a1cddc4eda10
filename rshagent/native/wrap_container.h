/* The application containers beside us: their runners' sockets in a shared folder. */
#ifndef WRAP_CONTAINER_H
#define WRAP_CONTAINER_H

#include <sys/un.h>

/* Finds the runner's socket of a container (NULL: the only one) in a folder. Returns the container's name, NULL while
 * it has no socket; *others is then those that have one, "" if none has. Ends us where there never will be one. */
const char *find_container(const char *folder, const char *wanted, struct sockaddr_un *address, const char **others);

#endif
