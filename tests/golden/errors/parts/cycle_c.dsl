# back
import "cycle_a.dsl";
