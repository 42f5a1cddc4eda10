/* A container of podman with an mpi-runner in it: docs/podman.md. */
#ifndef WRAP_PODMAN_H
#define WRAP_PODMAN_H

/* Has podman start a container from the image. Returns our end of its runner's connection, which can be used at once. */
int start_podman(const char *image);

/* Says why its runner is gone before it has started anything, and ends. */
_Noreturn void explain_podman(const char *image);

#endif
