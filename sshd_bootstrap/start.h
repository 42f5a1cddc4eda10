/* What sshd-start's two files share: start.c, the container's first process, and session.c, that of an ssh session. */
#ifndef START_H
#define START_H

enum { USAGE = 2, VOLUME = 45, NOT_EXECUTABLE = 126, MISSING = 127 };

/* One line for people, also where Kubernetes looks for it, then the end. */
_Noreturn __attribute__((format(printf, 2, 3))) void end(int code, const char *format, ...);

/* The path of a file in our own folder. */
char *beside(const char *name);

/* Keeps the environment for the sessions. */
void save_environment(void);

/* Becomes what the client asked for (SSH_ORIGINAL_COMMAND), or a login shell, in the kept environment. */
_Noreturn void run_session(void);

#endif
