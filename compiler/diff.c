#include "compiler/commands.h"
int diff_command(int argc, char **argv) { (void)argc; (void)argv; return 0; }
