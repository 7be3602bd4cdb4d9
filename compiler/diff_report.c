/* diff_report: --diff --report, a page of two plans: what can be counted from the plans alone. */
#include <string.h>

#include "compiler/commands.h"
#include "compiler/report.h"
#include "ir/file.h"
#include "report/page.h"

/* The strategy of a node as a step runs it: factors are split like the dimensions of its operands and results that run over them. Dimensions with halos do not count: their digits are
 * another dimension's. */
static const Strategy *strategy_of_step(const Graph *g, const Role *role, const Step *step, Arena *arena) {
    const Node *node = &g->nodes.at[step->node];
    Strategy *strategy = arena_alloc(arena, sizeof *strategy);
    strategy->nfactors = node->rule->nfactors;
    for (int f = 0; f < node->rule->nfactors; f++)
        for (int k = 0, found = 0; k < step->nin + step->nout && !found; k++) {
            const Layout *layout = role->instances.at[k < step->nin ? step->in[k] : step->out[k - step->nin]].layout;
            const int8_t *factors = k < step->nin ? node->rule->in[k] : node->rule->out[k - step->nin];
            for (int d = 0; d < layout->ndim && !found; d++) {
                if (factors[d] != f || layout_halo(layout, d) != NULL) continue;
                found = layout_count(layout, d) > 0;
                for (int i = 0; i < layout_count(layout, d); i++)
                    strategy_append(strategy, f, layout_list(layout, d)[i]);
            }
        }
    return strategy;
}

typedef struct Counted {
    const Plan *plan;
    const Machine *machine;
    Arena *arena;
} Counted;

static void more_of_plan(void *context, PlanData *data) {
    const Counted *counted = context;
    report_machine(&data->json, counted->machine);
    data_files(data);
}

static void more_of_role(void *context, PlanData *data, int program, int number) {
    const Counted *counted = context;
    Arena *arena = counted->arena;
    const Graph *g = program_graph(counted->plan, program);
    const Program *of = &counted->plan->programs.at[program];
    const int nroles = of->roles.n;
    const Strategy **strategy = arena_alloc(arena, sizeof *strategy * (size_t)(g->nodes.n + 1));
    Facts *facts = arena_alloc(arena, sizeof *facts * (size_t)nroles);
    Timeline *timelines = arena_alloc(arena, sizeof *timelines * (size_t)nroles); /* roles wait for each other */
    for (int r = 0; r < nroles; r++) {
        const Role *role = &of->roles.at[r];
        for (int s = 0; s < role->steps.n; s++)
            if (role->steps.at[s].kind == STEP_KERNEL)
                strategy[role->steps.at[s].node] = strategy_of_step(g, role, &role->steps.at[s], arena);
        facts_init(&facts[r], g, of, r, counted->machine, arena);
        facts_flops(&facts[r], strategy, arena);
    }
    facts_bounds(&facts[number], arena);
    timeline_make(timelines, facts, nroles, strategy, counted->machine, arena);
    report_cost(data, &facts[number], &timelines[number], counted->machine);
}

bool diff_report(const char *path, const char *const plan_path[2], const Plan *const plan[2], const Machine *machine, Arena *arena,
                 Error *error) {
    FileUses uses = {0};
    for (int s = 0; s < 2; s++) {
        files_read(&uses, arena, plan_path[s], "a plan");
        if (plan[s]->side_file != NULL) files_read(&uses, arena, plan_side_path(arena, plan_path[s]), "a plan's second file");
    }
    if (!files_write(&uses, arena, path, "--report", error)) return false;
    Page page = {0};
    for (int s = 0; s < 2; s++) {
        Counted counted = {.plan = plan[s], .machine = machine, .arena = arena};
        plan_data(&page.element[s == 0 ? ELEMENT_PLAN : ELEMENT_OTHER], plan[s],
                  &(PlanMore){.context = &counted, .path = plan_path[s], .plan = more_of_plan, .role = more_of_role});
    }
    Text text = {0};
    page_print(&text, &page);
    const bool done = file_write(path, text.at, text.n, error);
    text_finish(&text);
    page_finish(&page);
    return done;
}
