/* heap: a priority queue, by cost; of equal costs by age, then by number. */
#pragma once
#include "ir/base.h"

typedef struct HeapItem {
    double key;
    int age, number;
} HeapItem;
typedef struct Heap {
    VEC(HeapItem) items;
} Heap;

static inline bool heap_before(HeapItem a, HeapItem b) {
    return a.key != b.key ? a.key < b.key : a.age != b.age ? a.age < b.age : a.number < b.number;
}

static inline void heap_push(Arena *arena, Heap *heap, HeapItem added) {
    vec_push(arena, &heap->items, added);
    HeapItem *at = heap->items.at;
    int i = heap->items.n - 1;
    for (; i > 0 && heap_before(added, at[(i - 1) / 2]); i = (i - 1) / 2)
        at[i] = at[(i - 1) / 2];
    at[i] = added;
}

static inline HeapItem heap_pop(Heap *heap) {
    HeapItem *at = heap->items.at, top = at[0], last = at[--heap->items.n];
    int i = 0;
    for (int child; (child = 2 * i + 1) < heap->items.n; i = child) {
        if (child + 1 < heap->items.n && heap_before(at[child + 1], at[child])) child++;
        if (!heap_before(at[child], last)) break;
        at[i] = at[child];
    }
    at[i] = last;
    return top;
}
