/* What it costs to begin and to end an MPI program: `init_finalize`.
 *
 * Rank 0 prints two lines of key=value. First the library's version, the number of ranks, of nodes, of ranks on the
 * fullest node, and the seconds of MPI_Init and of the first barrier, each of the rank that took longest. Then the
 * seconds of MPI_Finalize: rank 0's own, as no message can be sent after it. All ranks enter it together.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv) {
    double began = now_s();
    MPI_Init(&argc, &argv);
    double initialized = now_s();
    MPI_Barrier(MPI_COMM_WORLD);
    double spent[2] = {initialized - began, now_s() - initialized}, longest[2];

    int rank, size, on_node, length;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    int counts[2], nodes, per_node;
    MPI_Comm_rank(node, &on_node);
    MPI_Comm_size(node, &counts[1]);
    counts[0] = on_node == 0;
    MPI_Comm_free(&node);
    MPI_Reduce(spent, longest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&counts[0], &nodes, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&counts[1], &per_node, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        char version[MPI_MAX_LIBRARY_VERSION_STRING];
        MPI_Get_library_version(version, &length);
        version[strcspn(version, ",\n")] = '\0';
        printf("mpi=\"%s\" size=%d nodes=%d ppn=%d init_s=%.6f barrier_s=%.6f\n", version, size, nodes, per_node,
               longest[0], longest[1]);
        fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double finalizing = now_s();
    MPI_Finalize();
    if (rank == 0)
        printf("finalize_s=%.6f\n", now_s() - finalizing);
    return 0;
}
