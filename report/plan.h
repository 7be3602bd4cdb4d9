/* report/plan: a page's data of a plan (docs/report.md), as far as the plan itself tells. Callers add what else they know. */
#pragma once
#include "ir/map.h"
#include "ir/plan.h"
#include "report/columns.h"

/* The format of docs/report.md; a page of another format is neither read nor added to. */
enum { PAGE_FORMAT = 4 };

/* The tables that numbers in the data refer to: texts, types and layouts, each once. */
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

/* The data of one plan, under construction. */
typedef struct PlanData {
    Json json;
    Tables tables;
    const Plan *plan;
} PlanData;
void data_place(PlanData *data, Span span);                /* four fields of a row */
void columns_place(ColumnTable *columns, Span span);       /* the same, of columns */
void data_text(PlanData *data, const char *text);          /* the number of a text, as a field */
int64_t nanoseconds(double seconds);                       /* rounded */
const Graph *program_graph(const Plan *plan, int program); /* the graph that the program computes */
void data_files(PlanData *data);                           /* member `files`, without their texts */

/* What a caller adds to the plan's own data: each function adds members to the open object, such as `files` by plan. program NULL: nothing; role NULL: `comms` are counted. */
typedef struct PlanMore {
    void *context;
    const char *path; /* of the plan, NULL: left out */
    void (*plan)(void *context, PlanData *data);
    void (*program)(void *context, PlanData *data, int program);
    void (*role)(void *context, PlanData *data, int program, int role);
} PlanMore;
/* Appends the JSON of the element `plan`. more NULL: the caller adds nothing. */
void plan_data(Text *text, const Plan *plan, const PlanMore *more);

/* moved.c: member `comms` of a role, where the caller does not add it. */
void write_moved(PlanData *data, const Graph *graph, const Role *role);

/* Lifetimes: per instance of the role the first and the last step in which it is alive, -1: none. It lives from the step that writes it to the last that reads it. A
 * fused step counts as one; reported values live until the end. */
void lives_find(const Program *program, const Role *role, int *first, int *last);
