/* Memory shared by processes: blocks, mappings, and what is left behind (nothing). */
#include "runtime/comm/heap.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAP_BYTES = 1 << 20, TOKEN = 1234 };

static void heap_make(Heap *heap, const char *what) {
    char name[64];
    Error error = {0};
    snprintf(name, sizeof name, "/pcc-test-%ld-%s", (long)getpid(), what);
    cr_assert(heap_create(heap, name, HEAP_BYTES, 2, 0, TOKEN, &error), "%s", error.text);
}

Test(comm_heap, blocks_are_aligned_disjoint_and_used_again) {
    Heap heap;
    heap_make(&heap, "blocks");
    heap_unlink(&heap);
    Error error = {0};
    char *block[100];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++) {
            block[i] = heap_alloc(&heap, 1 + i * 7, &error);
            cr_assert(block[i] && heap_has(&heap, block[i]) && (uintptr_t)block[i] % 64 == 0);
            memset(block[i], i, (size_t)(1 + i * 7));
        }
        for (int i = 0; i < 100; i++)
            for (int k = 0; k < 1 + i * 7; k++)
                cr_assert_eq(block[i][k], i);
        for (int i = 0; i < 100; i++)
            heap_free(&heap, block[i * 37 % 100]);
        cr_assert_eq(heap.nblocks, 2, "free blocks have not been joined");
    }
    heap_destroy(&heap);
}

Test(comm_heap, a_full_heap_is_an_error_with_advice) {
    Heap heap;
    heap_make(&heap, "full");
    heap_unlink(&heap);
    Error error = {0};
    cr_assert(heap_alloc(&heap, HEAP_BYTES, &error) == NULL);
    cr_assert(strstr(error.text, "PRUN_COMM=messages") != NULL, "%s", error.text);
    cr_assert_eq(error.code, EXIT_ENVIRONMENT);
    cr_assert(heap_alloc(&heap, HEAP_BYTES / 2, &error) != NULL);
    heap_destroy(&heap);
}

Test(comm_heap, peers_read_what_the_owner_writes_and_no_file_stays) {
    Heap heap;
    heap_make(&heap, "peers");
    char name[64];
    snprintf(name, sizeof name, "%s", heap.name);
    Error error = {0};
    int *block = heap_alloc(&heap, sizeof *block, &error);
    int64_t at = (char *)block - heap.base[0];
    *block = 42;
    /* A second mapping of the same file stands for a peer. */
    cr_assert(heap_attach(&heap, 1, name, HEAP_BYTES, TOKEN, &error), "%s", error.text);
    heap_unlink(&heap);
    cr_assert(heap.base[1] != heap.base[0]);
    cr_assert_eq(*(int *)(heap.base[1] + at), 42);
    cr_assert_lt(shm_open(name, O_RDWR, 0), 0, "the file is still there");
    cr_assert(heap_header(&heap, 1)->token == TOKEN);
    heap_destroy(&heap);
}

Test(comm_heap, another_jobs_file_is_not_taken) {
    Heap heap;
    heap_make(&heap, "other");
    Error error = {0};
    cr_assert_not(heap_attach(&heap, 1, heap.name, HEAP_BYTES, TOKEN + 1, &error));
    cr_assert(strstr(error.text, "not the one of this job") != NULL, "%s", error.text);
    cr_assert_not(heap_attach(&heap, 1, "/pcc-test-none", HEAP_BYTES, TOKEN, &error));
    heap_destroy(&heap);
}
