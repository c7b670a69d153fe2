# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Checks that every device of a plan has its buffers, parameters among them, in so much memory, by what `explain` says of
# them as JSON: fits_memory.py PLAN MIB.

import json
import sys

most = max(device["arena_bytes"] for device in json.load(open(sys.argv[1]))["devices"])
if most > float(sys.argv[2]) * 2**20:
    sys.exit(f"expects at most {sys.argv[2]} MiB a device, got {most / 2**20}")
