/* windows.c for other folders: the windows that the attributes of conv2d, the pools and their gradients define. */
#pragma once
#include "ir/op.h"
#include "ir/window.h"

/* The window along height (d = 0) or width (1). size: of a convolution's kernel; pools have theirs among the attributes. */
Window window_of(OpCode op, const Attr *attr, int d, int64_t size);
