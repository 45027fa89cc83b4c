/* Ping-pong of 8 bytes between two ranks; rank 0 prints the median of half a round trip, in us. By Open MPI's library alone, whose
 * names these are. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct communicator communicator;
typedef struct datatype datatype;
extern communicator ompi_mpi_comm_world;
extern datatype ompi_mpi_byte;
int MPI_Init(int *, char ***);
int MPI_Comm_rank(communicator *, int *);
int MPI_Send(const void *, int, datatype *, int, int, communicator *);
int MPI_Recv(void *, int, datatype *, int, int, communicator *, void *);
int MPI_Finalize(void);

enum { BYTES = 8, WARM = 10000, TIMES = 200000 };

static int by_size(const void *a, const void *b) {
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

int main(int argc, char **argv) {
    communicator *world = (void *)&ompi_mpi_comm_world;
    datatype *byte = (void *)&ompi_mpi_byte;
    static double us[TIMES];
    char message[BYTES] = { 0 };
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank);
    for (int i = -WARM; i < TIMES; i++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        if (rank == 0) MPI_Send(message, BYTES, byte, 1, 0, world);
        MPI_Recv(message, BYTES, byte, !rank, 0, world, NULL);
        if (rank == 1) MPI_Send(message, BYTES, byte, 0, 0, world);
        clock_gettime(CLOCK_MONOTONIC, &end);
        if (i >= 0) us[i] = ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / 2e3;
    }
    MPI_Finalize();
    qsort(us, TIMES, sizeof *us, by_size);
    if (rank == 0) printf("median %.3f\n", us[TIMES / 2]);
    return 0;
}
