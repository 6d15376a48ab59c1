/* Every rank says where it runs. With a number of pods as argument (or in HELLO_PODS) the program
 * also proves its placement: the ranks tell each other their host names, and if they are not on
 * exactly so many pods the program fails, whatever its launcher says. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME = 256 };

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    char mine[NAME] = {0};
    gethostname(mine, NAME - 1);
    char *names = malloc((size_t)size * NAME);
    MPI_Allgather(mine, NAME, MPI_CHAR, names, NAME, MPI_CHAR, MPI_COMM_WORLD);

    int pods = 0;
    for (int i = 0; i < size; i++) {
        int seen = 0;
        for (int j = 0; j < i && !seen; j++)
            seen = strcmp(names + i * NAME, names + j * NAME) == 0;
        pods += !seen;
    }
    printf("rank %d of %d on %s\n", rank, size, mine);
    fflush(stdout);

    const char *wanted = argc > 1 ? argv[1] : getenv("HELLO_PODS");
    int wrong = wanted && atoi(wanted) != pods;
    if (wrong && rank == 0)
        fprintf(stderr, "hello: %d ranks are on %d pods, not on %s\n", size, pods, wanted);
    free(names);
    MPI_Finalize();
    return wrong;
}
