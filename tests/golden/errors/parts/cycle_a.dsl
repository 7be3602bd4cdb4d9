import "cycle_b.dsl";
