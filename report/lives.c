/* lives: lifetimes of values. */
#include <string.h>

#include "report/plan.h"

static void live(int *first, int *last, int instance, int begin, int end) {
    if (first[instance] < 0) first[instance] = begin;
    last[instance] = end;
}

void lives_find(const Program *program, const Role *role, int *first, int *last) {
    memset(first, -1, sizeof *first * (size_t)role->instances.n);
    memset(last, -1, sizeof *last * (size_t)role->instances.n);
    for (int s = 0; s < role->steps.n;) {
        const int end = s + fused_length(role, s);
        for (int k = s; k < end; k++) {
            for (int i = 0; i < role->steps.at[k].nin; i++)
                for (int v = role->steps.at[k].in[i];; v = (int)role->instances.at[v].at) { /* also what it is a view of */
                    live(first, last, v, s, end - 1);
                    if (role->instances.at[v].place != PLACE_VIEW) break;
                }
            for (int o = 0; o < role->steps.at[k].nout; o++)
                live(first, last, role->steps.at[k].out[o], s, end - 1);
        }
        s = end;
    }
    if (program->loss >= 0) last[program->loss] = role->steps.n - 1;
    for (int r = 0; r < program->reports.n; r++)
        last[program->reports.at[r]] = role->steps.n - 1;
}
