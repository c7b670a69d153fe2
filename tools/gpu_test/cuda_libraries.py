# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Where CUDA's libraries are that the system's loader does not find by itself: PyTorch brings its own.

import glob
import os
import sysconfig

LIBRARIES = ("libcudart.so*", "libcublasLt.so*", "libcudnn*.so*", "libnccl.so*")


def folders():
    """Folders of Python's packages that hold one of LIBRARIES."""
    roots = {sysconfig.get_paths()[key] for key in ("purelib", "platlib")}
    found = set()
    for root in roots:
        for folder in glob.glob(os.path.join(root, "nvidia", "*", "lib")) + [os.path.join(root, "torch", "lib")]:
            if any(glob.glob(os.path.join(folder, name)) for name in LIBRARIES):
                found.add(folder)
    return sorted(found)
