/* plot: see plot.h. */
#include "runtime/plot.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "ir/base.h"
#include "ir/file.h"
#include "runtime/log.h"

typedef struct Point {
    double x, y;
} Point;

/* One line of one panel. */
typedef struct Series {
    int run;
    bool eval; /* the line of evaluations; else of training */
    VEC(Point) points;
} Series;

typedef struct Panel {
    const char *name; /* "loss" */
    VEC(Series) series;
    double x[2], y[2]; /* least and largest */
} Panel;

typedef struct Plot {
    Arena arena;
    int nruns;
    const char **run; /* names */
    VEC(Panel) panels;
} Plot;

/* ---------------------------------------------------------------- reading */

/* Whether a field is drawn: places and times are in every line, and a plot of them says nothing. */
static bool is_drawn(const char *name) {
    static const char *const others[] = {"epoch", "step", "global_step", "eval", "rows", "seconds", "samples_per_s"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i]) == 0) return false;
    return true;
}

static void add_point(Plot *plot, const char *name, int run, bool eval, double x, double y) {
    int p = 0, s = 0;
    if (!is_drawn(name) || !(fabs(x) < 1e15) || !(fabs(y) < 1e300)) return;
    if (fabs(y) < 1e-290) y = 0; /* so that every range has ticks */
    while (p < plot->panels.n && strcmp(plot->panels.at[p].name, name) != 0)
        p++;
    if (p == plot->panels.n) vec_push(&plot->arena, &plot->panels, (Panel){.name = arena_copy(&plot->arena, name, strlen(name))});
    Panel *panel = &plot->panels.at[p];
    while (s < panel->series.n && (panel->series.at[s].run != run || panel->series.at[s].eval != eval))
        s++;
    if (s == panel->series.n) vec_push(&plot->arena, &panel->series, (Series){.run = run, .eval = eval});
    vec_push(&plot->arena, &panel->series.at[s].points, (Point){x, y});
}

/* {"epoch": 1, "global_step": 20, "loss": 0.5}; null stands for a number that was not finite. */
static bool read_json(Plot *plot, int run, const char *line) {
    cJSON *json = cJSON_Parse(line);
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(json, "global_step");
    const bool ok = cJSON_IsNumber(step), eval = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "eval"));
    for (const cJSON *item = ok ? json->child : NULL; item; item = item->next)
        if (cJSON_IsNumber(item)) add_point(plot, item->string, run, eval, step->valuedouble, item->valuedouble);
    cJSON_Delete(json);
    return ok;
}

enum { MAX_COLUMNS = 128 };

/* The fields of a line of CSV as --metrics writes it, without quotes; returns their number. */
static int fields_of(char *line, char *field[MAX_COLUMNS]) {
    int n = 0;
    for (char *at = line; at && n < MAX_COLUMNS; n++) {
        field[n] = at;
        at = strchr(at, ',');
        if (at) *at++ = '\0';
    }
    return n;
}

static bool read_row(Plot *plot, int run, char *const *heading, int ncolumns, char *line) {
    char *field[MAX_COLUMNS], *end;
    double step = NAN;
    bool eval = false;
    if (fields_of(line, field) != ncolumns) return false;
    for (int i = 0; i < ncolumns; i++) {
        const double value = strtod(field[i], &end);
        if (*end) return false;
        if (strcmp(heading[i], "global_step") == 0) step = value;
        if (strcmp(heading[i], "eval") == 0) eval = value != 0;
    }
    for (int i = 0; i < ncolumns; i++)
        if (*field[i]) add_point(plot, heading[i], run, eval, step, strtod(field[i], NULL));
    return !isnan(step);
}

static bool read_run(Plot *plot, int run, const char *path, Error *error) {
    FILE *file = fopen(path, "r");
    char *line = NULL, *heading[MAX_COLUMNS];
    size_t room = 0;
    int ncolumns = 0, number = 0;
    bool ok = true;
    if (!file) return error_set(error, EXIT_ENVIRONMENT, "%s: cannot be opened: %s", path, strerror(errno));
    for (ssize_t n; ok && (n = getline(&line, &room, file)) > 0;) {
        const bool whole = line[n - 1] == '\n';
        line[strcspn(line, "\r\n")] = '\0';
        if (++number == 1 && line[0] != '{') {
            ncolumns = fields_of(arena_copy(&plot->arena, line, strlen(line)), heading);
            ok = strcmp(heading[0], "epoch") == 0;
        } else
            ok = (ncolumns > 0 ? read_row(plot, run, heading, ncolumns, line) : read_json(plot, run, line)) || !whole;
    }
    if (!ok)
        error_set(error, EXIT_ENVIRONMENT, "%s:%d: this is no line of --metrics: --plot reads its JSON lines and its tables (.csv)", path,
                  number);
    if (ok && ferror(file)) ok = error_set(error, EXIT_ENVIRONMENT, "%s: cannot be read: %s", path, strerror(errno));
    free(line);
    fclose(file);
    return ok;
}

/* ---------------------------------------------------------------- scales */

/* The distance of ticks: 1, 2 or 5 times a power of ten, so that at most `parts` fit into range. */
static double tick_of(double range, int parts) {
    const double least = range / parts, power = pow(10, floor(log10(least)));
    for (int i = 0; i < 3; i++)
        if (power * (double[]){1, 2, 5}[i] >= least * (1 - 1e-9)) return power * (double[]){1, 2, 5}[i];
    return power * 10;
}

static void widen(double range[2], double least, double largest) {
    if (least < range[0]) range[0] = least;
    if (largest > range[1]) range[1] = largest;
}

static void measure(Panel *panel) {
    panel->x[0] = panel->y[0] = INFINITY;
    panel->x[1] = panel->y[1] = -INFINITY;
    for (int s = 0; s < panel->series.n; s++)
        for (int i = 0; i < panel->series.at[s].points.n; i++) {
            const Point *point = &panel->series.at[s].points.at[i];
            widen(panel->x, point->x, point->x);
            widen(panel->y, point->y, point->y);
        }
    const double most = fmax(fabs(panel->y[0]), fabs(panel->y[1]));
    const double half = panel->y[1] - panel->y[0] > most * 1e-9 ? 0 : most > 0 ? most / 10 : 1;
    widen(panel->y, panel->y[0] - half, panel->y[1] + half);
    const double tick = tick_of(panel->y[1] - panel->y[0], 5);
    widen(panel->y, floor(panel->y[0] / tick + 1e-9) * tick, ceil(panel->y[1] / tick - 1e-9) * tick);
}

/* Finds the ranges of all panels. They have the same range of steps, so that what happens at one step is in one column. */
static void measure_all(Plot *plot) {
    double x[2] = {INFINITY, -INFINITY};
    for (int p = 0; p < plot->panels.n; p++) {
        measure(&plot->panels.at[p]);
        widen(x, plot->panels.at[p].x[0], plot->panels.at[p].x[1]);
    }
    if (x[0] == x[1]) widen(x, x[0] - 1, x[1] + 1);
    for (int p = 0; p < plot->panels.n; p++)
        memcpy(plot->panels.at[p].x, x, sizeof x);
}

/* Whether the panel is a learning rate that never changes, which is not drawn. */
static bool is_constant_rate(const Panel *panel) {
    if (strcmp(panel->name, "lr") != 0) return false;
    for (int s = 0; s < panel->series.n; s++)
        for (int i = 1; i < panel->series.at[s].points.n; i++)
            if (panel->series.at[s].points.at[i].y != panel->series.at[s].points.at[0].y) return false;
    return true;
}

/* The number at a tick, with as many digits as distinguish it from the next one. */
static void put_tick(char text[32], double value, double tick) {
    const double largest = fabs(value) > tick ? fabs(value) : tick;
    snprintf(text, 32, "%.*g", largest > tick ? (int)floor(log10(largest / tick) + 1e-9) + 2 : 2, fabs(value) < tick / 2 ? 0 : value);
}

/* ---------------------------------------------------------------- SVG */

enum { WIDTH = 760, LEFT = 72, RIGHT = 20, TOP = 30, HEIGHT = 220, BOTTOM = 44, LEGEND_ROW = 18 };

/* Okabe and Ito's, which colour-blind people can tell apart too. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
enum { NCOLOURS = sizeof colours / sizeof *colours };

static void put_escaped(Text *text, const char *word) {
    for (; *word; word++)
        if (strchr("<>&\"", *word) || (unsigned char)*word < 0x20)
            text_printf(text, "&#%d;", (unsigned char)*word < 0x20 ? '?' : *word);
        else
            text_append(text, word, 1);
}

static double place(double value, const double range[2], double from, double length) {
    return from + (value - range[0]) / (range[1] - range[0]) * length;
}

static void put_axes(Text *text, const Panel *panel, double top) {
    const double width = WIDTH - LEFT - RIGHT, bottom = top + HEIGHT;
    char word[32];
    const double y_tick = tick_of(panel->y[1] - panel->y[0], 5), x_tick = fmax(1, tick_of(panel->x[1] - panel->x[0], 8));
    for (double y = ceil(panel->y[0] / y_tick - 1e-9) * y_tick; y <= panel->y[1] + y_tick * 1e-9; y += y_tick) {
        const double at = place(y, panel->y, bottom, -HEIGHT);
        put_tick(word, y, y_tick);
        text_printf(text, "<path d=\"M%d %.1fH%d\" stroke=\"#e4e4e4\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT, at,
                    WIDTH - RIGHT, LEFT - 8, at + 4, word);
    }
    for (double x = ceil(panel->x[0] / x_tick - 1e-9) * x_tick; x <= panel->x[1] + x_tick * 1e-9; x += x_tick) {
        const double at = place(x, panel->x, LEFT, width);
        text_printf(text, "<path d=\"M%.1f %.1fv5\" stroke=\"#888\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.10g</text>\n", at,
                    bottom, at, bottom + 18, x);
    }
    text_printf(text, "<path d=\"M%d %.1fH%d\" stroke=\"#888\"/>\n", LEFT, bottom, WIDTH - RIGHT);
    text_printf(text, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#555\">step</text>\n", LEFT + width / 2, bottom + 36);
    text_printf(text, "<text x=\"%d\" y=\"%.1f\" font-weight=\"bold\">", LEFT, top - 10);
    put_escaped(text, panel->name);
    text_printf(text, "</text>\n");
}

/* Draws a line. Of the points on one pixel it draws those that are seen: the first, the least, the largest, the last. */
static void put_line(Text *text, const Panel *panel, const Series *series, double top) {
    const double width = WIDTH - LEFT - RIGHT;
    char command = 'M';
    for (int i = 0, next; i < series->points.n; i = next) {
        const Point *at = series->points.at;
        const double pixel = floor(place(at[i].x, panel->x, 0, width));
        int least = i, largest = i;
        for (next = i + 1; next < series->points.n && floor(place(at[next].x, panel->x, 0, width)) == pixel; next++) {
            if (at[next].y < at[least].y) least = next;
            if (at[next].y > at[largest].y) largest = next;
        }
        const int seen[] = {i, least < largest ? least : largest, least < largest ? largest : least, next - 1};
        for (int k = 0; k < 4; k++) {
            if (k > 0 && seen[k] == seen[k - 1]) continue;
            text_printf(text, "%c%.1f %.1f", command, place(at[seen[k]].x, panel->x, LEFT, width),
                        place(at[seen[k]].y, panel->y, top + HEIGHT, -HEIGHT));
            command = 'L';
        }
    }
}

static void put_panel(Text *text, const Panel *panel, double top) {
    enum { FEW = 60 };
    put_axes(text, panel, top);
    for (int s = 0; s < panel->series.n; s++) {
        const Series *series = &panel->series.at[s];
        const char *colour = colours[series->run % NCOLOURS];
        text_printf(text, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" stroke-linejoin=\"round\"%s d=\"", colour,
                    series->eval ? " stroke-dasharray=\"6 3\"" : "");
        put_line(text, panel, series, top);
        text_printf(text, "\"/>\n");
        for (int i = 0; (series->eval || series->points.n == 1) && series->points.n <= FEW && i < series->points.n; i++)
            text_printf(text, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                        place(series->points.at[i].x, panel->x, LEFT, WIDTH - LEFT - RIGHT),
                        place(series->points.at[i].y, panel->y, top + HEIGHT, -HEIGHT), colour);
    }
}

static void put_svg(Text *text, const Plot *plot) {
    const double legend = (plot->nruns + 1) * LEGEND_ROW + 12, each = TOP + HEIGHT + BOTTOM, height = legend + plot->panels.n * each;
    text_printf(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%g\" viewBox=\"0 0 %d %g\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
        WIDTH, height, WIDTH, height);
    for (int r = 0; r < plot->nruns; r++) {
        text_printf(text, "<path d=\"M%d %dh24\" stroke=\"%s\" stroke-width=\"3\"/><text x=\"%d\" y=\"%d\">", LEFT, 16 + r * LEGEND_ROW,
                    colours[r % NCOLOURS], LEFT + 32, 20 + r * LEGEND_ROW);
        put_escaped(text, plot->run[r]);
        text_printf(text, "</text>\n");
    }
    text_printf(text, "<text x=\"%d\" y=\"%d\" fill=\"#555\">line: training; dashes and points: evaluations</text>\n", LEFT,
                20 + plot->nruns * LEGEND_ROW);
    for (int p = 0; p < plot->panels.n; p++)
        put_panel(text, &plot->panels.at[p], legend + p * each + TOP);
    text_printf(text, "</svg>\n");
}

/* ---------------------------------------------------------------- text */

enum { ROWS = 15, MARGIN = 12, MOST_COLUMNS = 400 };

/* A run has the same symbol in every panel. */
static char symbol_of(const Series *series) {
    static const char symbols[] = "*o+x#@%&=~";
    return symbols[(2 * series->run + series->eval) % (int)(sizeof symbols - 1)];
}

static int terminal_width(void) {
    const int columns = terminal_columns(stdout);
    return columns < 40 ? 80 : columns < MOST_COLUMNS ? columns : MOST_COLUMNS;
}

/* Draws lines between points, one character per column. */
static void draw_text(char cells[ROWS][MOST_COLUMNS], const Panel *panel, const Series *series, int columns, char symbol) {
    const Point *at = series->points.at;
    for (int i = 0; i < series->points.n; i++) {
        const int from = (int)lround(place(at[i].x, panel->x, 0, columns - 1)),
                  to = i + 1 < series->points.n ? (int)lround(place(at[i + 1].x, panel->x, 0, columns - 1)) : from;
        for (int c = from; c <= to; c++) {
            const double share = to > from ? (double)(c - from) / (to - from) : 0,
                         y = i + 1 < series->points.n ? at[i].y + share * (at[i + 1].y - at[i].y) : at[i].y;
            cells[(int)lround(place(y, panel->y, ROWS - 1, -(ROWS - 1)))][c] = symbol;
        }
    }
}

static void put_text_panel(Text *text, const Plot *plot, const Panel *panel, int width) {
    char cells[ROWS][MOST_COLUMNS], low[32], high[32], word[32];
    const int columns = width - MARGIN - 1;
    const double tick = tick_of(panel->y[1] - panel->y[0], 5);
    memset(cells, ' ', sizeof cells);
    for (int s = 0; s < panel->series.n; s++)
        draw_text(cells, panel, &panel->series.at[s], columns, symbol_of(&panel->series.at[s]));
    text_printf(text, "%*s%s\n", MARGIN + 1, "", panel->name);
    for (int row = 0; row < ROWS; row++) {
        int n = columns;
        while (n > 0 && cells[row][n - 1] == ' ')
            n--;
        word[0] = '\0';
        if (row % ((ROWS - 1) / 2) == 0)
            put_tick(word, place(ROWS - 1 - row, (double[]){0, ROWS - 1}, panel->y[0], panel->y[1] - panel->y[0]), tick / 10);
        text_printf(text, "%*s |%.*s\n", MARGIN - 1, word, n, cells[row]);
    }
    snprintf(low, sizeof low, "%.10g", panel->x[0]);
    snprintf(high, sizeof high, "%.10g", panel->x[1]);
    text_printf(text, "%*s", MARGIN + 1, "+");
    for (int c = 0; c < columns; c++)
        text_append(text, "-", 1);
    text_printf(text, "\n%*s%s%*s\n", MARGIN + 1, "", low, columns - (int)strlen(low), high);
    for (int s = 0; s < panel->series.n; s++)
        text_printf(text, "%*s%c %s%s\n", MARGIN + 1, "", symbol_of(&panel->series.at[s]), plot->run[panel->series.at[s].run],
                    panel->series.at[s].eval ? ", evaluations" : "");
    text_printf(text, "\n");
}

/* ---------------------------------------------------------------- all */

/* Names runs by their files without folders, if these names still differ. */
static void name_runs(Plot *plot, char *const *paths) {
    bool differ = true;
    for (int a = 0; a < plot->nruns; a++) {
        const char *slash = strrchr(paths[a], '/');
        plot->run[a] = slash ? slash + 1 : paths[a];
        for (int b = 0; b < a; b++)
            differ = differ && strcmp(plot->run[a], plot->run[b]) != 0;
    }
    for (int a = 0; a < plot->nruns && !differ; a++)
        plot->run[a] = paths[a];
}

/* Whether svg may be written: no file is there, or an empty one or an SVG, and the name is not that of another kind of picture. */
static bool replaceable(const char *svg, Error *error) {
    static const char *const other[] = {".png", ".jpg", ".jpeg", ".pdf"};
    char begin[5] = "";
    const char *ending = strrchr(svg, '.');
    for (size_t i = 0; ending && i < sizeof other / sizeof *other; i++)
        if (strcasecmp(ending, other[i]) == 0) return error_set(error, EXIT_USAGE, "--plot=%s: the picture is SVG: --plot=FILE.svg", svg);
    FILE *file = file_kind(svg) ? NULL : fopen(svg, "rb");
    const size_t n = file ? fread(begin, 1, sizeof begin - 1, file) : 0;
    if (file) fclose(file);
    return n == 0 || strcmp(begin, "<svg") == 0 || strcmp(begin, "<?xm") == 0 ||
           error_set(error, EXIT_USAGE, "--plot=%s would overwrite a file that is no SVG: runs stand behind it, --plot=FILE.svg RUN.jsonl",
                     svg);
}

static bool draw(Plot *plot, const char *svg, char *const *paths, Error *error) {
    Text text = {0};
    int kept = 0;
    bool ok = true;
    name_runs(plot, paths);
    for (int r = 0; svg && r < plot->nruns; r++)
        if (file_is_same(&plot->arena, svg, paths[r]))
            return error_set(error, EXIT_USAGE, "--plot=%s would overwrite the metrics that it draws", svg);
    ok = !svg || replaceable(svg, error);
    for (int r = 0; ok && r < plot->nruns; r++)
        ok = read_run(plot, r, paths[r], error);
    if (!ok) return false;
    for (int p = 0; p < plot->panels.n; p++)
        if (!is_constant_rate(&plot->panels.at[p])) plot->panels.at[kept++] = plot->panels.at[p];
    plot->panels.n = kept;
    if (kept == 0) return error_set(error, EXIT_ENVIRONMENT, "%s: there is nothing to draw: no line has a finite number", paths[0]);
    measure_all(plot);
    if (svg) put_svg(&text, plot);
    for (int p = 0; !svg && p < plot->panels.n; p++)
        put_text_panel(&text, plot, &plot->panels.at[p], terminal_width());
    if (svg)
        ok = file_write(svg, text.at, text.n, error);
    else
        fwrite(text.at, 1, text.n, stdout);
    text_finish(&text);
    return ok;
}

int plot(const char *svg, int n, char *const *paths) {
    Plot plot = {.nruns = n};
    Error error = {0};
    arena_init(&plot.arena);
    plot.run = arena_alloc(&plot.arena, (size_t)n * sizeof *plot.run);
    const bool ok = draw(&plot, svg, paths, &error);
    if (!ok) fprintf(stderr, "prun: %s\n", error.text);
    arena_finish(&plot.arena);
    return ok ? EXIT_DONE : error.code;
}
