/* value: which values of a file an input may hold (rows.h). */
#include <math.h>

#include "runtime/data/rows.h"

bool rows_any_value_fits(const RowFile *file) {
    return dtype_is_float(file->dtype) && file->range == 0;
}

bool rows_value_fits(const RowFile *file, double value, char *why, size_t n) {
    const DType dtype = file->dtype;
    if (rows_any_value_fits(file)) return true;
    const bool integral = value == floor(value);
    /* As doubles: the largest i64 is no double, but every integral double below 2^63 is an i64. */
    const double most = dtype == BOOL  ? 1
                        : dtype == I64 ? 9223372036854774784.0
                                       : INT32_MAX,
                 least = dtype == BOOL  ? 0
                         : dtype == I64 ? (double)INT64_MIN
                                        : INT32_MIN;
    if (file->range > 0 && !(value >= 0 && value < (double)file->range && integral)) {
        if (integral && fabs(value) < 1e15)
            snprintf(why, n, "%.0f, and it must be in 0 .. %lld", value, (long long)file->range - 1);
        else
            snprintf(why, n, "%g, and it must be one of the integers 0 .. %lld", value, (long long)file->range - 1);
        return false;
    }
    if (file->format == FILE_CSV && dtype == I64 && fabs(value) > 9007199254740992.0) {
        snprintf(why, n, "about %.0f: a CSV's integers are exact up to 2^53; .npy and raw files hold any", value);
        return false;
    }
    if (dtype_is_float(dtype) || (value >= least && value <= most && integral)) return true;
    snprintf(why, n, "%g, which is no %s", value, dtype_name[dtype]);
    return false;
}

double dtype_beyond(DType dtype) {
    return dtype == F32 ? 0x1.ffffffp127 : dtype == BF16 ? 0x1.ffp127 : dtype == F16 ? 65520.0 : (double)INFINITY;
}

void rows_say_beyond(const RowFile *file, double value, double number, Text *text) {
    text_printf(text, "%g", value);
    if (number != value) text_printf(text, " becomes %g, which", number);
    text_printf(text, " is beyond %s, whose largest number is %s", dtype_name[file->dtype],
                file->dtype == F16   ? "65504"
                : file->dtype == F64 ? "1.8e308"
                                     : "3.4e38");
    if (file->dtype != F64) text_printf(text, ": f64 would hold it, or `scale` makes it smaller");
}
