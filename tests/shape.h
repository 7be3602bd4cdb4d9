/* SHAPE(4, 6): a Shape. */
#pragma once
#include "ir/layout.h"

#define SHAPE(...) ((Shape){.ndim = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .dim = {__VA_ARGS__}})
