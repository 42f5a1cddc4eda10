/* rshagent-direct in users' containers: starts a hub on the Python that was delivered beside it.
 *
 * The folder that holds this program has python/, which came without knowing where it would be put: it is started by its
 * own loader, with its own libraries, so that the image needs to have neither. The client calls this program with
 * MPI_AGENT_SERVE (client_hub.c). Without it, it is called in place of the client, and becomes that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CODE "import sys; from rshagent.hub.cli import own; sys.exit(own())"

static char folder[FILENAME_MAX];

static char *inside(const char *path) {
    char *whole;
    if (asprintf(&whole, "%s/%s", folder, path) < 0) {
        fprintf(stderr, "rshagent: no memory to start with\n");
        exit(255);
    }
    return whole;
}

int main(int argc, char **argv) {
    (void)argc;
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    char *slash = length > 0 ? strrchr(folder, '/') : NULL;
    if (slash == NULL) {
        fprintf(stderr, "rshagent: /proc can't be read (%s), so the folder with python/ is not found\n", strerror(errno));
        return 255;
    }
    *slash = '\0';
    char *program = inside("rshagent"), *missing = "call rshagent, which the tool `client` delivers";
    if (getenv("MPI_AGENT_SERVE") == NULL) {
        execv(program, argv);
    } else {
        /* These libraries and locales are of the image's C library, and not for ours. Without LC_ALL Python would set
         * LC_CTYPE. */
        unsetenv("LD_PRELOAD");
        unsetenv("LD_AUDIT");
        setenv("LC_ALL", "C", 1);
        program = inside("python/ld.so");
        missing = "deliver the tool `direct` whole, with its folder python";
        execl(program, program, "--inhibit-cache", "--library-path", inside("python/lib"), inside("python/bin/python3"),
              "-I", "-S", "-B", "-c", CODE, (char *)NULL);
    }
    fprintf(stderr, "rshagent: %s can't be run: %s; %s\n", program, strerror(errno), missing);
    return 255;
}
