/* A launcher's first process. */
#ifndef START_WAITING_H
#define START_WAITING_H

/* Becomes this command when delivery reports that the workers' sshds answer. */
_Noreturn void run_when_ready(char **words);

#endif
