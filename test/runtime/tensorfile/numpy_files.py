# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes NumPy files for the tests to read (write FOLDER), or checks those that the tests wrote (check FOLDER).
# Element i of every array, in row-major order, is i * 7 mod 11 - 3, as the array's type holds it.

import gzip
import pathlib
import struct
import sys

import numpy

TYPES = ["bool", "int8", "uint8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
SHAPES = {"scalar": (), "vector": (5,), "matrix": (3, 4), "empty": (0, 2), "cube": (2, 3, 4)}


def values(dtype, shape):
    numbers = numpy.arange(numpy.prod(shape, dtype=int)) * 7 % 11
    numbers = numbers if dtype == "uint64" else numbers - 3
    return numbers.reshape(shape).astype(dtype)


def write(folder):
    for dtype in TYPES:
        arrays = {name: values(dtype, shape) for name, shape in SHAPES.items()}
        for name, array in arrays.items():
            numpy.save(folder / f"{dtype}-{name}.npy", array)
            fortran = array if array.ndim == 0 else numpy.asfortranarray(array)
            numpy.save(folder / f"{dtype}-{name}-fortran.npy", fortran)
            numpy.save(folder / f"{dtype}-{name}-big.npy", array.astype(array.dtype.newbyteorder(">")))
            for version in (2, 3):
                with open(folder / f"{dtype}-{name}-v{version}.npy", "wb") as out:
                    numpy.lib.format.write_array(out, array, version=(version, 0))
        numpy.savez(folder / f"{dtype}-stored.npz", **arrays)
        numpy.savez_compressed(folder / f"{dtype}-deflated.npz", **arrays)
    cube = values("uint8", SHAPES["cube"])
    with gzip.open(folder / "cube-idx3-ubyte.gz", "wb") as out:
        out.write(struct.pack(">HBBIII", 0, 8, 3, *cube.shape) + cube.tobytes())


def check(folder):
    for dtype in TYPES:
        for name, shape in SHAPES.items():
            expected = values(dtype, shape)
            archive = numpy.load(folder / f"{dtype}.npz")
            for array in (numpy.load(folder / f"{dtype}-{name}.npy"), archive[name]):
                assert array.dtype == expected.dtype and array.shape == expected.shape, (dtype, name, array.dtype)
                assert (array == expected).all(), (dtype, name, array)
    bits = numpy.load(folder / "bfloat16.npy")
    assert bits.dtype == numpy.uint16 and bits.tolist() == [0x3F80, 0xC020], bits


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
