# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Checks that devices of one plan take at most a share of the memory that those of another one take, by what `explain`
# says of them as JSON: less_memory.py ONE OTHER SHARE.

import json
import sys

one, other = (max(device["arena_bytes"] for device in json.load(open(name))["devices"]) for name in sys.argv[1:3])
share = float(sys.argv[3])
if one > share * other:
    sys.exit(f"expects at most {share} of {other} bytes a device, got {one}")
