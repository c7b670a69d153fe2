# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What the runtime's build needs besides a compiler, CMake and Ninja, and a machine with GPUs may lack: taken from the
# compiler's machine into the prepared folder, and found there again when the runtime is built.

import lzma
import os
import shutil
import subprocess
import sys

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SYSTEM = ("/usr/local/include", "/usr/include", "/usr/include/x86_64-linux-gnu")
CUDA = ("/usr/local/cuda/include", *SYSTEM)
# Headers of CUDA that the runtime reads; of each library those that its own include.
CUDA_HEADERS = ("cuda_runtime_api.h", "cuda_bf16.h", "cuda_fp16.h", "cublasLt.h", "cudnn.h", "nccl.h")

CLI11_CONFIG = """if(NOT TARGET CLI11::CLI11)
  add_library(CLI11::CLI11 INTERFACE IMPORTED)
  set_target_properties(CLI11::CLI11 PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${CMAKE_CURRENT_LIST_DIR}/../include)
endif()
"""
GTEST_CONFIG = """if(NOT TARGET GTest::gtest)
  set(sources ${CMAKE_CURRENT_LIST_DIR}/..)
  find_package(Threads REQUIRED)
  foreach(part gtest gmock)
    add_library(${part} STATIC ${sources}/${part}/src/${part}-all.cc)
    target_include_directories(${part} PRIVATE ${sources}/${part})
    target_include_directories(${part} SYSTEM PUBLIC ${sources}/${part}/include)
    add_library(${part}_main STATIC ${sources}/${part}/src/${part}_main.cc)
    target_link_libraries(${part}_main PUBLIC ${part})
    add_library(GTest::${part} ALIAS ${part})
    add_library(GTest::${part}_main ALIAS ${part}_main)
  endforeach()
  target_link_libraries(gtest PUBLIC Threads::Threads)
  target_link_libraries(gmock PUBLIC gtest)
endif()
"""


def find(name, folders):
    """The first of the folders that holds a file or folder of that name; none where none does."""
    return next((folder for folder in folders if os.path.exists(os.path.join(folder, name))), None)


def copy_tree(source, target):
    shutil.copytree(source, target, dirs_exist_ok=True)


WEIGHTS = ".weights"
PACKED = ".xz"


def pack_weights(folder):
    """Weights that models compute are large and repeat themselves: in the folder they lie compressed."""
    for name in sorted(os.listdir(folder)):
        if name.endswith(WEIGHTS):
            path = os.path.join(folder, name)
            with open(path, "rb") as source, lzma.open(path + PACKED, "wb", preset=1) as target:
                shutil.copyfileobj(source, target, 1 << 20)
            os.remove(path)


def unpack_weights(folder):
    """Beside the plans, where they look for them. A file that is whole has its own name."""
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name.removesuffix(PACKED))
        if name.endswith(WEIGHTS + PACKED) and not os.path.exists(path):
            with lzma.open(path + PACKED, "rb") as source, open(path + ".new", "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            os.replace(path + ".new", path)


#===-- where the compiler is --------------------------------------------------------------------------------------===#


def cuda_headers():
    """Folder and name of each header that CUDA_HEADERS and what they include come from, outside of the system."""
    present = [(find(name, CUDA), name) for name in CUDA_HEADERS]
    lines = "".join(f"#include <{name}>\n" for folder, name in present if folder)
    done = subprocess.run(["g++", "-x", "c++", "-std=c++20", "-M", *(f"-I{folder}" for folder in CUDA[:1]), "-"],
                          input=lines, capture_output=True, text=True)
    own = {os.path.realpath(os.path.join(folder, name)) for folder, name in present if folder}
    folders = {os.path.dirname(path) for path in own} | {os.path.realpath(CUDA[0])}
    for path in done.stdout.replace("\\\n", " ").split()[1:]:
        real = os.path.realpath(path)
        top = next((folder for folder in sorted(folders) if real.startswith(folder + os.sep)), None)
        # Libraries of the system's own packages lie among the system's headers: of these take what is CUDA's alone.
        if top and (not top.startswith("/usr/include") or os.path.basename(real).startswith(("cudnn", "nccl"))):
            yield real, os.path.relpath(real, top)


def fill(folder, say):
    """Copies all of it, as far as it is here; what is missing is said."""
    include, library = os.path.join(folder, "include"), os.path.join(folder, "lib")
    os.makedirs(library, exist_ok=True)
    for name in ("flatbuffers", "CLI"):
        source = find(name, SYSTEM)
        if source:
            copy_tree(os.path.join(source, name), os.path.join(include, name))
        else:
            say(f"no headers of {name} to carry")
    write_generated_header(folder, say)
    for name in ("zlib.h", "zconf.h"):
        source = find(name, SYSTEM)
        if source:
            shutil.copyfile(os.path.join(source, name), os.path.join(include, name))
    source = find("libz.a", ("/usr/lib/x86_64-linux-gnu", "/usr/lib", "/usr/local/lib"))
    if source:
        shutil.copyfile(os.path.join(source, "libz.a"), os.path.join(library, "libz.a"))
    else:
        say("no static zlib to carry")
    if os.path.isdir("/usr/src/googletest"):
        for source, name in (("googletest", "gtest"), ("googlemock", "gmock")):
            for part in ("include", "src"):
                copy_tree(f"/usr/src/googletest/{source}/{part}", os.path.join(folder, name, part))
    else:
        say("no sources of GoogleTest to carry: the conformance suite is built only where it is installed")
    for real, name in cuda_headers():
        # NCCL's are looked for by CMake, which knows nothing of the compiler's last folder.
        path = os.path.join(folder, "nccl" if name.startswith("nccl") else "cuda", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copyfile(real, path)
    write_configurations(folder)


def write_generated_header(folder, say):
    """What flatc makes of the plan's schema, with a program in flatc's place that gives it."""
    generated = os.path.join(folder, "generated")
    os.makedirs(generated, exist_ok=True)
    done = subprocess.run(["flatc", "--cpp", "--cpp-std", "c++17", "--scoped-enums", "--gen-object-api", "-o",
                           generated, os.path.join(REPOSITORY, "runtime", "plan.fbs")], capture_output=True, text=True)
    if done.returncode:
        say(f"flatc cannot make the plan's header: {done.stderr.strip()}")
    flatc = os.path.join(folder, "flatc")
    with open(flatc, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\n# flatc, with the one header that it is asked for: as "flatc … -o FOLDER SCHEMA".\n'
                   'while [ "$1" != -o ]; do shift; done\n'
                   'mkdir -p "$2" && cp "$(dirname "$0")/generated/plan_generated.h" "$2/"\n')
    os.chmod(flatc, 0o755)


def write_configurations(folder):
    """What find_package finds of the libraries that are carried as sources."""
    os.makedirs(os.path.join(folder, "cmake"), exist_ok=True)
    for name, text in (("CLI11", CLI11_CONFIG), ("GTest", GTEST_CONFIG)):
        with open(os.path.join(folder, "cmake", f"{name}Config.cmake"), "w", encoding="utf-8") as file:
            file.write("# What the runtime's build needs of " + name + ".\n")
            file.write(text)


#===-- where the GPU is -------------------------------------------------------------------------------------------===#


def configuration(folder, carried_only=False, cxx_flags=()):
    """The runtime's options of CMake for a machine: what is installed, and what is missing from the folder; with
    `carried_only` everything from the folder, for a test of it."""
    def absent(*names, folders=SYSTEM):
        return carried_only or any(find(name, folders) is None for name in names)

    flags, path = [], lambda *parts: os.path.join(os.path.abspath(folder), *parts)
    if absent("flatbuffers/flatbuffers.h") or not shutil.which("flatc"):
        # Headers and program must be of one version. Not every way to copy a folder keeps what is executable.
        if os.path.exists(path("flatc")):
            os.chmod(path("flatc"), 0o755)
        flags += [f"-DCLEAVE_FLATC={path('flatc')}", f"-DCLEAVE_FLATBUFFERS_INCLUDE={path('include')}"]
    if absent("CLI/CLI.hpp"):
        flags.append(f"-DCLI11_DIR={path('cmake')}")
    if absent("gtest/gtest.h", "gmock/gmock.h"):
        flags.append(f"-DGTest_DIR={path('cmake')}")
    if absent("zlib.h"):
        flags += [f"-DZLIB_INCLUDE_DIR={path('include')}", f"-DZLIB_LIBRARY={path('lib', 'libz.a')}"]
    if absent("oneapi/dnnl/dnnl.hpp"):
        flags.append("-DCLEAVE_ONEDNN=OFF")
    if absent("nccl.h", folders=CUDA) and os.path.exists(path("nccl", "nccl.h")):
        flags.append(f"-DCLEAVE_NCCL_INCLUDE={path('nccl')}")
    flags += ["-DCLEAVE_MPI=OFF"] if carried_only or not shutil.which("mpirun") else []
    # Last of all folders: a header of the machine's own toolkit comes first.
    flags.append(f"-DCMAKE_CXX_FLAGS={' '.join([*cxx_flags, '-idirafter', path('cuda')])}")
    if not os.path.isdir(path("gtest")) and absent("gtest/gtest.h", "gmock/gmock.h"):
        print("gpu-test: no GoogleTest: the conformance suite is not built", file=sys.stderr)
        flags.append("-DCLEAVE_TESTS=OFF")
    return flags
