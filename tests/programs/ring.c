/* A token goes round all ranks, growing by each rank's number, with messages small and large: both
 * the eager and the rendezvous protocol of each MPI are used. Argument 1: the number of pods. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long round_trip(int rank, int size, int words)
{
    long *token = calloc((size_t)words, sizeof *token);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    if (size == 1) {
        token[words - 1] = words;
        MPI_Sendrecv_replace(token, words, MPI_LONG, 0, 7, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 0) {
        token[words - 1] = words;
        MPI_Send(token, words, MPI_LONG, next, 7, MPI_COMM_WORLD);
        MPI_Recv(token, words, MPI_LONG, last, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(token, words, MPI_LONG, last, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        token[words - 1] += rank;
        MPI_Send(token, words, MPI_LONG, next, 7, MPI_COMM_WORLD);
    }
    long got = token[words - 1] - words;
    free(token);
    return got;
}

int main(int argc, char **argv)
{
    int rank, size, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    for (int words = 1; words <= 1 << 17; words *= 16) {
        long got = round_trip(rank, size, words), want = (long)size * (size - 1) / 2;
        if (rank == 0 && got != want) {
            fprintf(stderr, "ring: %d words came back as %ld, not %ld\n", words, got, want);
            wrong = 1;
        }
    }

    /* Distinct pods, told by their host names' hashes: a bit set reduced over all ranks. */
    char name[256] = {0};
    gethostname(name, sizeof name - 1);
    unsigned long mine = 5381, *all = malloc((size_t)size * sizeof *all);
    for (const char *c = name; *c; c++)
        mine = mine * 33 + (unsigned char)*c;
    MPI_Gather(&mine, 1, MPI_UNSIGNED_LONG, all, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        int pods = 0;
        for (int i = 0; i < size; i++) {
            int seen = 0;
            for (int j = 0; j < i; j++)
                seen |= all[i] == all[j];
            pods += !seen;
        }
        printf("ring of %d on %d pods\n", size, pods);
        if (argc > 1 && atoi(argv[1]) != pods) {
            fprintf(stderr, "ring: %d ranks are on %d pods, not on %s\n", size, pods, argv[1]);
            wrong = 1;
        }
    }
    free(all);
    MPI_Bcast(&wrong, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return wrong;
}
