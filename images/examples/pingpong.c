/* Messages between all neighbours, 0 and 1, 1 and 2, …: `pingpong [BYTES [ROUNDS]]`.
 *
 * Each pair sends a block there and back, checks every byte of it, and says how fast that was. A wrong byte ends the
 * job with 1.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned char byte_of(size_t place, int round, int sender) {
    return (unsigned char)(place * 131 + (size_t)round * 17 + (size_t)sender * 7 + 1);
}

static void fill(unsigned char *block, int bytes, int round, int sender) {
    for (int i = 0; i < bytes; i++)
        block[i] = byte_of((size_t)i, round, sender);
}

static void verify(const unsigned char *block, int bytes, int round, int sender) {
    for (int i = 0; i < bytes; i++)
        if (block[i] != byte_of((size_t)i, round, sender)) {
            fprintf(stderr, "pingpong: round %d from rank %d: byte %d is wrong\n", round, sender, i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

/* The lower rank of a pair begins. Returns the seconds that the messages alone took. */
static double exchange(int rank, int peer, unsigned char *block, int bytes, int rounds) {
    double seconds = 0;
    for (int round = 0; round < rounds; round++) {
        if (rank < peer)
            fill(block, bytes, round, rank);
        double began = MPI_Wtime();
        if (rank < peer)
            MPI_Send(block, bytes, MPI_BYTE, peer, round, MPI_COMM_WORLD);
        MPI_Recv(block, bytes, MPI_BYTE, peer, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        seconds += MPI_Wtime() - began;
        verify(block, bytes, round, peer);
        if (rank > peer) {
            fill(block, bytes, round, rank);
            MPI_Send(block, bytes, MPI_BYTE, peer, round, MPI_COMM_WORLD);
        }
    }
    return seconds;
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int bytes = argc > 1 ? atoi(argv[1]) : 1 << 20;
    int rounds = argc > 2 ? atoi(argv[2]) : 4;
    unsigned char *block = bytes > 0 ? malloc((size_t)bytes) : NULL;
    if (size < 2 || rounds < 1 || block == NULL) {
        if (rank == 0)
            fprintf(stderr, "usage: mpirun -n RANKS pingpong [BYTES [ROUNDS]], with two ranks or more\n");
        MPI_Finalize();
        return 2;
    }
    /* All pairs of one parity at once, then those of the other: two steps for any number of ranks. */
    for (int parity = 0; parity < 2; parity++) {
        int peer = rank % 2 == parity ? rank + 1 : rank - 1;
        if (peer >= 0 && peer < size) {
            double seconds = exchange(rank, peer, block, bytes, rounds);
            if (rank < peer)
                printf("rank %d and rank %d: %.1f MB/s\n", rank, peer, 2e-6 * bytes * rounds / seconds);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("pingpong: %d pairs exchanged %d x %d bytes, all as sent\n", size - 1, rounds, bytes);
    free(block);
    MPI_Finalize();
    return 0;
}
