#define _DEFAULT_SOURCE /* sigaltstack */
/* Signals while training runs. */
#include <criterion/criterion.h>

#include "runtime/stop.h"

/* What is below the stack pointer of a thread that a signal interrupts, such as a product's of oneDNN, is not the handler's to write over. */
Test(stop, handlers_run_on_a_stack_of_their_own) {
    Stop stop;
    stack_t stack;
    static const int signals[NSTOP_SIGNALS] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
    for (int i = 0; i < NSTOP_SIGNALS; i++)
        signal(signals[i], SIG_DFL); /* a shell starts what runs in the background with SIGINT ignored */
    stop_open(&stop, 0);
    cr_expect_eq(sigaltstack(NULL, &stack), 0);
    cr_expect_not(stack.ss_flags & SS_DISABLE);
    cr_expect_geq(stack.ss_size, 4 * MINSIGSTKSZ);
    for (int i = 0; i < NSTOP_SIGNALS; i++) {
        struct sigaction now;
        cr_expect_eq(sigaction(signals[i], NULL, &now), 0);
        cr_expect(now.sa_flags & SA_ONSTACK, "signal %d", signals[i]);
    }
    stop_close(&stop);
}
