/* The first process of an ssh session. */
#ifndef START_SESSION_H
#define START_SESSION_H

/* Keeps the environment for the sessions. */
void save_environment(void);

/* Becomes what the client asked for (SSH_ORIGINAL_COMMAND), or a login shell, in the kept environment. */
_Noreturn void run_session(void);

#endif
