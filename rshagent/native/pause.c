/* pause: what a container runs as its first process where people or a launcher start the rest in it.
 *
 * It reaps all that end without a parent, and ends at once, with 0, when it is told to: TERM, INT or HUP. It is the
 * sandbox of the test cluster's pods, too.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

int main(void) {
    const int waited_for[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP};
    sigset_t set;
    int number;
    sigemptyset(&set);
    for (unsigned i = 0; i < sizeof waited_for / sizeof *waited_for; i++) sigaddset(&set, waited_for[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGCHLD, SIG_DFL); /* whoever started us may have ignored it */
    do {
        while (waitpid(-1, NULL, WNOHANG) > 0) continue;
        sigwait(&set, &number);
    } while (number == SIGCHLD);
    return 0;
}
