# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The peer of tools/gpu-test on a CPU, with small sizes: its models are those that the zoo builds, and it answers what
# it is asked.
#
#   python3 test/tools/gpu_test/torch_peer.py

import contextlib
import io
import json
import math
import os
import subprocess
import sys

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(REPOSITORY, "tools", "bench"))
SCRIPT = os.path.join(REPOSITORY, "tools", "bench", "torch_gpu.py")

# Parameters as the literature counts them: torchvision's ResNet-50, GPT-2 small, and Zaremba 2014 (medium) with two
# biases a gate, as ONNX and cuDNN have.
COUNTS = {"resnet50": 25557032, "gpt": 124439808,
          "lstm": 650 * 10000 + 2 * (4 * 650 * 1300 + 8 * 650) + 651 * 10000}


def peer(*arguments, lines=""):
    done = subprocess.run([sys.executable, "-B", SCRIPT, *arguments], input=lines, capture_output=True, text=True,
                          timeout=250)
    if done.returncode:
        sys.exit(f"torch_gpu.py {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(fine, text):
    print(("passed " if fine else "FAILED ") + text, flush=True)
    if not fine:
        sys.exit(1)


class Failing:
    """A peer that fails without a word, as assertions do."""

    device = "cpu"

    def variants(self):
        return ["eager"]

    def measure(self, work, variant, steps):
        raise AssertionError


def check_errors():
    """An error without text is an answer, and says which question it belongs to."""
    import torch_gpu
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        torch_gpu.answer(Failing(), "train", "eager", 1, question=7)
    wanted = {"work": "train", "variant": "eager", "error": "AssertionError", "question": 7}
    check(json.loads(said.getvalue()) == wanted, f"an error without text: {said.getvalue().strip()}")


def check_layouts():
    """Channels last is another order of the same numbers, in what goes in and in filters."""
    import torch
    import torch_gpu
    images = torch_gpu.Peer("resnet50", "cpu", "tiny")
    check(images.about["layout"] in ("channels first", "channels last"), f"layout: {images.about}")
    images.model.eval()
    logits = []
    for layout in (torch.contiguous_format, torch.channels_last):
        images.lay(layout)
        filters = [p for p in images.model.parameters() if p.dim() == 4]
        check(all(p.is_contiguous(memory_format=layout) for p in [images.inputs, *filters]), f"laid as {layout}")
        logits.append(images.step("inference", "eager", images.inputs, images.labels))
    off = float((logits[0] - logits[1]).abs().max() / logits[0].abs().max())
    check(off < 1e-5, f"logits by layout: off by {off}")


def main():
    try:
        import torch  # noqa: F401
    except ImportError:
        print("skipped: no PyTorch")
        sys.exit(77)
    check_errors()
    check_layouts()
    counts = peer("resnet50", "gpt", "lstm", "--parameters")[0]
    check(counts == COUNTS, f"parameters: {counts}")
    for model in COUNTS:
        answers = peer(model, "--device", "cpu", "--tiny", "--steps", "2")
        check({answer.get("work") for answer in answers} == {"inference", "train"} and
              all(answer.get("ms", 0) > 0 and math.isfinite(answer["result"]) for answer in answers
                  if answer["variant"] == "eager"), f"{model}: {answers}")
    # Small weights decide nothing yet: a language model's first loss is that of a guess among 50 tokens.
    loss = peer("gpt", "--device", "cpu", "--tiny", "--steps", "1")[0]["result"]
    check(abs(loss - math.log(50)) < 0.2, f"gpt: first loss {loss}, a guess has {math.log(50)}")
    served = peer("lstm", "--device", "cpu", "--tiny", "--serve", lines="train eager 5 3\ntrain other 1\nnonsense\n")
    ready = next(i for i, answer in enumerate(served) if answer.get("ready"))
    trained, refused, nonsense = served[ready + 1:]
    check(trained["ms"] > 0 and trained["question"] == 3 and "expected inference or train" in refused["error"] and
          "expected WORK" in nonsense["error"], f"serve: {served[ready + 1:]}")
    rates = peer("rates", "--device", "cpu", "--tiny")[0]
    check(all(rates[key] > 0 for key in ("f32_flops_per_second", "tf32_flops_per_second", "bf16_flops_per_second",
                                         "bytes_per_second")), f"rates: {rates}")
    # In bfloat16 the same loss but for rounding, which there must be: 2^-8 of a number at most, a few times in a row.
    narrow = peer("gpt", "--device", "cpu", "--tiny", "--steps", "1", "--dtype", "bf16", "--only", "train")
    exact = peer("gpt", "--device", "cpu", "--tiny", "--steps", "1", "--tf32", "--only", "train")
    off = abs(narrow[0]["result"] - exact[0]["result"])
    check({answer["work"] for answer in narrow + exact} == {"train"} and 0 < off < 10 * 2**-8 * exact[0]["result"],
          f"gpt in bfloat16: off by {off}")


if __name__ == "__main__":
    main()
