# Net quickstart on 8 ranks: --hints with this file gives the plan that it is of.
hints found {
    mesh (a = 8);
    mesh (b = 2, c = 4);

    x           = (a, -);
    label       = (a, -);
    h           = ((b, c), (c, -));
    a           = ((b, c));
    y           = ((b, c), (c, -));
    loss.diff   = ((a, -), (a, -));
    loss.square = ((a, -), (a, -));
    loss        = ((a, -));
}
