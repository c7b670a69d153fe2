# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes images to train on where Fashion-MNIST is not at hand: ten patterns of bright and dark squares under noise,
# as four files with the names and format of Fashion-MNIST's.
#
# python3 tools/generate_images.py FOLDER [SAMPLES]

import gzip
import os
import random
import struct
import sys

SAMPLES, EVALUATED, SIDE, SQUARE = 10240, 2048, 28, 7


def write_idx(path, shape, data):
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + data)


def blend(first, second):
    """The mean of each byte of one and the byte of the other, rounded down."""
    a, b = (int.from_bytes(data, "big") for data in (first, second))
    upper = int.from_bytes(b"\xfe" * len(first), "big")
    return ((a & b) + (((a ^ b) & upper) >> 1)).to_bytes(len(first), "big")


def pattern_of(label):
    """Squares large enough for LeNet to tell the patterns apart after a few dozen steps."""
    bits, columns = random.Random(label), SIDE // SQUARE
    squares = [bits.choice((0, 255)) for _ in range(columns * columns)]
    return bytes(squares[y // SQUARE * columns + x // SQUARE] for y in range(SIDE) for x in range(SIDE))


def write_images(folder, prefix, count, seed):
    patterns, numbers = [pattern_of(label) for label in range(10)], random.Random(seed)
    labels = bytes(numbers.randrange(10) for _ in range(count))
    images = b"".join(blend(patterns[label], blend(patterns[label], numbers.randbytes(SIDE * SIDE)))
                      for label in labels)
    write_idx(os.path.join(folder, f"{prefix}-images-idx3-ubyte.gz"), (count, SIDE, SIDE), images)
    write_idx(os.path.join(folder, f"{prefix}-labels-idx1-ubyte.gz"), (count,), labels)


def generate_images(folder, samples=SAMPLES):
    """Writes `samples` images to train on, and EVALUATED others to evaluate with."""
    os.makedirs(folder, exist_ok=True)
    write_images(folder, "train", samples, 1)
    write_images(folder, "t10k", EVALUATED, 2)


def main():
    if len(sys.argv) not in (2, 3) or not all(argument.isdigit() for argument in sys.argv[2:]):
        print("usage: python3 tools/generate_images.py FOLDER [SAMPLES]", file=sys.stderr)
        return 2
    generate_images(sys.argv[1], *map(int, sys.argv[2:]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
