/* The hosts of a hostfile, in the forms that launchers write: see hostfile.c. */
#ifndef HOSTFILE_H
#define HOSTFILE_H

#include <stddef.h>

/* Returns the hosts in their order, at least one, with their user if they have one (`user@host`). NULL if the file can't
 * be read or is wrong: *error is then one line that names file and line. Nothing is freed. */
char **read_hostfile(const char *path, size_t *count, char **error);

#endif
