/* improve: a local search around the best solution of auto. */
#pragma once
#include "compiler/solutions.h"

/* Changes of the solution at `best` of s->found (changes.h), those that the model takes to cost the least first, are compiled; what is better is added, and changed further. The place of the best. */
int improve(Search *s, int best);
/* Whether the net has so many operators that it goes on from one solution alone, and so few that it is worth going on from a second one. */
bool improves_twice(const Search *s);
