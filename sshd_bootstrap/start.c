/* sshd-start: the first process of an ssh job's worker, of each ssh session in it, and of its launcher.
 *
 *   sshd-start SSHD ARGUMENT...  checks that sshd can work in this container, or says in one line why not; becomes sshd
 *   sshd-start --session         is sshd's ForceCommand: runs what was asked for, in the container's environment
 *   sshd-start --when-ready COMMAND ARGUMENT...  in a launcher: becomes COMMAND when the workers' sshds answer
 *
 * It is static, for any image, and is in the folder that sshd_bootstrap prepared (layout.py). A child of it runs beside
 * sshd, and makes sshd reload its host key when that was replaced.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "start_checks.h"
#include "start_common.h"
#include "start_session.h"
#include "start_waiting.h"

/* Runs sshd in one of its test modes; returns whether it succeeded, and in `text` what it printed. */
static bool ask_sshd(char **words, char text[TEXT_SIZE]) {
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) < 0) end(REFUSED, "no pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execv(words[0], words);
        dprintf(STDERR_FILENO, "%s can't be run: %s", words[0], strerror(errno));
        _exit(MISSING);
    }
    close(ends[1]);
    take(ends[0], text, TEXT_SIZE);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* By polling each second: inotify's instances are few, and shared by all pods of a uid on a node. */
static void watch_key(const char *key) {
    pid_t sshd = getpid();
    struct stat now, last = {0};
    stat(key, &last);
    if (fork() != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fd = 0, null = open("/dev/null", O_RDWR | O_CLOEXEC); fd <= 2; fd++) dup2(null, fd);
    for (; getppid() == sshd; sleep(1))
        if (stat(key, &now) == 0 && (now.st_ino != last.st_ino || now.st_mtime != last.st_mtime)) {
            last = now;
            kill(sshd, SIGHUP);
        }
    _exit(0);
}

static bool is_ours(char **argv) {
    const char *config = beside("sshd_config");
    while (*argv && strcmp(*argv, config) != 0) argv++;
    return *argv != NULL;
}

/* Checks sshd's configuration by these arguments, and adds options that this image's sshd needs. */
static void check_sshd(char **words, size_t count, const char *name, bool has_our_config) {
    static char text[TEXT_SIZE];
    bool needs_pam = has_our_config && is_locked(name), has_pam = false, has_penalties = false;
    if (needs_pam) words[count++] = "-oUsePAM=yes";
    words[count] = "-T"; /* like -t, and prints the configuration; -C: for which connection (Match blocks) */
    words[count + 1] = "-Cuser=root,host=localhost,addr=127.0.0.1,laddr=127.0.0.1,lport=22";
    bool is_printed = ask_sshd(words, text);
    words[count] = "-t";
    words[count + 1] = NULL;
    if (!is_printed && !ask_sshd(words, text)) {
        if (strstr(text, strerror(EPERM))) check_own_capabilities(words[0]);
        for (char *at = text + strlen(text); at-- > text;)
            if (strchr("\r\n", *at)) *at = at[1] ? ' ' : '\0';
        end(REFUSED, "sshd -t: %s", text);
    }
    for (char *line = is_printed ? strtok(text, "\r\n") : NULL; line; line = strtok(NULL, "\r\n")) {
        has_pam |= strcmp(line, "usepam yes") == 0;
        has_penalties |= strncmp(line, "persourcepenalties", 18) == 0;
        if (strncmp(line, "listenaddress ", 14) == 0) check_address(words[0], line + 14);
    }
    if (needs_pam && !has_pam)
        end(ACCOUNT, "the password of %s is locked (! in /etc/shadow), and this sshd, which knows no PAM, then takes "
            "no key of it either: set it to * in the image (usermod -p '*' %s)", name, name);
    /* OpenSSH 9.8 and later shut out who looks for a banner again and again, as delivery and the worker agent do. */
    words[count] = has_penalties ? "-oPerSourcePenalties=no" : NULL;
}

int main(int argc, char **argv) {
    find_folder();
    if (argc == 2 && strcmp(argv[1], "--session") == 0) run_session();
    if (argc > 1 && strcmp(argv[1], "--when-ready") == 0) run_when_ready(argv + 2);
    if (argc < 2) end(USAGE, "usage: sshd-start SSHD ARGUMENT...");
    end_by((int[]){SIGTERM, SIGINT, SIGQUIT}, 3); /* not HUP, which the watch of its key sends to sshd */

    char *key = beside("ssh_host_key"), **words = calloc((size_t)argc + 6, sizeof *words);
    if (!words) end(VOLUME, "out of memory");
    size_t count = (size_t)argc - 1;
    memcpy(words, argv + 1, count * sizeof *words);
    words[0] = find_sshd(argv[1]);
    words[count++] = "-h"; /* the job's key is the first of all host keys */
    words[count++] = key;
    check_key(key);
    const char *name = check_account();
    check_capabilities();
    check_sshd(words, count, name, is_ours(argv));
    save_environment();
    watch_key(key);
    execv(words[0], words);
    end(NOT_EXECUTABLE, "%s can't be run: %s", words[0], strerror(errno));
}
