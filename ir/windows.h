/* windows.c for other folders: what the attributes of conv2d, of the pools and of their gradients say. */
#pragma once
#include "ir/op.h"
#include "ir/window.h"

/* Along height (d = 0) or width (1). size: of a convolution's kernel there; pools have theirs among the attributes. */
Window window_of(OpCode op, const Attr *attr, int d, int64_t size);
