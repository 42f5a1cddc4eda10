/* Trees of processes: see runner_processes.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "messages.h"
#include "runner_processes.h"

#ifndef TERM_S
#define TERM_S 5 /* from TERM to KILL; shorter in tests */
#endif
enum { AGAIN_MS = 100, TRIES = 4 };

/* 0 if it has none in this namespace, -1 if it is gone. */
static pid_t parent_of(pid_t pid) {
    char path[64], text[256];
    int parent = -1;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *stat = fopen(path, "re");
    if (!stat) return -1;
    text[fread(text, 1, sizeof text - 1, stat)] = '\0';
    fclose(stat);
    const char *name_end = strrchr(text, ')'); /* of field 2, which may hold any byte */
    return name_end && sscanf(name_end + 1, " %*c %d", &parent) == 1 ? parent : -1;
}

/* If an ancestor ends in the meantime, its child has another parent: the way up is walked again. */
static bool is_below(pid_t pid, pid_t top) {
    for (int tries = 0; tries < TRIES; tries++) {
        pid_t above = pid;
        while (above > 1 && above != top) above = parent_of(above);
        if (above >= 0) return above == top;
    }
    return false;
}

static void signal_below(int number) {
    const pid_t self = getpid();
    DIR *processes = opendir("/proc");
    if (!processes) return;
    for (struct dirent *entry; (entry = readdir(processes)) != NULL;) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (pid <= 0 || pid == self || !is_below(pid, self)) continue;
        kill(pid, number);
        if (number == SIGTERM) kill(pid, SIGCONT); /* a stopped one would not take it */
    }
    closedir(processes);
}

void terminate_below(void) {
    signal_below(SIGTERM);
}

_Noreturn void end_below(int signals) {
    struct signalfd_siginfo taken;
    const int64_t kill_at = now_ms() + TERM_S * 1000;
    terminate_below();
    for (;;) {
        pid_t ended;
        while ((ended = waitpid(-1, NULL, WNOHANG)) > 0) continue;
        if (ended < 0) _exit(0); /* ECHILD: nothing is left */
        int64_t left = kill_at - now_ms();
        if (left <= 0) signal_below(SIGKILL);
        poll(&(struct pollfd){signals, POLLIN, 0}, 1, left > 0 ? (int)left : AGAIN_MS);
        while (read(signals, &taken, sizeof taken) == sizeof taken) continue;
    }
}
