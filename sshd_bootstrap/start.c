/* sshd-start: the first process of an ssh job's worker, and of each ssh session in it.
 *
 *   sshd-start SSHD ARGUMENT…    sees that sshd can work in this container, or says in one line why not; becomes sshd
 *   sshd-start --session         is sshd's ForceCommand: runs what was asked for, in the container's environment
 *
 * It is static, for any image, and lies in the folder that sshd_bootstrap prepared (layout.py). A child of its own stays
 * beside sshd, and has it read its host key again when that was replaced. What goes wrong here is also written where
 * Kubernetes looks for it; the exit codes are told in docs/ssh.md.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "start.h"

enum { KEY = 40, ACCOUNT = 41, PORT = 42, CAPABILITY = 43, REFUSED = 44};
enum { PATH_SIZE = FILENAME_MAX + 32, TEXT_SIZE = 1 << 16, LINE_SIZE = 4096, OTHERS = 077, READERS = 044 };

static char folder[FILENAME_MAX]; /* ours, with a slash at its end */

void end(int code, const char *format, ...) {
    char line[LINE_SIZE] = "sshd-start: ";
    va_list values;
    va_start(values, format);
    vsnprintf(line + strlen(line), sizeof line - strlen(line) - 1, format, values);
    va_end(values);
    int log = open("/dev/termination-log", O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK);
    if (log >= 0) (void)!write(log, line, strlen(line));
    strcat(line, "\n");
    (void)!write(STDERR_FILENO, line, strlen(line));
    exit(code);
}

char *beside(const char *name) {
    char *path;
    if (asprintf(&path, "%s%s", folder, name) < 0) end(VOLUME, "out of memory");
    return path;
}

/* The whole of a descriptor, cut to what there is room for. */
static char *take(int fd, char *text, size_t size) {
    size_t length = 0;
    for (ssize_t n; fd >= 0 && length < size - 1; length += (size_t)n) {
        n = read(fd, text + length, size - 1 - length);
        if (n < 0 && errno == EINTR) n = 0;
        else if (n <= 0) break;
    }
    if (fd >= 0) close(fd);
    text[length] = '\0';
    return text;
}

static char *read_text(const char *path, char *text, size_t size) {
    return take(open(path, O_RDONLY | O_CLOEXEC), text, size);
}

static void check_key(const char *key) {
    struct stat found = {0};
    unsigned uid = geteuid();
    if (stat(key, &found) < 0)
        end(KEY, "%s can't be found: %s; sshd-bootstrap has to run first, as uid %u", key, strerror(errno), uid);
    unsigned mode = found.st_mode & 0777;
    if (access(key, R_OK) < 0 || (found.st_uid != uid && !(mode & READERS)))
        end(KEY, "this container runs as uid %u, and the ssh keys are uid %u's: set securityContext.runAsUser: %u in the "
            "template, and they are prepared for that", uid, (unsigned)found.st_uid, uid);
    if (found.st_uid == uid && mode & OTHERS)
        end(KEY, "%s has mode %04o, and sshd takes no key of its own that others may read: %s", key, mode,
            mode & 022 ? "fsGroup has changed it; take that out of the template"
                       : "name the uid in the template (securityContext.runAsUser), and it is prepared for that");
}

/* Whether names of users come from elsewhere than /etc/passwd, too, where only sshd itself can look. */
static bool has_other_names(void) {
    static const char *const others[] = {" sss", " ldap", " winbind", " extrausers"};
    char text[LINE_SIZE], *line = strstr(read_text("/etc/nsswitch.conf", text, sizeof text), "passwd:");
    if (line) line[strcspn(line, "\n")] = '\0';
    for (size_t i = 0; line && i < sizeof others / sizeof *others; i++)
        if (strstr(line, others[i])) return true;
    return getenv("NSS_WRAPPER_PASSWD") != NULL;
}

static const char *base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The name of our uid, which sshd will ask for, too; "" where it can't be told from here. */
static const char *check_account(void) {
    static const char advice[] = "or have it generated (ssh.passwd: generated)";
    FILE *file = fopen("/etc/passwd", "re");
    struct passwd *found = NULL;
    while (file && (found = fgetpwent(file)) != NULL && found->pw_uid != geteuid()) {}
    if (!found && has_other_names()) return "";
    if (!found)
        end(ACCOUNT, "uid %u has no entry in /etc/passwd, and sshd lets nobody in who has none: add it to the image, %s",
            (unsigned)geteuid(), advice);
    const char *shell = *found->pw_shell ? found->pw_shell : "/bin/sh";
    if (access(shell, X_OK) < 0 || strcmp(base(shell), "nologin") == 0 || strcmp(base(shell), "false") == 0)
        end(ACCOUNT, "the shell of uid %u in /etc/passwd, %s, runs no commands: name one that does in the image, %s",
            (unsigned)geteuid(), shell, advice);
    return found->pw_name;
}

/* Without PAM, sshd refuses accounts whose password is locked by a `!`. Only root can see that, and be refused. */
static bool is_locked(const char *name) {
    char text[TEXT_SIZE], *line = read_text("/etc/shadow", text, sizeof text);
    for (size_t length = strlen(name); line && *line && length; line = strchr(line, '\n'), line += line != NULL)
        if (strncmp(line, name, length) == 0 && line[length] == ':') return line[length + 1] == '!';
    return false;
}

static void check_capabilities(void) {
    static const struct { int bit; const char *name; } needed[] = {{6, "SETGID"}, {7, "SETUID"}, {18, "SYS_CHROOT"}};
    char text[LINE_SIZE], lacking[64] = "", *at = strstr(read_text("/proc/self/status", text, sizeof text), "\nCapEff:");
    unsigned long long has = at ? strtoull(at + strlen("\nCapEff:"), NULL, 16) : ~0ULL;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!(has >> needed[i].bit & 1)) sprintf(lacking + strlen(lacking), " %s", needed[i].name);
    if (geteuid() == 0 && *lacking)
        end(CAPABILITY, "sshd as root needs the capabilities that this container lacks:%s; let it have them, or run it as "
            "another uid (securityContext.runAsUser: 1000)", lacking);
}

static _Noreturn void lack_sshd(const char *given) {
    static const char *const ways[][2] = {
        {"debian", "apt-get install openssh-server"}, {"alpine", "apk add openssh-server"},
        {"fedora", "dnf install openssh-server"}, {"rhel", "dnf install openssh-server"},
        {"suse", "zypper install openssh-server"}, {"arch", "pacman -S openssh"}};
    char text[LINE_SIZE];
    const char *way = "the package openssh-server";
    read_text("/etc/os-release", text, sizeof text);
    for (size_t i = sizeof ways / sizeof *ways; i-- > 0;)
        if (strstr(text, ways[i][0])) way = ways[i][1];
    end(MISSING, "no sshd in this image (asked for: %s): put it in by %s, or run the job by transport: exec, which needs "
        "none", given, way);
}

/* The absolute path of sshd, which it wants for itself: what was asked for, or where distributions have it. */
static char *find_sshd(const char *given) {
    static const char *const usual[] = {"/usr/sbin/sshd", "/usr/bin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd"};
    if (*given == '/' && access(given, F_OK) == 0) {
        if (access(given, X_OK) < 0) end(NOT_EXECUTABLE, "%s can't be executed: %s", given, strerror(errno));
        return strdup(given);
    }
    char path[PATH_SIZE];
    for (const char *at = getenv("PATH"); *given != '/' && at && *at; at += strcspn(at, ":"), at += *at == ':') {
        snprintf(path, sizeof path, "%.*s/%s", (int)strcspn(at, ":"), at, given);
        if (*path == '/' && access(path, X_OK) == 0) return strdup(path);
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (access(usual[i], X_OK) == 0) return strdup(usual[i]);
    lack_sshd(given);
}

/* Runs sshd in one of its modes that only look; returns whether it was content, and in `text` what it said. */
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

/* Takes an address that sshd will listen at, as sshd -T writes it (0.0.0.0:22, [::]:22), and lets it go again. */
static void check_address(const char *sshd, char *text) {
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    char *colon = strrchr(text, ':'), *host = text + (*text == '[');
    if (!colon) return;
    unsigned port = (unsigned)strtoul(colon + 1, NULL, 10);
    colon[*text == '[' ? -1 : 0] = '\0';
    v4.sin_port = v6.sin6_port = htons((uint16_t)port);
    bool is_v6 = inet_pton(AF_INET6, host, &v6.sin6_addr) == 1;
    if (!is_v6 && inet_pton(AF_INET, host, &v4.sin_addr) != 1) return;
    int fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes); /* as sshd does */
    if (is_v6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    int failed = bind(fd, is_v6 ? (void *)&v6 : (void *)&v4, is_v6 ? sizeof v6 : sizeof v4) < 0 ? errno : 0;
    if (fd >= 0) close(fd);
    if (failed == EADDRINUSE)
        end(PORT, "port %u is in use already: name another (ssh.port); with hostNetwork it is the node's", port);
    bool gains = getxattr(sshd, "security.capability", NULL, 0) > 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0;
    if (failed == EACCES && !gains)
        end(PORT, "port %u is for root or the capability NET_BIND_SERVICE, and this container runs as uid %u: name one of "
            "1024 or above (ssh.port)", port, (unsigned)geteuid());
}

/* By a look each second: inotify's instances are few, and shared by all pods of a uid on a node. */
static void watch_key(const char *key) {
    pid_t sshd = getpid();
    struct stat now, last = {0};
    stat(key, &last);
    if (fork() != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fd = 0, null = open("/dev/null", O_RDWR | O_CLOEXEC); fd <= 2; fd++) dup2(null, fd);
    for (; getppid() == sshd; sleep(1))
        if (stat(key, &now) == 0 && (now.st_ino != last.st_ino || now.st_mtim.tv_nsec != last.st_mtim.tv_nsec)) {
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

/* Sees how sshd would be set up by these words, and adds what only this image's sshd can say is needed. */
static void check_sshd(char **words, size_t count, const char *name, bool has_our_config) {
    static char text[TEXT_SIZE];
    bool needs_pam = has_our_config && is_locked(name), has_pam = false, has_penalties = false;
    if (needs_pam) words[count++] = "-oUsePAM=yes";
    words[count] = "-T"; /* as -t does, and tells how it is set up */
    bool tells = ask_sshd(words, text);
    words[count] = "-t"; /* -T wants to know of whom, where there is a Match block */
    if (!tells && !ask_sshd(words, text)) {
        for (char *at = text + strlen(text); at-- > text;)
            if (strchr("\r\n", *at)) *at = at[1] ? ' ' : '\0';
        end(REFUSED, "sshd -t: %s", text);
    }
    for (char *line = tells ? strtok(text, "\r\n") : NULL; line; line = strtok(NULL, "\r\n")) {
        has_pam |= strcmp(line, "usepam yes") == 0;
        has_penalties |= strncmp(line, "persourcepenalties", 18) == 0;
        if (strncmp(line, "listenaddress ", 14) == 0) check_address(words[0], line + 14);
    }
    if (needs_pam && !has_pam)
        end(ACCOUNT, "the password of %s is locked (! in /etc/shadow), and this sshd, which knows no PAM, then lets it in "
            "by no key either: set it to * in the image (usermod -p '*' %s)", name, name);
    /* OpenSSH 9.8 and later shut out who looks for a banner again and again, as delivery and the worker agent do. */
    words[count] = has_penalties ? "-oPerSourcePenalties=no" : NULL;
}

int main(int argc, char **argv) {
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    char *slash = length > 0 ? strrchr(folder, '/') : NULL;
    if (!slash) end(VOLUME, "/proc can't be read: %s", strerror(errno));
    slash[1] = '\0';
    if (argc == 2 && strcmp(argv[1], "--session") == 0) run_session();
    if (argc < 2) end(USAGE, "usage: sshd-start SSHD ARGUMENT...");

    char *key = beside("ssh_host_key"), **words = calloc((size_t)argc + 5, sizeof *words);
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
