/* What each use of sshd-start needs: its folder, files as text, and how it ends. */
#ifndef START_COMMON_H
#define START_COMMON_H

#include <stddef.h>
#include <stdio.h>

/* docs/ssh.md explains them. */
enum { USAGE = 2, KEY = 40, ACCOUNT = 41, PORT = 42, CAPABILITY = 43, REFUSED = 44, VOLUME = 45 };
enum { NOT_EXECUTABLE = 126, MISSING = 127 };
enum { PATH_SIZE = FILENAME_MAX + 32, TEXT_SIZE = 1 << 16, LINE_SIZE = 4096 };

/* Prints one line, also as the termination message, and exits. */
_Noreturn __attribute__((format(printf, 2, 3))) void end(int code, const char *format, ...);

/* Finds our own folder, which is the one that sshd_bootstrap prepared; then the path of a file in it. */
void find_folder(void);
char *beside(const char *name);

/* The text of a descriptor, which is closed (-1: none), or of a file, cut to `size`. NULs become line feeds. */
char *take(int fd, char *text, size_t size);
char *read_text(const char *path, char *text, size_t size);

/* Makes these signals end us, also as a container's first process, which signals without a handler don't end; ignored
 * signals stay ignored. What we execute has the default handlers again. */
void end_by(const int *numbers, size_t count);

#endif
