/* improve: a local search around the best solution of auto. */
#pragma once
#include "compiler/solutions.h"

/* Compiles changes (changes.h) of the solution at `best` of s->found, those that cost least in the model first; adds what is better and changes it further. Returns the index of the best. */
int improve(Search *s, int best);
/* Whether the net has so many operators that improve starts from one solution, yet so few that a second one is worth it too. */
bool improves_twice(const Search *s);
