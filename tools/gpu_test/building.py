# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the runtime alone on the machine with GPUs: first the program that runs plans, which all else needs, then the
# suites of its tests.

import os
import shutil

import carry
from processes import NoTime, ended
from results import FAILED, PASSED, SKIPPED, last


def build_runtime(run, suites, suites_limit):
    """Whether cleave-run was built. The suites take no more seconds than `suites_limit()`, since the rest of the tests does
    not need them."""
    carried, cache = os.path.join(run.folder, "carried"), shutil.which("ccache")
    flags = carry.configuration(carried, run.options.carried_only, ["-fpch-preprocess"] if cache else [])
    if cache:
        run.environment["CCACHE_SLOPPINESS"] = "pch_defines,time_macros,include_file_mtime,include_file_ctime"
        flags.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    command = ["cmake", "-S", "runtime", "-B", run.build, "-G", "Ninja", "-DCLEAVE_CUDA=ON", *flags]
    if not step(run, "runtime alone, configured", "cmake.log", command):
        return False
    ninja = ["ninja", "-C", run.build, *(["-j", run.options.jobs] if run.options.jobs else [])]
    if not step(run, "runtime alone", "build.log", [*ninja, "cleave-run"]):
        return False
    known = run.command("ninja", "-C", run.build, "-t", "targets", "all", limit=60)[1]
    wanted = [name for name in suites if f"\n{name}: phony" in known]
    if wanted:
        # One that does not compile keeps no other from being built.
        step(run, "suites", "build-suites.log", [*ninja, "-k", "0", *wanted], suites_limit())
    return True


def step(run, name, log, command, limit=None):
    """Runs a part of the build and adds its row; whether it ended well. Nothing runs without a build: it may take nearly
    all that is left."""
    try:
        code, output = run.command(*command, limit=limit or max(run.left() - 60, run.left() / 2))
    except NoTime as reason:
        run.results.add("build", name, SKIPPED, str(reason))
        return False
    run.results.log(log, output)
    detail = "" if code == 0 else last(output) or ended(code)
    run.results.add("build", name, PASSED if code == 0 else FAILED, detail)
    return code == 0
