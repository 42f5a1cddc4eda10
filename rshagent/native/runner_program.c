/* Programs: see runner_program.h. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "messages.h"
#include "runner_program.h"

enum { NOT_RUN = 126, NOT_FOUND = 127 };

/* Variables that are true of one container only: this one's own count, and where it has none there is none. One that
 * ends with "_" is a prefix. docs/separated.md has the reason for each. */
static const char *const own[] = {"PATH", "LD_", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "TMPDIR",
                                  "OPAL_PREFIX", "PMIX_PREFIX", "PMIX_INSTALL_PREFIX", "PRTE_PREFIX",
                                  "OMPI_MCA_mca_base_component_path"};

static bool is_own(const char *variable) {
    const size_t name = strcspn(variable, "=");
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        const size_t length = strlen(own[i]);
        if (strncmp(variable, own[i], length) == 0 && (name == length || own[i][length - 1] == '_')) return true;
    }
    return false;
}

static bool is_in(char **environment, const char *variable) {
    const size_t name = strcspn(variable, "=") + 1;
    for (; *environment; environment++)
        if (strncmp(*environment, variable, name) == 0) return true;
    return false;
}

bool read_program(char *payload, size_t length, struct program *program) {
    uint32_t counts[2];
    if (length < sizeof counts + 1 || payload[length - 1] != '\0') return false;
    memcpy(counts, payload, sizeof counts);
    uint64_t argc = ntohl(counts[0]), envc = ntohl(counts[1]), strings = 0, ours = 0;
    for (size_t at = sizeof counts; at < length; at++) strings += payload[at] == '\0';
    if (argc == 0 || argc + envc > STRINGS_MAX || strings != argc + envc + 2) return false;
    while (environ[ours]) ours++;
    char **words = calloc(argc + 1 + envc + ours + 1, sizeof *words), *text = payload + sizeof counts;
    if (!words) return false;
    program->argv = words;
    program->environment = words + argc + 1;
    for (; argc > 0; argc--, text += strlen(text) + 1) *words++ = text;
    for (words++; envc > 0; envc--, text += strlen(text) + 1) {
        if (!strchr(text, '=')) return false;
        if (!is_own(text)) *words++ = text;
    }
    program->folder = text;
    char **sent_end = words; /* the first of two variables with one name counts, so what was sent does */
    for (char **variable = environ; *variable; variable++) {
        if (is_in(program->environment, *variable)) continue;
        *sent_end++ = *variable;
    }
    return true;
}

/* 0, or the exit code of a file that can't be run; *why is then its reason. */
static int check(const char *path, const char **why) {
    struct stat file;
    if (stat(path, &file) < 0) {
        *why = strerror(errno);
        return errno == ENOENT || errno == ENOTDIR ? NOT_FOUND : NOT_RUN;
    }
    *why = S_ISDIR(file.st_mode) ? "it is a directory" : !S_ISREG(file.st_mode) ? "it is no regular file" : NULL;
    if (!*why && access(path, X_OK) < 0) *why = errno == EACCES ? "it is not executable" : strerror(errno);
    return *why ? NOT_RUN : 0;
}

int find_program(struct program *program, char *why, size_t size) {
    const char *name = program->argv[0], *reason = "", *path = getenv("PATH"); /* the program's, too: it is our own */
    if (!path) path = "/usr/local/bin:/usr/bin:/bin";
    if (strchr(name, '/')) {
        int code = strlen(name) < sizeof program->path ? check(name, &reason) : NOT_RUN;
        if (code == NOT_FOUND) snprintf(why, size, "there is no program %s", name);
        else if (code) snprintf(why, size, "%s can't be run: %s", name, *reason ? reason : "its path is too long");
        else strcpy(program->path, name);
        return code;
    }
    int worst = NOT_FOUND;
    snprintf(why, size, "there is no program \"%s\" in PATH (%s)", name, path);
    for (const char *at = path; *name; at++) {
        const int length = (int)strcspn(at, ":");
        const int whole = snprintf(program->path, sizeof program->path, "%.*s%s%s", length, at, length ? "/" : "./", name);
        int code = whole < (int)sizeof program->path ? check(program->path, &reason) : NOT_FOUND;
        if (code == 0) return 0;
        if (code == NOT_RUN && worst == NOT_FOUND)
            snprintf(why, size, "%s can't be run: %s", program->path, reason), worst = NOT_RUN;
        if (!*(at += length)) break;
    }
    return worst;
}

/* The architecture that an executable is built for, "" if it is no ELF file. */
static const char *machine_of(const char *path) {
    static const struct { uint16_t machine; const char *name; } names[] = {
        {EM_386, "386"}, {EM_ARM, "arm"}, {EM_X86_64, "amd64"}, {EM_AARCH64, "arm64"}, {EM_PPC64, "ppc64"},
        {EM_S390, "s390x"}, {EM_RISCV, "riscv64"}};
    Elf64_Ehdr elf = {.e_machine = 0}; /* its machine is where that of an Elf32_Ehdr is */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t length = fd < 0 ? 0 : read(fd, &elf, sizeof elf);
    if (fd >= 0) close(fd);
    if (length < (ssize_t)sizeof(Elf32_Ehdr) || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0) return "";
    uint16_t machine = elf.e_machine;
    if ((elf.e_ident[EI_DATA] == ELFDATA2MSB) != (htons(1) == 1)) machine = (uint16_t)(machine >> 8 | machine << 8);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].machine == machine) return names[i].name;
    return "an unknown architecture";
}

int explain_exec(const struct program *program, int error, char *why, size_t size) {
    const char *path = program->path, *machine = machine_of(path), *here = machine_of("/proc/self/exe");
    if (error == ENOEXEC && *machine && strcmp(machine, here) != 0)
        snprintf(why, size, "%s is built for %s, and this node is %s", path, machine, here);
    else if (error == ENOEXEC)
        snprintf(why, size, "%s is neither an executable for %s nor a script that begins with #!", path, here);
    else if (error == ENOENT)
        snprintf(why, size, "%s needs %s that this image does not have", path,
                 *machine ? "a dynamic loader" : "the interpreter of its first line,");
    else if (error == E2BIG)
        snprintf(why, size, "the arguments and environment of %s are longer than this container allows (a quarter of its "
                 "stack limit)", path);
    else
        snprintf(why, size, "%s can't be run: %s", path, strerror(error));
    return NOT_RUN;
}
