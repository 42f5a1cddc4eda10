/* rshagent-direct in users' containers: starts direct mode on the Python that was delivered beside it.
 *
 * The folder that holds this program has python/, which came without knowing where it would be put: it is started by its
 * own loader, with its own libraries, so that the image needs to have neither.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_signals.h"

#define PYTHON "/python/"
#define CODE "from rshagent.direct import main; main()"

static char folder[FILENAME_MAX];

static char *inside(const char *path) {
    char *whole;
    if (asprintf(&whole, "%s" PYTHON "%s", folder, path) < 0) {
        fprintf(stderr, "rshagent: no memory to start with\n");
        exit(255);
    }
    return whole;
}

/* Direct mode gives it back to what it runs in its own place; "" stands for none. */
static void put_away(const char *name, const char *kept) {
    const char *value = getenv(name);
    setenv(kept, value ? value : "", 1);
    unsetenv(name);
}

/* A signal would end Python before it can be told to take signals: it begins with all blocked, and this mask to set. */
static void put_mask_away(void) {
    char text[32];
    unsigned long long mask = 0;
    for (int n = 1; n <= 64; n++) mask |= (unsigned long long)(sigismember(&inherited_mask, n) == 1) << (n - 1);
    snprintf(text, sizeof text, "%llx", mask);
    setenv("MPI_AGENT_SIGNAL_MASK", text, 1);
}

int main(int argc, char **argv) {
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    char *slash = length > 0 ? strrchr(folder, '/') : NULL;
    if (slash == NULL) {
        fprintf(stderr, "rshagent: /proc can't be read (%s), so the folder with python/ is not found\n", strerror(errno));
        return 255;
    }
    *slash = '\0';
    /* These libraries and locales are of the image's C library, and not for ours. Without LC_ALL Python would set
     * LC_CTYPE, and its own children would inherit that. */
    put_away("LD_PRELOAD", "MPI_AGENT_LD_PRELOAD");
    put_away("LD_AUDIT", "MPI_AGENT_LD_AUDIT");
    put_away("LC_ALL", "MPI_AGENT_LC_ALL");
    setenv("LC_ALL", "C", 1);
    put_mask_away();
    if (argc > 0)
        setenv("MPI_AGENT_ARGV0", argv[0], 0); /* the client has set it, if it was the client that called */

    char *loader = inside("ld.so");
    char *start[] = {loader, "--inhibit-cache", "--library-path", inside("lib"), inside("bin/python3"),
                     "-I", "-S", "-B", "-c", CODE};
    const size_t own = sizeof start / sizeof *start, given = argc > 1 ? (size_t)argc - 1 : 0;
    char **words = calloc(own + given + 1, sizeof *words);
    if (words) {
        memcpy(words, start, sizeof start);
        if (given)
            memcpy(words + own, argv + 1, given * sizeof *words);
        execv(loader, words);
    }
    fprintf(stderr, "rshagent: %s can't be run: %s; deliver the tool `direct` whole, with its folder python\n", loader,
            strerror(errno));
    return 255;
}
