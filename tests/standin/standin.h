/* standin: CUDA's runtime, cuBLASLt and NCCL as far as the module runtime/cuda uses them, on the CPU, for tests only. The module's own sources are compiled against
   the headers in include/ and linked with this library, kernels.cu by the C++ compiler; so its logic runs where there is neither a GPU nor NVIDIA's toolkit.

   What it shows that a GPU seldom does:
   - A missing synchronisation. A stream is a queue that runs LATE: what is queued runs when a synchronisation asks for it (stream, event, device, a blocking copy), and
     then only what that depends on: the stream's earlier work and the events waited for. Without the wait the reader meets poison or old values. A query asks, too,
     without waiting, as a loop that polls must come to an end. Page-locked memory is read when the copy runs, pageable memory when it is called, as CUDA has it.
   - A wrong address. Device memory is 0xff (NaN) until written, begins at an odd multiple of 256 bytes, ends in a guard, and is unreachable once freed, and to the host
     at all times but while queued work runs (a segmentation fault that names the running operation). Copies must lie in one allocation.
   - Threads that do not meet: a thread that ends while others wait in __syncthreads, or lanes of a mask that do not come to the shuffle, are errors that name the kernel.
   - Ranks that disagree: collectives whose counts, types or operators differ are reported; one that a rank does not make hangs until a communicator is aborted, so
     that deadlines can be tested. Between processes work is demanded, too: a rank whose host waits elsewhere does its part once another's synchronisation needs it.
   - Failures, on request (STANDIN_FAIL).
   What it cannot show: races inside a kernel (threads take turns; STANDIN_ORDER changes whose is first), the hardware's limits of registers and shared memory, what
   nvcc accepts, accuracy of the device's mathematics and of tf32, and time.

   Set in the environment before the first call:
     STANDIN_ORDER=late|eager|random[:SEED]   when queued work runs (late), and with it the order of blocks and threads: late backwards, eager forwards, random either
     STANDIN_DEVICES=N        devices (1); 0: cudaErrorNoDevice
     STANDIN_MEMORY=N[K|M|G]  memory of each device, per process (4G)
     STANDIN_DRIVER=VERSION   the driver's CUDA version (13000); below 13000: cudaErrorInsufficientDriver
     STANDIN_CC=MAJOR.MINOR   compute capability (9.0)
     STANDIN_PEER=0, STANDIN_IPC=0   no peer access; no sharing of memory and events between processes
     STANDIN_PROTECT=0        the host may read device memory; without protection keys it may read allocations of more than 2M in any case
     STANDIN_NCCL=VERSION     NCCL's version (22809); two ranks on one device from 23000 on, with NCCL_MULTI_RANK_GPU_ENABLE=1
     STANDIN_TANH=quick[:N]   cuBLASLt's gelu takes tanh to 11 bits, as hardware does; of the first N algorithms alone
     STANDIN_MMA=swapped      tensor cores take row 8 of a left factor for row 0
     STANDIN_CUDNN=wrong|wrong1|slow   every convolution of cuDNN's is half as large again as it should be, or those by the first algorithm that could be taken; or takes 100 ms more
     STANDIN_SLOW=N           products by the first N algorithms take 2 ms more; -N: by those behind them
     STANDIN_POLLS=N          times that a non-blocking communicator says ncclInProgress after each call (3)
     STANDIN_FAIL=NAME:NTH:CODE[;...]   the NTH call of function NAME (from 1; 0: every one) returns CODE, a number; run:KERNEL:NTH:CODE: the NTH time that this
                              operation runs the device fails with CODE, for good
     STANDIN_TRACE=1          a line on standard error for every operation when it runs

   Calls may come from any thread. As with CUDA, a process that calls before it forks leaves its child without a device. */
#ifndef STANDIN_H
#define STANDIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct StandinCounts {
    int64_t queued;   /* operations queued so far: kernels, copies, sets, host functions, products, communications */
    int64_t run;      /* of these, run to their end */
    int64_t launches; /* graphs launched */
    size_t live;      /* device allocations not freed */
    int range_depth;  /* NVTX ranges pushed and not popped */
} StandinCounts;

/* What has happened in this process so far. Waits for nothing and counts as no call. */
StandinCounts standin_counts(void);
/* Number of the algorithm of the last product that was queued, from 0; -1: there was none. */
int standin_last_algorithm(void);
/* The same of cuDNN's last convolution. */
int standin_last_convolution(void);

#ifdef __cplusplus
}
#endif

#endif
