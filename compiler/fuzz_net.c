/* pcc fuzz-net: the front of pcc-fuzz-net, the generator of random nets, which is built with the tests. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/commands.h"
#include "ir/file.h"

/* Beside pcc, as installed; in the build folder. */
static const char *const places[] = {"", "../tests/nets/"};

static int fail(const char *path, const char *why) {
    fprintf(stderr, "pcc fuzz-net: %s: %s\n", path, why);
    return EXIT_ENVIRONMENT;
}

int fuzz_net_command(int argc, char **argv) {
    (void)argc;
    const char *named = getenv("PCC_FUZZ_NET");
    if (named != NULL && *named != '\0') {
        execv(named, argv);
        return fail(named, strerror(errno));
    }
    char folder[4096], path[4200];
    program_folder(folder, sizeof folder);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s%spcc-fuzz-net", folder, places[i]);
        execv(path, argv);
        if (errno != ENOENT) return fail(path, strerror(errno));
    }
    fputs(
        "pcc fuzz-net: there is no program pcc-fuzz-net beside pcc, nor in the folder of the tests: it is built with them (meson setup -Dtests=enabled).\n"
        "PCC_FUZZ_NET in the environment may name it.\n",
        stderr);
    return EXIT_ENVIRONMENT;
}
