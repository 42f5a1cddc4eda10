/* Signals, from a program's first moment on: one that an agent dies of says nothing of its command, and to Open MPI 5 it
 * even is a success. All are blocked before main begins; a program that is executed gets the launcher's mask back. */
#ifndef CLIENT_SIGNALS_H
#define CLIENT_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

extern sigset_t inherited_mask; /* the launcher's */

/* Whether a signal is for us: not one that stops a process or does nothing by default, or that the launcher ignores. */
bool is_taken(int number);

/* Right before execve: a signal that has come, or comes until then, ends us by an exit code, 128 + its number. */
void give_signals_back(void);

#endif
