/*
 * k8s-launch: runs one command on every host of a hostfile, in the way of PRRTE's plm/k8sgo (CANOPIE-HPC 2022).
 *
 *     k8s-launch [-q] [--agent PROGRAM] -f HOSTFILE -- COMMAND...
 *
 * Each host gets `AGENT HOST export PRTE_ESS_K8SGO_ID=N; COMMAND...`, all at once; N counts the hosts from 0. As with
 * ssh, the remote shell reads COMMAND's words joined by blanks. AGENT is --agent's, else what names PRRTE's, else the
 * kubexec.sh beside this program. Signals go to all agents and their children. The exit status is the first that is
 * not 0, in time; an agent that dies of signal n counts as 128+n. Never a signal of ours: Open MPI 5 takes that for a
 * success.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client_signals.h"

enum { USAGE = 2, SYSTEM = 255, AGENT_WORDS = 64 };

struct daemon {
    const char *host;
    pid_t pid; /* 0: it has ended */
};

static bool is_quiet;

static void line(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void line(const char *format, ...) {
    char text[4096];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    dprintf(STDERR_FILENO, "k8s-launch: %s\n", text); /* at once, so that lines of several programs don't mix */
}

static _Noreturn void usage(const char *wrong) {
    line("%s (usage: k8s-launch [-q] [--agent PROGRAM] -f HOSTFILE -- COMMAND...)", wrong);
    exit(USAGE);
}

static const char *set_or(const char *value, const char *otherwise) { return value && *value ? value : otherwise; }

/* A path of a file beside this program. */
static const char *beside(const char *name) {
    static char path[FILENAME_MAX + 32];
    ssize_t length = readlink("/proc/self/exe", path, FILENAME_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    strcpy(slash ? slash + 1 : path, name);
    return path;
}

/* The agent and its own arguments, with room for more words: of `ssh -x : rsh` those up to the colon. */
static char **agent_words(const char *given, size_t *count, size_t room) {
    const char *older = set_or(getenv("PRTE_MCA_plm_rsh_agent"), beside("kubexec.sh"));
    char *text = strdup(set_or(given, set_or(getenv("PRTE_MCA_plm_ssh_agent"), older))), *rest = NULL;
    char **words = calloc(AGENT_WORDS + room, sizeof *words);
    *count = 0;
    if (!words || !text) return NULL;
    for (char *word = strtok_r(text, " ", &rest); word && strcmp(word, ":") != 0 && *count < AGENT_WORDS;
         word = strtok_r(NULL, " ", &rest))
        words[(*count)++] = word;
    return words;
}

/* Starts an agent; 0 and errno if that can't be. It is in a group of its own, for a terminal's signals are for us to
 * forward, and it gets TERM when we are killed: nobody else would end what it runs. */
static pid_t start(char **words) {
    int failed = 0, report[2];
    pid_t parent = getpid();
    if (pipe2(report, O_CLOEXEC) < 0) return 0;
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) _exit(SYSTEM);
        dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
        sigprocmask(SIG_SETMASK, &inherited_mask, NULL);
        execvp(words[0], words);
        failed = errno;
        (void)!write(report[1], &failed, sizeof failed);
        _exit(SYSTEM);
    }
    if (pid < 0) failed = errno;
    close(report[1]);
    if (pid > 0 && read(report[0], &failed, sizeof failed) == sizeof failed) waitpid(pid, NULL, 0);
    close(report[0]);
    errno = failed;
    return failed ? 0 : pid;
}

static void forward(const struct daemon *daemons, size_t count, int number) {
    for (size_t i = 0; i < count; i++)
        if (daemons[i].pid > 0) kill(-daemons[i].pid, number); /* all of its group: a shell may wait for its child */
}

/* Waits for all agents; returns the first status that is not 0. */
static int wait_for_all(struct daemon *daemons, size_t count, int code) {
    sigset_t taken;
    int number, status;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    for (int n = 1; n <= 64; n++)
        if (is_taken(n)) sigaddset(&taken, n);
    for (size_t left = count;;) {
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
            size_t i = 0;
            while (i < count && daemons[i].pid != pid) i++;
            if (i == count) continue; /* not ours: one that we got with exec */
            daemons[i].pid = 0;
            left--;
            int ended = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
            if (WIFSIGNALED(status)) line("%s (id %zu): its agent was ended by signal %d", daemons[i].host, i, ended - 128);
            else if (ended || !is_quiet) line("%s (id %zu): ended with %d", daemons[i].host, i, ended);
            if (!code) code = ended;
        }
        if (!left) return code;
        sigwait(&taken, &number);
        if (number != SIGCHLD && number != SIGPIPE) forward(daemons, count, number);
    }
}

/* A hostfile's line is `HOST`, `HOST slots=N` (any name=number) or `HOST:N`; `#` begins a comment. A host becomes an
 * argument of the agent, so it is only what can be a host's name or address: no option of ssh's. */
static const char blanks[] = " \t\r\n\f\v";

static char *failure(const char *path, size_t number, const char *what, const char *word) {
    char *text;
    if (asprintf(&text, "%s, line %zu: %s %.*s", path, number, what, 64, word) < 0) return strdup("out of memory");
    for (char *at = text; *at; at++)
        if (!isprint((unsigned char)*at)) *at = '?'; /* it goes to a terminal */
    return text;
}

static int is_number(const char *text) { return *text && strspn(text, "0123456789") == strlen(text); }

static int is_host(const char *text) {
    for (const char *at = text; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-@:/%", *at)) return 0;
    const char *name = strchr(text, '@') ? strchr(text, '@') + 1 : text;
    return *text != '-' && *name && *name != '-' && name != text + 1;
}

/* Takes `:N` from a host's name. An IPv6 address has several colons, and keeps them. */
static int take_slots(char *host) {
    char *colon = strchr(host, ':');
    if (!colon || colon != strrchr(host, ':')) return 1;
    *colon = '\0';
    return is_number(colon + 1);
}

/* Returns the hosts in their order, at least one, with their user if they have one (`user@host`). NULL if the file can't
 * be read or is wrong: *error is then one line that names file and line. Nothing is freed. */
static char **read_hostfile(const char *path, size_t *count, char **error) {
    FILE *file = fopen(path, "re");
    char *line = NULL, **hosts = NULL;
    size_t size = 0, number = 0;
    *count = 0;
    *error = NULL;
    while (file && !*error && getline(&line, &size, file) >= 0) {
        number++;
        line[strcspn(line, "#")] = '\0';
        char *rest = NULL, *host = strtok_r(line, blanks, &rest);
        if (!host) continue;
        if (!take_slots(host)) *error = failure(path, number, "slots must be a number after", host);
        else if (!is_host(host)) *error = failure(path, number, "this can't be a host:", host);
        for (char *word; !*error && (word = strtok_r(NULL, blanks, &rest)) != NULL;) {
            char *value = strchr(word, '=');
            if (!value || value == word || !is_number(value + 1))
                *error = failure(path, number, "expected name=number, found", word);
        }
        char **more = realloc(hosts, (*count + 1) * sizeof *hosts);
        if (more) hosts = more;
        if (!more || !(hosts[(*count)++] = strdup(host))) *error = strdup("out of memory");
    }
    if (!*error && (!file || ferror(file)) && asprintf(error, "%s can't be read: %s", path, strerror(errno)) < 0)
        *error = strdup("out of memory");
    if (!*error && !*count && asprintf(error, "%s names no host", path) < 0) *error = strdup("out of memory");
    if (file) fclose(file);
    return *error ? NULL : hosts;
}

int main(int argc, char **argv) {
    const char *hostfile = NULL, *agent = NULL;
    signal(SIGCHLD, SIG_DFL); /* whoever started us may have ignored it */
    int at = 1;
    for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
        bool is_last = at + 1 >= argc;
        if (strcmp(argv[at], "-q") == 0) is_quiet = true;
        else if (strcmp(argv[at], "-f") == 0 && !is_last) hostfile = argv[++at];
        else if (strcmp(argv[at], "--agent") == 0 && !is_last) agent = argv[++at];
        else usage(strcmp(argv[at], "-f") == 0 ? "-f needs a HOSTFILE" : "an unknown option, or no -- before COMMAND");
    }
    if (!hostfile) usage("no HOSTFILE");
    if (at + 1 >= argc) usage("no COMMAND after --");
    char **command = argv + at + 1, *wrong;
    size_t length = (size_t)(argc - at - 1), count;
    char **hosts = read_hostfile(hostfile, &count, &wrong);
    if (!hosts) {
        line("%s", wrong);
        return USAGE;
    }
    size_t own;
    struct daemon *daemons = calloc(count, sizeof *daemons);
    char **words = agent_words(agent, &own, length + 3), id[64];
    if (!daemons || !words) {
        line("out of memory");
        return SYSTEM;
    }
    if (!own) usage("the agent has no name");
    words[own + 1] = id;
    memcpy(words + own + 2, command, length * sizeof *command);
    for (size_t i = 0; i < count; i++) {
        daemons[i].host = words[own] = hosts[i];
        snprintf(id, sizeof id, "export PRTE_ESS_K8SGO_ID=%zu;", i);
        if (!(daemons[i].pid = start(words))) {
            int code = errno == ENOENT ? 127 : errno == EACCES || errno == ENOEXEC ? 126 : SYSTEM;
            line("%s (id %zu): the agent %s can't be run: %s; name one by --agent or PRTE_MCA_plm_ssh_agent",
                 hosts[i], i, words[0], strerror(errno));
            forward(daemons, i, SIGTERM);
            return wait_for_all(daemons, i, code);
        }
        if (!is_quiet) line("%s (id %zu): started", hosts[i], i);
    }
    return wait_for_all(daemons, count, 0);
}
