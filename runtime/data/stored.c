/* stored: elements as files hold them. */
#include <assert.h>
#include <string.h>

#include "ir/half.h"
#include "runtime/data/data.h"
#include "runtime/data/rows.h"

static_assert((int)NSTORED == (int)NFILE_ELEMENTS, "a name for each");

const int stored_bytes[NSTORED] = {1, 1, 2, 4, 8, 4, 8, 2, 2};

static uint64_t stored_word(const unsigned char *at, Stored stored) {
    uint64_t word = 0;
    int bytes = stored_bytes[stored.kind];
    for (int i = 0; i < bytes; i++)
        word = word << 8 | at[stored.big_endian ? i : bytes - 1 - i];
    return word;
}

int64_t stored_integer(const unsigned char *at, Stored stored) {
    const uint64_t word = stored_word(at, stored), sign = UINT64_C(1) << (8 * stored_bytes[stored.kind] - 1);
    return (int64_t)(stored.kind == STORED_U8 ? word : (word ^ sign) - sign); /* two's complement, widened */
}

double stored_element(const unsigned char *at, Stored stored) {
    const uint64_t word = stored_word(at, stored);
    const uint32_t half = (uint32_t)word;
    switch (stored.kind) {
    case STORED_U8:
    case STORED_I8:
    case STORED_I16:
    case STORED_I32:
    case STORED_I64:
        return (double)stored_integer(at, stored);
    case STORED_F32: {
        float number;
        memcpy(&number, &half, sizeof number);
        return number;
    }
    case STORED_F64: {
        double number;
        memcpy(&number, &word, sizeof number);
        return number;
    }
    case STORED_F16:
        return f16_to_f32((uint16_t)word);
    case STORED_BF16:
        return bf16_to_f32((uint16_t)word);
    case NSTORED:
        break;
    }
    return 0;
}

bool stored_npy(const char *descr, Stored *stored) {
    static const char *const codes[NSTORED] = {"u1", "i1", "i2", "i4", "i8", "f4", "f8", "f2", "bf"}; /* numpy has no bf16 */
    if (descr[0] != '<' && descr[0] != '>' && descr[0] != '|') return false;
    stored->big_endian = descr[0] == '>';
    if (strncmp(descr + 1, "b1", 2) == 0) return stored->kind = STORED_U8, true; /* numpy's bool */
    for (int k = 0; k < NSTORED; k++)
        if (strncmp(descr + 1, codes[k], 2) == 0) return stored->kind = (StoredKind)k, true;
    return false;
}

bool stored_idx(unsigned char code, Stored *stored) {
    static const unsigned char codes[NSTORED] = {0x08, 0x09, 0x0B, 0x0C, 0, 0x0D, 0x0E, 0, 0};
    stored->big_endian = true;
    for (int k = 0; k < NSTORED; k++)
        if (codes[k] == code && code != 0) return stored->kind = (StoredKind)k, true;
    return false;
}

bool stored_is_native(Stored stored, DType dtype) {
    const uint16_t one = 1;
    unsigned char low;
    memcpy(&low, &one, 1);
    return stored.big_endian == (low == 0) && ((stored.kind == STORED_F32 && dtype == F32) || (stored.kind == STORED_F64 && dtype == F64));
}

bool stored_is_integer(Stored stored) {
    return stored.kind < STORED_F32;
}
