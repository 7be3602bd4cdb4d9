/* embed: writes the page as C, when pcc is built.
 *     embed OUT.c PAGE.html FILE..     lines `@include FILE` of the page are replaced by the file; before the line `@data` is page_head, behind it page_tail
 * Four spaces at the beginning of a line become a tab, and comments on lines of their own are left out, since every report contains the page.
 * It writes arrays of numbers, as C does not require compilers to take string literals of this length. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *out;
static int column;

static int fail(const char *what, const char *name) {
    fprintf(stderr, "embed: %s %s\n", what, name);
    exit(1);
}

static void put(char c) {
    fprintf(out, "%d,", (unsigned char)c);
    if (++column % 32 == 0) fputs("\n", out);
}

/* Whether a line belongs to a comment that begins at a line's beginning and ends at a line's end. */
static bool is_comment(const char *line) {
    static bool inside;
    const bool begun = inside || strncmp(line + strspn(line, " "), "/*", 2) == 0;
    const char *mark = strstr(line, "*/");
    inside = begun && !mark;
    return begun && (!mark || mark[2 + strspn(mark + 2, " ")] == '\n');
}

static void put_line(const char *text) {
    if (is_comment(text)) return;
    for (; strncmp(text, "    ", 4) == 0; text += 4)
        put('\t');
    while (*text)
        put(*text++);
}

static void begin(const char *name) {
    fprintf(out, "const unsigned char %s[] = {\n", name);
}

static void end(const char *name) { /* with a 0 after it, which is not counted */
    fprintf(out, "0};\nconst size_t %s_bytes = sizeof %s - 1;\n", name, name);
}

static const char *base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int ndata;
static void put_file(const char *path, char **files, int n) {
    static char line[1 << 16];
    FILE *in = fopen(path, "r");
    if (!in) fail("cannot read", path);
    while (fgets(line, sizeof line, in)) {
        size_t length = strlen(line);
        if (line[length - 1] != '\n' && !feof(in)) fail("a line is too long in", path);
        if (strcmp(line, "@data\n") == 0) {
            end("page_head");
            begin("page_tail");
            ndata++;
        } else if (strncmp(line, "@include ", 9) == 0) {
            char name[256];
            int i = 0;
            if (sscanf(line + 9, "%255s", name) != 1) fail("no file after @include in", path);
            while (i < n && strcmp(base(files[i]), name) != 0)
                i++;
            if (i == n) fail("report/page/meson.build does not list", name);
            put_file(files[i], files, n);
        } else {
            put_line(line);
        }
    }
    fclose(in);
}

int main(int argc, char **argv) {
    if (argc < 3) return fail("usage: embed", "OUT.c PAGE.html FILE..");
    out = fopen(argv[1], "w");
    if (!out) fail("cannot write", argv[1]);
    fputs("#include <stddef.h>\n#include \"report/page.h\"\n", out);
    begin("page_head");
    put_file(argv[2], argv + 2, argc - 2);
    end("page_tail");
    if (ndata != 1) fail("not one line @data in", argv[2]);
    return fclose(out) == 0 ? 0 : fail("cannot write", argv[1]);
}
