# Experts split among 8 ranks, as everything else is by the batch: tokens go to the experts' ranks, and their results back, by AllToAll.
hints {
    **.up = ((8, 1, 1), (8, 1, 1));
}
