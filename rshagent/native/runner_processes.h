/* The processes below one process, who was made a child subreaper (prctl(2)): its orphans stay below it. */
#ifndef RUNNER_PROCESSES_H
#define RUNNER_PROCESSES_H

/* Sends TERM to every process below the calling one. */
void terminate_below(void);

/* Ends every process below the calling one, by TERM and after 5 s by KILL, and then the calling one. `signals` is a
 * signalfd for SIGCHLD. */
_Noreturn void end_below(int signals);

#endif
