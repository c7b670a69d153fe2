# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The page of a server in headless Chromium: it shows each model, where it runs and what it did, asks nobody but the
# server, cannot be broken by the names of models and plans, and wants the token where the server does.

import html
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.parse

from cleave_process import program, skip
from serve_process import KnownModel, Server, run

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = '<img src>"\\'


def draw(server, folder, path=""):
    """A page after some seconds, as it stands in the browser; nothing is said on the console."""
    command = [CHROMIUM, "--headless", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=5000",
               "--no-first-run", f"--user-data-dir={folder}/profile", "--dump-dom", f"http://127.0.0.1:{server.port}/{path}"]
    if os.geteuid() == 0:
        command.insert(1, "--no-sandbox")
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def text_of(page):
    return html.unescape(re.sub(r"<[^>]*>", " ", re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.S)))


def value(page, name):
    return re.search(rf"<dt>{re.escape(name)}</dt><dd>(.*?)</dd>", page)[1]


def main():
    if not CHROMIUM:
        skip("no Chromium")
    with tempfile.TemporaryDirectory() as folder:
        known = KnownModel(folder)
        with Server(known.plan, f"{HOSTILE}={known.plan}") as server:
            status, headers, _ = server.ask("GET", "/")
            assert status == 200 and headers["content-type"].startswith("text/html")
            assert "default-src 'none'" in headers["content-security-policy"]
            assert server.ask("POST", "/", "x")[0] == 405
            run(program("cleave-run"), "load", f"http://127.0.0.1:{server.port}", "--model", "lenet", "--seconds", "1",
                "--clients", "4")
            page, said = draw(server, folder)
            assert not said, said
            text = text_of(page)
            assert page.count("<section>") == 2 and "<img" not in page, page
            assert HOSTILE in text and "lenet" in text and text.count("not ready") == 0
            assert "input FP32[-1,1,28,28] → output FP32[-1,10]" in text, text
            for size in (1, 2, 4, 8):
                assert re.search(rf"<td>{size}</td><td>[0-9.e-]+ ms</td><td>[0-9.e-]+ ms</td>", page), page
            names = re.findall(r"<h2>(.*?) <span", page)
            lenet = page.split("<section>")[1 + names.index("lenet")]
            other = page.split("<section>")[1 + names.index(html.escape(HOSTILE, quote=False))]
            assert value(lenet, "failed") == "0" and value(other, "requests/s") == "0.0"
            assert lenet.count("<polyline") == 2
            # Where it runs, by the plan alone: this program has no compiler.
            for part in (lenet, other):
                assert re.search(r"<td>0</td><td>lenet.plan, \w+</td><td>cpu0</td><td>1 core</td><td>[1-9]\d*</td>"
                                 r"<td>[0-9.]+ MiB</td>", part), part
            assert "explanation" not in re.sub(r"<script>.*</script>", "", page, flags=re.S)
            assert server.ask("GET", "/v2/models/lenet/explanation")[0] == 404
            assert server.ask("GET", "/v2/models/none/placement")[0] == 404
            _, placement = server.get("/v2/models/" + urllib.parse.quote(HOSTILE, safe="") + "/placement")
            assert placement["name"] == HOSTILE and placement["plans"] == ["lenet.plan"], placement
            (instance,) = placement["instances"]
            assert instance["ready"] and [device["driver"] for device in instance["devices"]] == ["cpu"], instance
            assert [batch["samples"] for batch in instance["batches"]] == [1, 2, 4, 8], instance
            assert folder not in json.dumps(placement), "expected no paths of the server's"
        hostile = shutil.copy(known.plan, os.path.join(folder, HOSTILE + ".plan"))
        # With the compiler there is the explain page, whose names are as harmless.
        with Server("lenet=" + hostile, "--instances", "2", command=[program(), "serve"]) as server:
            page, said = draw(server, folder)
            assert not said, said
            assert "<img" not in page and text_of(page).count(HOSTILE + ".plan") == 2, page
            path = re.search(r'<a href="(.*?/explanation)">', page)[1]
            status, headers, explanation = server.ask("GET", "/" + path)
            assert status == 200 and "default-src 'none'" in headers["content-security-policy"]
            explained, said = draw(server, folder, path)
            assert not said, said
            assert "conv1" in text_of(explained), explained
        token = os.path.join(folder, "token")
        with open(token, "w", encoding="utf-8") as file:
            file.write("secret\n")
        with Server(known.plan, "--token-file", token) as server:
            page, _ = draw(server, folder)
            assert re.search(r'<form id="login">', page) and "<section>" not in page, page
        with Server(known.plan) as server:
            page, _ = draw(server, folder)
            assert re.search(r'<form id="login" hidden="">', page), page


main()
