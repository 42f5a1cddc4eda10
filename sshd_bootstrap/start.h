/* What the files of sshd-start share: start.c, the container's first process; start_checks.c, what that checks;
 * start_session.c, the first process of an ssh session; and start_waiting.c, a launcher's first process. */
#ifndef START_H
#define START_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* docs/ssh.md explains them. */
enum { USAGE = 2, KEY = 40, ACCOUNT = 41, PORT = 42, CAPABILITY = 43, REFUSED = 44, VOLUME = 45 };
enum { NOT_EXECUTABLE = 126, MISSING = 127 };
enum { PATH_SIZE = FILENAME_MAX + 32, TEXT_SIZE = 1 << 16, LINE_SIZE = 4096 };

/* Prints one line, also as the termination message, and exits. */
_Noreturn __attribute__((format(printf, 2, 3))) void end(int code, const char *format, ...);

/* The path of a file in our own folder, which is the one that sshd_bootstrap prepared. */
char *beside(const char *name);

/* The text of a descriptor, which is closed (-1: none), or of a file, cut to `size`. NULs become line feeds. */
char *take(int fd, char *text, size_t size);
char *read_text(const char *path, char *text, size_t size);

/* Makes these signals end us, also as a container's first process, which signals without a handler don't end; ignored
 * ones stay ignored. What we execute has the default handlers again. */
void end_by(const int *numbers, size_t count);

/* The absolute path of sshd, which it wants for itself: what was asked for, or where distributions have it. */
char *find_sshd(const char *given);

/* Each of these returns only if sshd can work: with this key; as this uid, whose name is returned ("" where only sshd
 * knows it); with these capabilities; at an address as sshd -T writes it (0.0.0.0:22, [::]:22). */
void check_key(const char *key);
const char *check_account(void);
void check_capabilities(void);
void check_address(const char *sshd, char *address);

/* Ends if this sshd could not be executed because of the file's own capabilities. */
void check_own_capabilities(const char *sshd);

/* Whether sshd without PAM would refuse the account, as its password is locked. Only root can see that. */
bool is_locked(const char *name);

/* Keeps the environment for the sessions. */
void save_environment(void);

/* Becomes what the client asked for (SSH_ORIGINAL_COMMAND), or a login shell, in the kept environment. */
_Noreturn void run_session(void);

/* Becomes this command when delivery says that the workers' sshds answer. */
_Noreturn void run_when_ready(char **words);

#endif
