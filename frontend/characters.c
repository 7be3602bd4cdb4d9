/* characters: invisible characters that no source may contain, even in comments and texts: those that change the direction in
 * which others are shown ("Trojan Source", CVE-2021-42574), and byte order marks after the beginning. */
#include "frontend/ast.h"

#include <string.h>

static const char byte_order_mark[] = "\xef\xbb\xbf";
enum { MARK_BYTES = sizeof byte_order_mark - 1 };

bool characters_check(Diags *diags, int file) {
    const SourceFile *source = &diags->files.at[file];
    const char *text = source->text, *end = text + source->n, *line = text;
    int number = 1, nerrors = diags->nerrors;
    for (const char *at = text; at < end && diags->nerrors < DIAG_MAX_ERRORS; at++) {
        if (*at == '\n') {
            line = at + 1;
            number++;
        }
        if ((unsigned char)*at < 0x80) continue;
        size_t n = (size_t)(end - at);
        unsigned control = direction_control(at, n);
        bool mark = at > text && n >= MARK_BYTES && memcmp(at, byte_order_mark, MARK_BYTES) == 0;
        Span span = {.file = file, .line = number, .column = (int)(at - line) + 1, .length = control && control < 0x800 ? 2 : 3};
        if (control) {
            diag_error(diags, span,
                       "the character U+%04X changes the direction in which text is shown: what is read here is not what is compiled",
                       control);
            diag_hint(diags, "take it out; an editor that shows invisible characters finds it");
        } else if (mark) {
            diag_error(diags, span, "a byte order mark (U+FEFF), which is not seen, behind the beginning of the file");
            diag_hint(diags, "take it out; it stays behind where files are joined");
        }
    }
    return diags->nerrors == nerrors;
}
