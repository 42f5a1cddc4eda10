/* What the files of sshd-start share: start.c, the container's first process; start_checks.c, what that looks at;
 * start_session.c, the first process of an ssh session; and start_waiting.c, a launcher's first process. */
#ifndef START_H
#define START_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Told to people in docs/ssh.md. */
enum { USAGE = 2, KEY = 40, ACCOUNT = 41, PORT = 42, CAPABILITY = 43, REFUSED = 44, VOLUME = 45 };
enum { NOT_EXECUTABLE = 126, MISSING = 127 };
enum { PATH_SIZE = FILENAME_MAX + 32, TEXT_SIZE = 1 << 16, LINE_SIZE = 4096 };

/* One line for people, also where Kubernetes looks for it, then the end. */
_Noreturn __attribute__((format(printf, 2, 3))) void end(int code, const char *format, ...);

/* The path of a file in our own folder, which is the one that sshd_bootstrap prepared. */
char *beside(const char *name);

/* The whole text of a descriptor, which is closed (-1: none), or of a file, cut to what there is room for. A NUL in it
 * ends a line. */
char *take(int fd, char *text, size_t size);
char *read_text(const char *path, char *text, size_t size);

/* Has these signals end us, also as a container's first process, which those without a handler don't end; but those that
 * are ignored. What we execute has the default ones again. */
void end_by(const int *numbers, size_t count);

/* The absolute path of sshd, which it wants for itself: what was asked for, or where distributions have it. */
char *find_sshd(const char *given);

/* Each of these returns only if sshd can work: with this key; as this uid, whose name is returned ("" where only sshd
 * can tell it); with these capabilities; at an address as sshd -T writes it (0.0.0.0:22, [::]:22). */
void check_key(const char *key);
const char *check_account(void);
void check_capabilities(void);
void check_address(const char *sshd, char *address);

/* Ends where it is for the file's own capabilities that this sshd could not be executed. */
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
