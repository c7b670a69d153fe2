# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# More than 200 command lines with a single mistake each. Most are the guide's own commands, with a letter dropped, a
# flag of another command, a number that is none or a value left out; the others swap files, leave units out or are off
# by one. Each must end within two seconds with the exit code that docs/formats.md gives its kind, print one error that
# names what is wrong, and leave no file behind. Codes and names follow from the mistake alone.

import os
import random
import re
import shlex
import sys
import tempfile
import time

from cleave_process import REPOSITORY, Checks, cleave, report

import numpy

USAGE, DIFFERENT = 2, 6
LIMIT = 2.0

# Options whose values are words, and those whose values are numbers.
WORDS = {"--strategy", "--format", "--optimizer", "--dtype", "--schedule", "--emit-ir", "--loss", "--machine", "--cpu",
         "--solver", "--preset"}
NUMBERS = {"--layers", "--hidden", "--heads", "--sequence", "--batch", "--epochs", "--size", "--learning-rate",
           "--microbatches", "--repeat", "--in-flight", "--vocabulary", "--steps"}


class Mistake:
    """A command line, the exit code of its kind, and texts of which each must stand in the error."""

    def __init__(self, kind, words, code, *names, suggests=None):
        self.kind, self.words, self.code, self.names, self.suggests = kind, words, code, names, suggests


def guide_commands():
    """The words of each command of the guide that is `cleave` and nothing else."""
    with open(os.path.join(REPOSITORY, "docs", "guide.md"), encoding="utf-8") as file:
        text = file.read()
    commands = []
    for block in re.findall(r"^```\n(.*?)^```$", text, re.M | re.S):
        for line in re.findall(r"^\$ (cleave .*)$", block.replace("\\\n", " "), re.M):
            if "…" in line or "|" in line:
                continue
            words = shlex.split(line, comments=True)[1:]
            if words not in commands:
                commands.append(words)
    return commands


def flags_of(command):
    """The long options that the help of a command lists."""
    return set(re.findall(r"(--[a-z][a-z0-9-]*)", cleave(command, "--help").output))


def dropped(word, choose, keep=0):
    """The word without one letter after the first `keep`."""
    at = choose.choice([i for i in range(keep, len(word)) if word[i].isalpha()])
    return word[:at] + word[at + 1:]


def replaced(words, at, *others):
    return words[:at] + list(others) + words[at + 1:]


def from_guide(choose):
    """Mistakes in the guide's commands. What they read need not be there: the parser sees them first."""
    commands, flags = guide_commands(), {}
    for words in commands:
        flags.setdefault(words[0], flags_of(words[0]))
    names, found, seen = sorted(flags), [], set()

    def add(kind, words, code, *texts, suggests=None):
        if tuple(words) not in seen:
            seen.add(tuple(words))
            found.append(Mistake(kind, words, code, *texts, suggests=suggests))

    for words in commands:
        command = words[0]
        if command == "serve":
            continue
        wrong = dropped(command, choose)
        if wrong not in flags:
            add("letter of a command", [wrong] + words[1:], USAGE, f'"{wrong}"', suggests=command)
        other = choose.choice([flag for name in names if name != command for flag in sorted(flags[name] - flags[command])])
        add("flag of another command", words + [other], USAGE, other, command)
        for at, word in enumerate(words):
            value = words[at + 1] if at + 1 < len(words) else None
            if not word.startswith("--"):
                continue
            wrong = dropped(word, choose, 2)
            if wrong not in flags[command]:
                add("letter of a flag", replaced(words, at, wrong), USAGE, wrong.split("=")[0],
                    suggests=word.split("=")[0])
            if word in WORDS and not value.endswith(".yaml") and ":" not in value:
                wrong = dropped(value, choose)
                # The parser knows these; files come before the others.
                if word not in ("--machine", "--loss", "--cpu", "--preset") and wrong != "f16":
                    add("letter of a value", replaced(words, at + 1, wrong), USAGE, word, wrong)
            if word in NUMBERS and value.replace(".", "").isdigit():
                if (command, word) != ("train", "--vocabulary"):
                    add("letter in a number", replaced(words, at + 1, value + "x"), USAGE, word)
            if value and not value.startswith("-") and (at + 2 == len(words) or words[at + 2].startswith("-")):
                add("value left out", words[:at + 1] + words[at + 2:], USAGE, word)
    return found


def write_files(path):
    """Small models, plans and data, by the names that the list below has."""

    def run(*words):
        result = cleave(*words)
        if result.code != 0:
            report([(" ".join(words), result)], 0)

    def save(name, array):
        numpy.save(path(name), array)

    def write(name, text):
        with open(path(name), "w", encoding="utf-8") as file:
            file.write(text)

    run("zoo", "mlp", "--layers", "2", "--inputs", "8", "--hidden", "16", "--classes", "4", "--batch", "4", "-o",
        path("mlp.onnx"))
    run("zoo", "lstm", "--layers", "1", "--hidden", "8", "--vocabulary", "20", "--batch", "2", "--symbolic", "sequence",
        "-o", path("lstm.onnx"))
    run("zoo", "mlp", "--layers", "2", "--inputs", "8", "--hidden", "16", "--classes", "4", "-o", path("one.onnx"))
    run("compile", path("mlp.onnx"), "--machine", "host:2x1", "--strategy", "data", "-o", path("mlp.plan"))
    run("compile", path("mlp.onnx"), "--machine", "host:1x1", "--train", "--loss", "cross-entropy", "--optimizer", "sgd",
        "-o", path("train.plan"))
    write_symbolic(path("mlp.onnx"), path("open.onnx"))
    numbers = numpy.random.default_rng(1)
    save("x.npy", numbers.normal(size=(4, 8)).astype(numpy.float32))
    save("x9.npy", numbers.normal(size=(4, 9)).astype(numpy.float32))
    save("x5.npy", numbers.normal(size=(5, 8)).astype(numpy.float32))
    save("y.npy", numpy.full((4, 4), 1e6, numpy.float32))
    save("images.npy", numbers.normal(size=(16, 8)).astype(numpy.float32))
    save("images9.npy", numbers.normal(size=(16, 9)).astype(numpy.float32))
    save("images15.npy", numbers.normal(size=(15, 8)).astype(numpy.float32))
    save("nan.npy", numpy.full((16, 8), numpy.nan, numpy.float32))
    save("labels.npy", numbers.integers(0, 4, 16))
    save("labels5.npy", numpy.full(16, 4))
    write("mlp.place.yaml", 'groups: { first: ["fc1"], last: ["fc2"] }\ndevices: { first: 0, last: 1 }\n')
    write("group.place.yaml", 'groups: { first: ["fc1"], last: ["fc2"] }\ndevices: { first: 0, lst: 1 }\n')
    write("device.place.yaml", 'groups: { first: ["fc1"], last: ["fc2"] }\ndevices: { first: 0, last: 2 }\n')
    write("key.place.yaml", 'groups: { first: ["fc1"] }\ndevices: { first: 0 }\nsplit: {}\n')
    machine = ("device_kinds:\n  gpu:\n    memory: 16 GiB\n    bandwidth: 900 GB/s\n    peak: { f32: 15.7 TFLOP/s }\n"
               "hosts:\n  - devices: [ { kind: gpu, count: 2 } ]\n")
    write("mine.yaml", machine)
    write("unit.yaml", machine.replace("16 GiB", "16"))
    write("rate.yaml", machine.replace("15.7 TFLOP/s", "15.7 TFLOPS"))
    write("key.yaml", machine.replace("bandwidth", "bandwith"))
    write("kind.yaml", machine.replace("kind: gpu", "kind: gp"))
    stage = "stages:\n  - { forward: 2 ms, backward_input: 2 ms, backward_weight: 1 ms }\n"
    write("stages.yaml", stage)
    write("stage-unit.yaml", stage.replace("forward: 2 ms", "forward: 2"))
    write("stage-key.yaml", stage.replace("forward", "foward"))
    costs = 'ops:\n  - { name: a, kind: "Conv", inputs: [], forward: 18 ms }\n' \
            '  - { name: b, kind: "Conv", inputs: [a], forward: 18 ms }\n'
    write("costs.yaml", costs)
    write("costs-unit.yaml", costs.replace("18 ms }\n  -", "18 }\n  -"))
    write("costs-input.yaml", costs.replace("[a]", "[c]"))
    write("text.txt", "one two three\n")


def write_symbolic(model, copy):
    """The model with a batch of the name n."""
    import onnx

    proto = onnx.load(model)
    for value in [*proto.graph.input, *proto.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    del proto.graph.value_info[:]
    onnx.save(proto, copy)


# Options of a training step, and of training.
STEP = "--machine host:1x1 --train --loss cross-entropy"
DATA = "--data input=images.npy --data labels=labels.npy"

# Kind, command line, exit code, and what the error must name, by blanks.
WRITTEN = """
letter of a file     | compile ml.onnx -o new.plan                              | 1 | ml.onnx
letter of a file     | explain ml.plan                                          | 1 | ml.plan
letter of a file     | run mlp.pln                                              | 1 | mlp.pln
letter of a file     | run mlp.plan --input input=x.np                          | 1 | x.np
letter of a file     | compile mlp.onnx --machine min.yaml -o new.plan          | 1 | min.yaml
letter of a file     | compile mlp.onnx --machine host:2x1 --place mlp.plac.yaml -o new.plan | 1 | mlp.plac.yaml
letter of a file     | train train.plan --data input=image.npy --data labels=labels.npy | 1 | image.npy
letter of a file     | schedule --stages stage.yaml --schedule gpipe --microbatches 2 | 1 | stage.yaml
letter of a file     | partition cost.yaml --machine null:2                     | 1 | cost.yaml
letter of a file     | vocabulary txt.txt --size 10 -o new.words                | 1 | txt.txt
letter of a file     | diff mlp.plan trin.plan                                  | 1 | trin.plan
letter of a file     | check lst.onnx                                           | 1 | lst.onnx
letter of a folder   | compile mlp.onnx -o plan/new.plan                        | 1 | plan/new.plan
letter of a folder   | train train.plan {DATA} --export none/w.npz              | 1 | none/w.npz
letter of a value    | compile mlp.onnx --machine hst:2 -o new.plan             | 2 | hst:2
letter of a value    | compile mlp.onnx --machine a10-80g:2 -o new.plan         | 2 | a10-80g:2
letter of a value    | compile mlp.onnx --machine host:2x -o new.plan           | 2 | host:2x
letter of a value    | compile mlp.onnx --cpu x86-64-v33 -o new.plan            | 2 | x86-64-v33
letter of a value    | compile mlp.onnx --executor megatron-cor -o new.plan     | 2 | --executor megatron-cor
letter of a value    | compile mlp.onnx --machine host:1x1 --train --loss cros-entropy -o new.plan | 2 | cros-entropy
letter of a value    | compile mlp.onnx {STEP},clases=1 -o new.plan             | 2 | clases
letter of a value    | compile mlp.onnx {STEP},output=outptu -o new.plan        | 2 | outptu
letter of a value    | compile mlp.onnx {STEP} --optimizer adm -o new.plan      | 2 | --optimizer adm
letter of a value    | compile mlp.onnx {STEP} --optimizer-options betta1=0.9 -o new.plan | 2 | betta1
letter of a value    | compile mlp.onnx {STEP} --lr-schedule cosin:100 -o new.plan | 2 | cosin
letter of a value    | compile mlp.onnx {STEP} --batch-norm sync -o new.plan    | 2 | --batch-norm sync
letter of a value    | compile mlp.onnx --machine host:2x1 --degrees dta=2 -o new.plan | 2 | dta=2
letter of a value    | compile mlp.onnx --emit-ir plce                          | 2 | --emit-ir plce
letter of a value    | zoo gtp -o new.onnx                                      | 2 | gtp
letter of a value    | explain mlp.plan --format htm                            | 2 | --format htm
letter of a value    | explain mlp.plan --op fc9                                | 2 | fc9
letter of a value    | export mlp.plan --format torhc -o new.py                 | 2 | --format torhc
letter of a value    | simulate mlp.plan --machine hot:2                        | 2 | hot:2
letter of a value    | schedule --stages stages.yaml --schedule zbh1 --microbatches 4 | 2 | --schedule zbh1
letter of a value    | train train.plan {DATA} --tokens word                    | 2 | --tokens
letter of a value    | probe --preset a100-80 -o new.yaml                       | 2 | a100-80
letter of a name     | run mlp.plan --input inptu=x.npy                         | 2 | inptu
letter of a name     | run mlp.plan --output outptu=new.npy                     | 2 | outptu
letter of a name     | run mlp.plan --expect outptu=y.npy                       | 2 | outptu
letter of a name     | train train.plan --data inptu=images.npy --data labels=labels.npy | 2 | inptu
letter of a name     | train train.plan {DATA} --scale inptu=2                  | 2 | inptu
letter of a name     | train train.plan {DATA} --eval input=images.npy --eval labls=labels.npy | 2 | labls
letter of a name     | compile lstm.onnx --dim sequnce=4 -o new.plan            | 2 | sequnce
letter of a name     | compile mlp.onnx --bind inptu=x.npy -o new.plan          | 2 | inptu
letter of a name     | partition costs.yaml --machine null:2 --evaluate a:1,bb:1 | 2 | bb
letter in a file     | compile mlp.onnx --machine host:2x1 --place group.place.yaml -o new.plan | 1 | group.place.yaml:1 last
letter in a file     | compile mlp.onnx --machine host:2x1 --place key.place.yaml -o new.plan | 1 | key.place.yaml:3 split
letter in a file     | compile mlp.onnx --machine key.yaml -o new.plan          | 1 | key.yaml:4 bandwith
letter in a file     | compile mlp.onnx --machine kind.yaml -o new.plan         | 1 | kind.yaml:7 gp
letter in a file     | schedule --stages stage-key.yaml --schedule gpipe --microbatches 2 | 1 | stage-key.yaml:2 foward
letter in a file     | partition costs-input.yaml --machine null:2              | 1 | costs-input.yaml:3 c
unit missing         | compile mlp.onnx --memory 12 -o new.plan                 | 2 | --memory 12
unit missing         | compile mlp.onnx --memory GiB -o new.plan                | 2 | --memory GiB
unit missing         | compile mlp.onnx --memory 12GIB -o new.plan              | 2 | --memory 12GIB
unit missing         | compile mlp.onnx --memory 12Gb/s -o new.plan             | 2 | --memory 12Gb/s
unit missing         | compile mlp.onnx --machine unit.yaml -o new.plan         | 1 | unit.yaml:3 memory 16
unit missing         | compile mlp.onnx --machine rate.yaml -o new.plan         | 1 | rate.yaml:5 f32 TFLOPS
unit missing         | simulate mlp.plan --machine unit.yaml                    | 1 | unit.yaml:3 memory 16
unit missing         | schedule --stages stage-unit.yaml --schedule gpipe --microbatches 2 | 1 | stage-unit.yaml:2 forward
unit missing         | partition costs-unit.yaml --machine null:2               | 1 | costs-unit.yaml:2 forward
unit missing         | partition costs.yaml --machine null:2 --memory 12        | 2 | --memory 12
file swapped         | compile mlp.plan -o new.plan                             | 4 | mlp.plan plan
file swapped         | compile x.npy -o new.plan                                | 4 | x.npy
file swapped         | compile mlp.place.yaml -o new.plan                       | 4 | mlp.place.yaml
file swapped         | check train.plan                                         | 4 | train.plan plan
file swapped         | explain mlp.onnx                                         | 4 | mlp.onnx
file swapped         | simulate mlp.onnx                                        | 4 | mlp.onnx
file swapped         | export x.npy --format json                               | 4 | x.npy
file swapped         | diff mlp.plan mlp.onnx                                   | 4 | mlp.onnx
file swapped         | train mlp.onnx {DATA}                                    | 4 | mlp.onnx
file swapped         | train mlp.plan {DATA}                                    | 2 | train
file swapped         | run text.txt                                             | 4 | text.txt
file swapped         | run mlp.plan --input input=mlp.place.yaml                | 4 | mlp.place.yaml
file swapped         | run mlp.plan --input input=labels.npy                    | 1 | labels.npy
file swapped         | train train.plan --data input=labels.npy --data labels=images.npy | 1 | labels images.npy
file swapped         | compile mlp.onnx --machine mlp.place.yaml -o new.plan    | 1 | mlp.place.yaml:1 groups
file swapped         | compile mlp.onnx --machine host:2x1 --place mine.yaml -o new.plan | 1 | mine.yaml:1 device_kinds
file swapped         | schedule --stages costs.yaml --schedule gpipe --microbatches 2 | 1 | costs.yaml:1 ops
file swapped         | partition stages.yaml --machine null:2                   | 1 | stages.yaml:1 stages
off by one           | compile mlp.onnx --machine host:2x1 --degrees data=3 -o new.plan | 5 | degrees 2 3
off by one           | compile mlp.onnx --machine host:2x1 --strategy tensor --degrees model=3 -o new.plan | 5 | degrees 2 3
off by one           | compile mlp.onnx --machine host:2x1 --place device.place.yaml -o new.plan | 1 | device.place.yaml:2 2
off by one           | compile mlp.onnx --machine host:0 -o new.plan            | 2 | host:0
off by one           | compile mlp.onnx {STEP} --microbatches 3 -o new.plan     | 2 | --microbatches 4 3
off by one           | compile mlp.onnx {STEP} --microbatches 0 -o new.plan     | 2 | --microbatches 0
off by one           | compile lstm.onnx --dim sequence=0 -o new.plan           | 2 | --dim sequence=0
off by one           | compile mlp.onnx --batch 0 -o new.plan                   | 2 | --batch 0
off by one           | simulate mlp.plan --machine host:1                       | 5 | --machine 2 1
off by one           | run mlp.plan --input @1=x.npy                            | 2 | @1
off by one           | run mlp.plan --input input=x9.npy                        | 1 | input f32[4,8] f32[4,9] x9.npy
off by one           | run mlp.plan --input input=x5.npy                        | 1 | input f32[4,8] f32[5,8] x5.npy
off by one           | run mlp.plan --repeat 0                                  | 2 | --repeat 0
off by one           | train train.plan --data input=images9.npy --data labels=labels.npy | 1 | input images9.npy
off by one           | train train.plan --data input=images15.npy --data labels=labels.npy | 1 | 15 16
off by one           | train train.plan --data input=images.npy --data labels=labels5.npy | 1 | labels 4
off by one           | train train.plan {DATA} --epochs -1                      | 2 | --epochs -1
off by one           | train train.plan {DATA} --checkpoint c --checkpoint-every 0 | 2 | --checkpoint-every 0
off by one           | zoo gpt --hidden 64 --heads 7 -o new.onnx                | 2 | heads 7 64
off by one           | zoo unet --image-size 17 -o new.onnx                     | 2 | image-size 17
off by one           | zoo mlp --layers 0 -o new.onnx                           | 2 | layers 0
number of a kind     | vocabulary text.txt --size -1 -o new.words               | 2 | --size -1
off by one           | schedule --stages stages.yaml --schedule gpipe --microbatches 0 | 2 | --microbatches 0
left out             | compile mlp.onnx                                         | 2 | -o
left out             | compile lstm.onnx -o new.plan                            | 2 | sequence
left out             | train train.plan --data labels=labels.npy                | 2 | input
left out             | train train.plan --data input=images.npy                 | 2 | labels
left out             | train train.plan {DATA} --resume                         | 2 | --resume --checkpoint
left out             | compile mlp.onnx --optimizer sgd -o new.plan             | 2 | --optimizer --train
left out             | compile mlp.onnx --train --machine host:1x1 --learning-rate 0.1 -o new.plan | 2 | --learning-rate --loss
left out             | compile mlp.onnx --strategy place -o new.plan            | 2 | --place
left out             | calibrate mlp.plan -o new.yaml                           | 2 | mlp.plan
left out             | zoo mlp                                                  | 2 | -o
left out             | diff mlp.plan                                            | 2 | SECOND
one too many         | compile mlp.onnx mlp.onnx -o new.plan                    | 2 | mlp.onnx
one too many         | explain mlp.plan train.plan                              | 2 | train.plan
one too many         | compile open.onnx --batch 6 --dim n=2 -o new.plan        | 2 | --batch --dim n=2
one too many         | compile open.onnx --batches 1,6 --dim n=2 -o new.plan    | 2 | --batches --dim n=2
one too many         | compile open.onnx --batch 6 --batches 1,6 -o new.plan    | 2 | --batch --batches
one too many         | run mlp.plan --machine host:2                            | 2 | --machine plan
one too many         | compile mlp.onnx --machine null:2 --strategy single --search-seconds 1 -o new.plan | 2 | --search-seconds single
wrong ending         | run mlp.plan --output @0=new.csv                         | 2 | --output new.csv
wrong ending         | train train.plan {DATA} --export w.txt                   | 2 | --export w.txt
wrong data           | train train.plan --data input=nan.npy --data labels=labels.npy | 1 | nan.npy nan
wrong data           | run mlp.plan --input input=x.npy --expect output=y.npy   | 6 | output
wrong data           | train train.plan {DATA} --checkpoint x.npy               | 1 | x.npy
number of a kind     | compile mlp.onnx {STEP} --learning-rate 0,1 -o new.plan  | 2 | --learning-rate 0,1
number of a kind     | compile mlp.onnx {STEP} --learning-rate -0.1 -o new.plan | 2 | --learning-rate -0.1
number of a kind     | train train.plan {DATA} --seed 1.5                       | 2 | --seed 1.5
number of a kind     | train train.plan {DATA} --learning-rate fast             | 2 | --learning-rate fast
letter of a value    | train train.plan {DATA} --lr-schedule cosin:100          | 2 | cosin
off by one           | train train.plan {DATA} --lr-schedule cosine:5:5         | 2 | cosine 5
number of a kind     | calibrate mlp.plan=fast -o new.yaml                      | 2 | fast
number of a kind     | run mlp.plan --rtol nan                                  | 2 | --rtol nan
"""


def written(path):
    """The list above; files are those of the folder."""
    found = []
    for line in WRITTEN.strip().splitlines():
        kind, command, code, names = (part.strip() for part in line.split(" | "))
        words = shlex.split(command.replace("{STEP}", STEP).replace("{DATA}", DATA))
        found.append(Mistake(kind, words, int(code), *names.split()))
    return found


def judge(mistake, checks, path):
    before = sorted(os.listdir(path("")))
    for attempt in range(3):
        begin = time.monotonic()
        result = cleave(*mistake.words, timeout=20)
        seconds = time.monotonic() - begin
        # Others use the cores, too.
        if seconds <= LIMIT:
            break
    errors = [line for line in result.errors.splitlines() if line.startswith("error:")]
    problems = []
    if result.code != mistake.code:
        problems.append(f"exit code {result.code}, expected {mistake.code}")
    if seconds > LIMIT:
        problems.append(f"takes {seconds:.1f} s")
    if len(errors) != 1 or "warning:" in result.errors or (result.output and mistake.code != DIFFERENT):
        problems.append(f"{len(errors)} errors and {len(result.output)} bytes of output, expected one error")
    problems += [f"does not name {name}" for name in mistake.names if name not in "".join(errors)]
    after = sorted(os.listdir(path("")))
    if after != before:
        problems.append(f"leaves {sorted(set(after) ^ set(before))}")
        for name in set(after) - set(before):
            os.remove(path(name))
    if problems:
        checks.failures.append((f"{mistake.kind}: cleave {shlex.join(mistake.words)}: " + "; ".join(problems), result))
    else:
        checks.passed += 1
    return mistake.suggests is not None and f"did you mean {mistake.suggests}?" in "".join(errors)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        os.chdir(folder)
        write_files(path)
        checks = Checks()
        mistakes = from_guide(random.Random(31)) + written(path)
        suggested = sum([judge(mistake, checks, path) for mistake in mistakes])
        expected = sum(mistake.suggests is not None for mistake in mistakes)
        kinds = {}
        for mistake in mistakes:
            kinds[mistake.kind] = kinds.get(mistake.kind, 0) + 1
        print(f"{len(mistakes)} mistakes: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
        checks.add(len(mistakes) >= 200, f"{len(mistakes)} mistakes, at least 200", cleave("--version"))
        # One letter less may be nearer to another word.
        checks.add(suggested >= 0.9 * expected, f"{suggested} of {expected} misspelt words are recognized",
                   cleave("--version"))
        os.chdir(REPOSITORY)
    checks.report()


if __name__ == "__main__":
    sys.exit(main())
