/* What sshd-start checks before sshd does: sshd reports it later, to the client only, or not at all. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "start_checks.h"
#include "start_common.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char name_uid[] = "name the uid in the template (securityContext.runAsUser), and it is prepared for that";

void check_key(const char *key) {
    enum { WRITERS = 022, READERS = 044, OTHERS = 077 };
    struct stat found = {0};
    unsigned uid = geteuid();
    if (stat(key, &found) < 0)
        end(KEY, "%s can't be found: %s; has sshd-bootstrap run before, as uid %u?", key, strerror(errno), uid);
    unsigned mode = found.st_mode & 0777, owner = found.st_uid;
    if (access(key, R_OK) < 0 || (owner != uid && !(mode & READERS)))
        end(KEY, "this container runs as uid %u, and the ssh keys are uid %u's: set securityContext.runAsUser: %u in "
            "the template, and they are prepared for that", uid, owner, uid);
    if (owner == uid && mode & OTHERS)
        end(KEY, "%s has mode %04o, and sshd takes no key of its own that others may read: %s", key, mode,
            mode & WRITERS ? "fsGroup has changed it; take that out of the template" : name_uid);
}

/* Whether names of users come from elsewhere than /etc/passwd, too, where only sshd itself can look. */
static bool has_other_names(void) {
    static const char *const others[] = {" sss", " ldap", " winbind", " extrausers"};
    char text[TEXT_SIZE], *line = strstr(read_text("/etc/nsswitch.conf", text, sizeof text), "passwd:");
    if (line) line[strcspn(line, "\n")] = '\0';
    for (size_t i = 0; line && i < COUNT(others); i++)
        if (strstr(line, others[i])) return true;
    return getenv("NSS_WRAPPER_PASSWD") != NULL;
}

const char *check_account(void) {
    unsigned uid = geteuid();
    FILE *file = fopen("/etc/passwd", "re");
    struct passwd *found = NULL;
    while (file && (found = fgetpwent(file)) != NULL && found->pw_uid != uid) {}
    if (!found && has_other_names()) return "";
    if (!found)
        end(ACCOUNT, "uid %u has no entry in /etc/passwd, and sshd lets nobody in who has none: add one to the image, "
            "or have one generated (ssh.passwd: generated)", uid);
    const char *shell = *found->pw_shell ? found->pw_shell : "/bin/sh", *slash = strrchr(shell, '/');
    const char *name = slash ? slash + 1 : shell;
    if (access(shell, X_OK) < 0 || strcmp(name, "nologin") == 0 || strcmp(name, "false") == 0)
        end(ACCOUNT, "the shell of uid %u in /etc/passwd, %s, runs no commands: name one that does in the image, or "
            "have an entry generated (ssh.passwd: generated)", uid, shell);
    return found->pw_name;
}

bool is_locked(const char *name) {
    char *line = NULL;
    size_t room = 0, length = strlen(name);
    FILE *file = length ? fopen("/etc/shadow", "re") : NULL;
    while (file && getline(&line, &room, file) > 0)
        if (strncmp(line, name, length) == 0 && line[length] == ':') return line[length + 1] == '!';
    return false;
}

/* One of the process's sets of capabilities, a bit for each; all if they can't be read. */
static unsigned long long capabilities(const char *field) {
    char text[TEXT_SIZE], *at = strstr(read_text("/proc/self/status", text, sizeof text), field);
    return at ? strtoull(at + strlen(field), NULL, 16) : ~0ULL;
}

static const char *names_of(unsigned long long bits) {
    static const char *const known[] = {[6] = "SETGID", "SETUID", [10] = "NET_BIND_SERVICE", [18] = "SYS_CHROOT"};
    static char text[LINE_SIZE];
    for (size_t bit = 0, length = 0; bit < 64; bit++) {
        if (!(bits >> bit & 1)) continue;
        if (bit < COUNT(known) && known[bit]) length += (size_t)sprintf(text + length, " %s", known[bit]);
        else length += (size_t)sprintf(text + length, " number %zu", bit);
    }
    return text;
}

void check_capabilities(void) {
    unsigned long long needed = 1ULL << 6 | 1ULL << 7 | 1ULL << 18, lacking = needed & ~capabilities("\nCapEff:");
    if (geteuid() == 0 && lacking)
        end(CAPABILITY, "sshd as root needs capabilities that this container lacks:%s; let it have them, or run it "
            "as another uid (securityContext.runAsUser: 1000)", names_of(lacking));
}

/* capabilities(7): execve fails where a process may not have what the file gives, as it was made with `setcap …=ep`. */
void check_own_capabilities(const char *sshd) {
    uint32_t given[6] = {0}; /* vfs_cap_data: revision and flags; permitted, inheritable; the upper half of both */
    if (getxattr(sshd, "security.capability", given, sizeof given) < 0) return;
    unsigned long long lacking = (given[1] | (unsigned long long)given[3] << 32) & ~capabilities("\nCapBnd:");
    if (lacking)
        end(CAPABILITY, "%s has capabilities of its own (setcap) that this container may not have:%s; add them to "
            "securityContext.capabilities in the template, or take them from the file in the image (setcap -r %s)",
            sshd, names_of(lacking), sshd);
}

static _Noreturn void end_without_sshd(const char *given) {
    /* By names in /etc/os-release; a derived distribution names its parent, too. */
    static const char *const ways[][2] = {
        {"debian", "apt-get install openssh-server"}, {"alpine", "apk add openssh-server"},
        {"fedora", "dnf install openssh-server"},     {"rhel", "dnf install openssh-server"},
        {"suse", "zypper install openssh-server"},    {"arch", "pacman -S openssh"}};
    char text[LINE_SIZE];
    const char *way = "the package openssh-server, or what it is called there";
    read_text("/etc/os-release", text, sizeof text);
    for (size_t i = COUNT(ways); i-- > 0;)
        if (strstr(text, ways[i][0])) way = ways[i][1];
    end(MISSING, "no sshd in this image (asked for: %s): put it in by %s, or run the job by transport: exec, which "
        "needs none", given, way);
}

char *find_sshd(const char *given) {
    static const char *const usual[] = {"/usr/sbin/sshd", "/usr/bin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd"};
    char path[PATH_SIZE];
    if (*given == '/' && access(given, F_OK) == 0) {
        if (access(given, X_OK) < 0) end(NOT_EXECUTABLE, "%s can't be executed: %s", given, strerror(errno));
        return strdup(given);
    }
    for (const char *at = getenv("PATH"); *given != '/' && at && *at; at += strcspn(at, ":"), at += *at == ':') {
        snprintf(path, sizeof path, "%.*s/%s", (int)strcspn(at, ":"), at, given);
        if (*path == '/' && access(path, X_OK) == 0) return strdup(path);
    }
    for (size_t i = 0; i < COUNT(usual); i++)
        if (access(usual[i], X_OK) == 0) return strdup(usual[i]);
    end_without_sshd(given);
}

/* Takes the address as sshd would. Returns errno; 0, too, where there is no such family of addresses here. */
static int try_address(struct sockaddr *address, socklen_t size) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1, failed = 0;
    if (fd < 0) return 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (address->sa_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (bind(fd, address, size) < 0) failed = errno;
    close(fd);
    return failed;
}

void check_address(const char *sshd, char *address) {
    union { struct sockaddr any; struct sockaddr_in v4; struct sockaddr_in6 v6; } to = {0};
    bool is_v6 = *address == '[';
    char *colon = strrchr(address, ':'), *host = address + is_v6;
    if (!colon) return;
    *colon = '\0';
    host[strcspn(host, "]")] = '\0';
    unsigned port = (unsigned)strtoul(colon + 1, NULL, 10);
    to.any.sa_family = is_v6 ? AF_INET6 : AF_INET;
    to.v4.sin_port = htons((uint16_t)port); /* at the same place in both */
    if (inet_pton(to.any.sa_family, host, is_v6 ? (void *)&to.v6.sin6_addr : (void *)&to.v4.sin_addr) != 1) return;
    int failed = try_address(&to.any, is_v6 ? sizeof to.v6 : sizeof to.v4);
    if (failed == EADDRINUSE)
        end(PORT, "port %u is in use already: name another (ssh.port); with hostNetwork it is the node's", port);
    /* The file itself may bring the capability along, as in mpi-operator's images. */
    bool gains = getxattr(sshd, "security.capability", NULL, 0) > 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0;
    if (failed == EACCES && !gains)
        end(PORT, "port %u is for root or the capability NET_BIND_SERVICE, and this container runs as uid %u: name one "
            "of 1024 or above (ssh.port)", port, (unsigned)geteuid());
}
