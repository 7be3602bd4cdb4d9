/* report/plan: the data of a plan for a page (docs/report.md), of what the plan itself says. Who knows more adds it. */
#pragma once
#include "ir/map.h"
#include "ir/plan.h"
#include "report/columns.h"

/* Of docs/report.md; a page of another one is neither read nor added to. */
enum { PAGE_FORMAT = 4 };

/* What numbers stand for in the data: texts, types and layouts, each once. */
typedef struct Tables {
    Arena *arena;
    VEC(const char *) texts;
    VEC(TensorType) types;
    VEC(const Layout *) layouts;
    Map text_map, type_map, layout_map;
} Tables;
int table_text(Tables *tables, const char *text); /* NULL: -1 */
int table_type(Tables *tables, const TensorType *type);
int table_layout(Tables *tables, const Layout *layout); /* NULL: -1 */

/* The data under construction, of one plan. */
typedef struct PlanData {
    Json json;
    Tables tables;
    const Plan *plan;
} PlanData;
void data_place(PlanData *data, Span span);                /* four fields of a row */
void columns_place(ColumnTable *columns, Span span);       /* the same, of columns */
void data_text(PlanData *data, const char *text);          /* the number of a text, as a field */
int64_t nanoseconds(double seconds);                       /* rounded */
const Graph *program_graph(const Plan *plan, int program); /* that it computes */
void data_files(PlanData *data);                           /* member `files`, without their texts */

/* What is known beside the plan: each adds members to the object that is open; plan adds `files` for one. program NULL: nothing; role NULL: `comms` are counted. */
typedef struct PlanMore {
    void *context;
    const char *path; /* of the plan, NULL: it is not named */
    void (*plan)(void *context, PlanData *data);
    void (*program)(void *context, PlanData *data, int program);
    void (*role)(void *context, PlanData *data, int program, int role);
} PlanMore;
/* Appends the element `plan`'s JSON. text_of: per Span.file the text of the source, NULL: of none; more NULL: nothing. */
void plan_data(Text *text, const Plan *plan, const PlanMore *more);

/* moved.c: member `comms` of a role, where nobody knows more of it. */
void write_moved(PlanData *data, const Graph *graph, const Role *role);

/* Lifetimes: per instance of the role the steps from which on and up to which it is there, -1: none. From the step that begins to write it to the last that reads it; a
 * fused step is one; what is reported lasts until the end. */
void lives_find(const Program *program, const Role *role, int *first, int *last);
