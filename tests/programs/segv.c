/* The last rank is ended by signal 11 while the others wait for it. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == size - 1) {
        fprintf(stderr, "rank %d is about to fail\n", rank);
        /* MPIs with handlers of their own would print a page and exit with another code. */
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
