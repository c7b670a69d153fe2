# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of `cleave explain --format html` in headless Chromium: it draws without an error on the console, shows every
operator, answers to clicks and keys, asks nobody for anything, and cannot be broken by the names of a model's nodes.
Ends with 77 where there is no Chromium."""

import html.parser
import os
import re
import shutil
import subprocess
import sys
import tempfile

BIN = os.environ["CLEAVE_BIN"]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = '</script><script>document.title="broken"</script><img src=x onerror=alert(1)><!-- & "\'/'


class Page(html.parser.HTMLParser):
    """The drawn page: its elements, and the text of those with an identifier."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.open = [], {}, []
        self.feed(text)

    VOID = {"meta", "link", "br", "img", "input", "hr"}

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append((tag, dict(attributes).get("id")))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for _, name in self.open:
            if name:
                self.texts[name] = self.texts.get(name, "") + data

    def count(self, tag, **attributes):
        def matches(found):
            return all(value in (found.get(key) or "").split() for key, value in attributes.items())

        return sum(1 for name, found in self.elements if name == tag and matches(found))


def expect(holds, message):
    if not holds:
        raise AssertionError(message)


def run(*command):
    return subprocess.run([os.path.join(BIN, command[0]), *command[1:]], check=True, stdout=subprocess.PIPE).stdout


def draw(page, folder, address="", script=None, dark=False):
    """The page after its scripts, and `script`, have run."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    if script:
        page = os.path.join(folder, "scripted.html")
        with open(page, "w", encoding="utf-8") as file:
            file.write(text.replace("</body>", f"<script>{script}</script></body>"))
    command = [CHROMIUM, "--headless", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=4000",
               "--no-first-run", "--window-size=1400,1000", f"--user-data-dir={folder}/profile"]
    if os.geteuid() == 0:
        command.append("--no-sandbox")
    if dark:
        command.append("--force-dark-mode")
    result = subprocess.run(command + ["--dump-dom", f"file://{page}{address}"], check=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, timeout=100)
    said = [line for line in result.stderr.decode(errors="replace").splitlines() if "CONSOLE" in line]
    expect(not said, f"{page}{address}: the console says {said}")
    drawn = Page(result.stdout.decode())
    expect(("html", "true") in [(tag, found.get("data-ready")) for tag, found in drawn.elements],
           f"{page}{address}: the scripts did not reach their end")
    return drawn


def explain(plan):
    run("cleave", "explain", plan, "--format", "html", "-o", plan + ".html")
    return plan + ".html"


def predicted(folder, name, *shape):
    plan = os.path.join(folder, name + ".plan")
    run("write-predicted-plan", plan, *map(str, shape))
    return explain(plan)


def test_everything_is_there(folder):
    # embedding, 12 layers of 5, head; of each stage's three layers one is drawn, and one node stands for the others.
    page = predicted(folder, "small", 4, 2, 3, 8)
    drawn = draw(page, folder)
    expect(drawn.count("g", **{"class": "node"}) == 2 + 4 * (5 + 1), "graph: expects 26 nodes")
    expect(drawn.count("rect", **{"class": "stage"}) == 4, "graph: expects four stages")
    expect(drawn.texts["count"] == "62 of 62", f"table: got {drawn.texts['count']!r}")
    for name in ("block11/fc2", "propagation from block3/fc1", "in_channel/axis0 2"):
        expect(name in drawn.texts["table"], f"table: expects {name!r}")
    expect("1f1b" in drawn.texts["summary"] and "2.0 %" in drawn.texts["summary"], "facts: expects schedule and gap")
    expect("needs 24.0 GiB more on d0" in drawn.texts["alternatives"], "alternatives: expects why not")
    expect("10.5 GiB of 16.0 GiB" in drawn.texts["memory"], "memory: expects the first stage's")
    expect(drawn.count("rect", **{"class": "kind1"}) > 0, "timeline: expects backward bars")
    draw(page, folder, dark=True)


def test_answers(folder):
    page = os.path.join(folder, "small.plan.html")
    chosen = draw(page, folder, "#op=block1%2Ffc2").texts["details"]
    for fact in ("block1/fc2", "in_channel/axis0 2", "planner", "900.00 us", "+10.0 %", "block1/act", "block1/add"):
        expect(fact in chosen, f"facts: expects {fact!r}, got {chosen!r}")
    clicked = draw(page, folder, script="document.querySelectorAll('.node')[1].dispatchEvent(new Event('click'))")
    expect("block0/norm" in clicked.texts["details"], "a click on a node shows its facts")
    keys = """document.querySelector('.node').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown'}));
              document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}));"""
    expect("block0/norm" in draw(page, folder, script=keys).texts["details"], "keys move and choose")
    filtered = draw(page, folder, script="""const field = document.getElementById('filter'); field.value = 'fc1 planner';
                                            field.dispatchEvent(new Event('input'));""")
    expect(filtered.texts["count"] == "12 of 62", f"filter: got {filtered.texts['count']!r}")
    sort = """[...document.querySelectorAll('#table th button')].find(button => button.textContent === 'time').click();
              document.getElementById('details').textContent = document.querySelector('#table tbody tr').textContent"""
    expect("fc2" in draw(page, folder, script=sort).texts["details"], "sorting by time puts the longest first")


def test_hostile_names(folder):
    page = predicted(folder, "hostile", 2, 2, 3, 4, "1f1b", HOSTILE)
    drawn = draw(page, folder)
    expect(drawn.count("img") == 0, "a node's name became an element")
    expect("broken" not in drawn.texts["title"], "a node's name ran as a script")
    expect(HOSTILE + "embedding" in drawn.texts["table"], "a node's name is shown as it is")


def test_large(folder):
    # 1,000 layers on 4,096 devices: the graph falls back to modules or meshes and says so.
    drawn = draw(predicted(folder, "large", 64, 64, 16, 256), folder)
    nodes = drawn.count("g", **{"class": "node"})
    expect(0 < nodes <= 500, f"graph: expects at most 500 nodes, got {nodes}")
    expect("operators in" in drawn.texts["graph-note"], "graph: expects to say what is folded")
    expect("the first 1000 shown" in drawn.texts["count"], f"table: got {drawn.texts['count']!r}")


def test_without_search(folder):
    model, plan = os.path.join(folder, "gpt.onnx"), os.path.join(folder, "gpt.plan")
    run("cleave", "zoo", "gpt", "--layers", "4", "--batch", "4", "--hidden", "64", "--heads", "4", "--sequence", "16",
        "--vocabulary", "100", "-o", model)
    run("cleave", "compile", model, "--machine", "host:4x1", "--strategy", "tensor", "--degrees", "data=2,model=2",
        "-o", plan)
    drawn = draw(explain(plan), folder)
    hidden = {found.get("id") for tag, found in drawn.elements if tag == "section" and "hidden" in found}
    expect("timeline" not in hidden and drawn.count("rect", **{"class": "kind3"}) > 0,
           "timeline: expects the simulated step with its collectives")
    expect("predicted step" in drawn.texts["lead"], f"expects the simulated step, got {drawn.texts['lead']!r}")
    expect({"stages", "alternatives"} <= hidden, f"expects sections without data to be hidden, got {hidden}")


def test_alone(folder):
    with open(os.path.join(folder, "small.plan.html"), encoding="utf-8") as file:
        text = file.read()
    expect(not re.search(r'(src|href)\s*=\s*["\']?(https?:|//|\w+\.(js|css))', text), "the page asks for something")
    expect("default-src 'none'" in text, "the page allows itself to ask for something")


def main():
    if not CHROMIUM:
        print("explain_page: skipped: there is no chromium")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        for test in (test_everything_is_there, test_answers, test_hostile_names, test_large, test_without_search,
                     test_alone):
            test(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
