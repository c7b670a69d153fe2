# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Tensors in NumPy's files with Python's standard library alone: the machine that tests GPUs need not have NumPy.

import array
import ast
import math
import random
import zipfile

# Of NumPy's names the codes of Python's arrays.
CODES = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q", "|u1": "B", "|i1": "b", "|b1": "B"}


def parse_npy(content, name):
    """The elements of a .npy file's bytes as an array, and its shape."""
    if content[:6] != b"\x93NUMPY":
        raise ValueError(f"{name} expects a .npy file, got other content")
    size = 2 if content[6] == 1 else 4
    begin = 8 + size + int.from_bytes(content[8:8 + size], "little")
    header = ast.literal_eval(content[8 + size:begin].decode("latin-1").split("#")[0].strip())
    if header["descr"] not in CODES:
        raise ValueError(f"{name} expects elements of {', '.join(CODES)}; got {header['descr']}")
    elements = array.array(CODES[header["descr"]])
    elements.frombytes(content[begin:begin + math.prod(header["shape"]) * elements.itemsize])
    return elements, header["shape"]


def read_npy(path):
    with open(path, "rb") as file:
        return parse_npy(file.read(), path)


def read_npz(path):
    """Elements and shape by name."""
    with zipfile.ZipFile(path) as archive:
        return {name.removesuffix(".npy"): parse_npy(archive.read(name), f"{path}:{name}")
                for name in archive.namelist()}


def write_npy(path, descr, shape, elements):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}"
    header = header.ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        file.write(array.array(CODES[descr], elements).tobytes())


def write_random(path, kind, shape, below, seed):
    """Normal numbers ("f32"), or whole ones below a bound ("i64"), that follow from the seed alone."""
    generator, count = random.Random(seed), math.prod(shape)
    if kind == "f32":
        write_npy(path, "<f4", shape, (generator.gauss(0, 1) for _ in range(count)))
    else:
        write_npy(path, "<i8", shape, (generator.randrange(below) for _ in range(count)))


def largest(elements):
    """The largest magnitude; 0 of nothing."""
    return max(map(abs, elements), default=0.0)


def difference(found, wanted):
    """The largest difference of two tensors; infinite where shapes differ or one has what is no number."""
    (a, shape), (b, expected) = found, wanted
    if tuple(shape) != tuple(expected):
        return math.inf
    worst = 0.0
    for x, y in zip(a, b):
        if x != y:
            apart = abs(x - y)
            if math.isnan(apart):
                return math.inf
            worst = max(worst, apart)
    return worst
