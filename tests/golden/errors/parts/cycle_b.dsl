import "cycle_c.dsl";
