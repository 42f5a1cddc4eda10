/* Walkers in a domain that is dealt out to the ranks in a ring: `random_walk DOMAIN STEPS WALKERS`.
 *
 * Each rank begins with WALKERS walkers at its first place, each of which has at most STEPS steps to go. A walker that
 * leaves a rank's places is sent to the next rank. Every rank says where it runs; rank 0 fails if a walker got lost.
 */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PLACE, LEFT }; /* of a walker: where it is, and how many steps it has left */
enum { MOST = 4096 }; /* walkers of a rank at once */

static int rank, size, width;

/* Walks each walker to its end or out of the rank's places; those that are out come first. Returns how many. */
static int walk(int (*walkers)[2], int count) {
    int out = 0;
    for (int i = 0; i < count; i++) {
        int *one = walkers[i];
        for (; one[LEFT] > 0 && one[PLACE] < width; one[LEFT]--)
            one[PLACE]++;
        if (one[LEFT] > 0) {
            walkers[out][LEFT] = one[LEFT];
            walkers[out++][PLACE] = 0;
        }
    }
    return out;
}

/* Hands the walkers that are out to the next rank. Returns how many came from the one before. */
static int hand_over(int (*walkers)[2], int out) {
    static int arriving[MOST][2];
    MPI_Status status;
    int came;
    MPI_Sendrecv(walkers, 2 * out, MPI_INT, (rank + 1) % size, 0, arriving, 2 * MOST, MPI_INT, (rank + size - 1) % size,
                 0, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &came);
    for (int i = 0; i < came / 2; i++)
        for (int k = PLACE; k <= LEFT; k++)
            walkers[i][k] = arriving[i][k];
    return came / 2;
}

int main(int argc, char **argv) {
    static int walkers[MOST][2];
    int begun, ended = 0, all_ended = 0;
    char host[256] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int domain = argc > 1 ? atoi(argv[1]) : 0, steps = argc > 2 ? atoi(argv[2]) : 0;
    int count = argc > 3 ? atoi(argv[3]) : 0;
    if (domain < size || steps < 1 || count < 1 || count * size > MOST) {
        if (rank == 0)
            fprintf(stderr, "usage: random_walk DOMAIN STEPS WALKERS, with as many places as ranks or more\n");
        MPI_Finalize();
        return 2;
    }
    gethostname(host, sizeof host - 1);
    printf("rank %d of %d on %s\n", rank, size, host);
    fflush(stdout);

    width = domain / size + (rank < domain % size);
    srand(1 + (unsigned)rank);
    for (int i = 0; i < count; i++) {
        walkers[i][PLACE] = 0;
        walkers[i][LEFT] = 1 + rand() % steps;
    }
    for (begun = count * size; all_ended < begun;) {
        int out = walk(walkers, count);
        ended += count - out;
        count = hand_over(walkers, out);
        MPI_Allreduce(&ended, &all_ended, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("%d of %d walkers have ended\n", all_ended, begun);
    MPI_Finalize();
    return all_ended != begun;
}
