/* improve: a local search around the best solution of auto. */
#pragma once
#include "compiler/solutions.h"

/* Changes of the solution at `best` of s->found (changes.h), those that the model takes to cost the least first, are compiled; what is better is added, and changed further. The place of the best. */
int improve(Search *s, int best);
/* Whether the net has few enough operators that it goes on from other solutions too. */
bool improves_several(const Search *s);
