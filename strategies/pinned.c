/* Pinned layouts. A conversion within the ranks of a pin is planned and counted as one on that many ranks. Between pins, from a pin to all ranks, and from all ranks to a pin,
 * there is only the exchange. It is counted piece by piece, as few ranks send to few. */
#include "strategies/pair.h"

bool pins_leave(const Layout *from, const Layout *to, int *nranks, Layout *a, Layout *b) {
    const Digit digit = from->pin.digit;
    if (!layout_is_pinned(from) || !pin_equal(&from->pin, &to->pin) || (int64_t)digit.size * digit.stride != *nranks) return false;
    *a = *from, *b = *to;
    a->pin = b->pin = (Pin){0};
    *nranks /= digit.size;
    return true;
}
