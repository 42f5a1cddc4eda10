/* pi by the midpoint rule, its strips dealt out to the ranks: `pi [SECONDS]`.
 *
 * Every rank says where it runs; rank 0 says what pi is, and fails if that is wrong. With SECONDS the ranks go on
 * computing for that long first, which gives time to look at a running job.
 */
#define _DEFAULT_SOURCE
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PI 3.14159265358979323846

static double strips_of(int rank, int size) {
    const long strips = 1000000;
    double sum = 0;
    for (long i = rank; i < strips; i += size) {
        double x = ((double)i + 0.5) / (double)strips;
        sum += 4 / (1 + x * x);
    }
    return sum / (double)strips;
}

int main(int argc, char **argv) {
    int rank, size, wrong;
    double pi;
    char host[256] = "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gethostname(host, sizeof host - 1);
    printf("rank %d of %d on %s\n", rank, size, host);
    fflush(stdout);

    double end = MPI_Wtime() + (argc > 1 ? atof(argv[1]) : 0);
    for (int go_on = 1; go_on;) {
        double mine = strips_of(rank, size);
        MPI_Allreduce(&mine, &pi, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        go_on = MPI_Wtime() < end; /* rank 0's clock is everyone's */
        MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (go_on)
            usleep(50000); /* ranks of one machine leave each other room */
    }
    wrong = fabs(pi - PI) > 1e-9;
    if (rank == 0)
        printf("pi is approximately %.12f%s\n", pi, wrong ? ", which is WRONG" : "");
    MPI_Finalize();
    return wrong;
}
