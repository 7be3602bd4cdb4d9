#!/usr/bin/env python3
"""Writes quickstart_w.npy and quickstart_w2.npy: the initial values of quickstart_files.dsl.

(u - 0.5) * 0.02 * sqrt(3) with u from MT19937(2) as numpy's RandomState(2).random_sample draws it (init_genrand, 53-bit doubles),
w row-major first, then w2; f32. Standard deviation 0.01, as normal(0.01). Needs no numpy.
"""
import math
import os
import struct


def mt19937(seed):
    """Doubles in [0, 1) of numpy's legacy generator."""
    state = [seed & 0xFFFFFFFF]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ state[-1] >> 30) + i) & 0xFFFFFFFF)
    at = 624
    while True:
        words = []
        for _ in range(2):
            if at == 624:
                for i in range(624):
                    y = state[i] & 0x80000000 | state[(i + 1) % 624] & 0x7FFFFFFF
                    state[i] = state[(i + 397) % 624] ^ y >> 1 ^ (0x9908B0DF if y & 1 else 0)
                at = 0
            y = state[at]
            at += 1
            y ^= y >> 11
            y ^= y << 7 & 0x9D2C5680
            y ^= y << 15 & 0xEFC60000
            y ^= y >> 18
            words.append(y)
        yield ((words[0] >> 5) * 67108864 + (words[1] >> 6)) / 9007199254740992


def write_npy(path, shape, values):
    """Format 1.0, little-endian f32, C order, header padded to 64 bytes."""
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % ", ".join(str(n) for n in shape)
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("ascii"))
        file.write(struct.pack("<%df" % len(values), *values))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    draw = mt19937(2)
    for name, shape in (("quickstart_w.npy", (32, 16)), ("quickstart_w2.npy", (16, 16))):
        count = shape[0] * shape[1]
        write_npy(os.path.join(here, name), shape, [(next(draw) - 0.5) * 0.02 * math.sqrt(3) for _ in range(count)])


if __name__ == "__main__":
    main()
