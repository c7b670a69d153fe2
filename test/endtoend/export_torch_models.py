# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Exports models of torchvision to ONNX, with PyTorch's own input and output beside each: what
# torch_models.py compares Cleave with. Weights are random with a seed: nothing is downloaded.
#
#   python3 test/endtoend/export_torch_models.py FOLDER [NAME...]
#
# Writes FOLDER/NAME/{model.onnx,input.npy,output.npy}; a model whose files are there already is left alone.

import os
import sys

import numpy
import torch
import torchvision

# Model -> the opset it is exported in: the range that users meet.
OPSETS = {"mobilenet_v2": 13, "googlenet": 13, "convnext_tiny": 15, "vit_b_16": 17}
# Models of other images than 224 x 224, and those that have a second head in training.
SIZES = {"inception_v3": 299}
TWO_HEADED = ("googlenet", "inception_v3")


def build(name):
    """The model in evaluation mode, with random weights whose every part matters to the output."""
    torch.manual_seed(20)
    arguments = {"aux_logits": False, "init_weights": True} if name in TWO_HEADED else {}
    model = getattr(torchvision.models, name)(weights=None, **arguments)
    for parameter_name, parameter in model.named_parameters():
        # ConvNeXt scales each block by 1e-6 and ViT's head is zero at first: a wrong block would go unseen.
        if parameter_name.endswith("layer_scale"):
            torch.nn.init.uniform_(parameter, 0.2, 0.5)
        elif parameter_name.startswith("heads."):
            torch.nn.init.normal_(parameter, std=0.05)
    # Running statistics that fit the data: activations stay in range and batch normalization is no identity.
    if any(isinstance(module, torch.nn.BatchNorm2d) for module in model.modules()):
        model.train()
        with torch.no_grad():
            for _ in range(3):
                model(torch.randn(4, 3, *[SIZES.get(name, 224)] * 2))
    return model.eval()


def export(name, folder):
    model = build(name)
    sample = torch.randn(1, 3, *[SIZES.get(name, 224)] * 2)
    with torch.no_grad():
        output = model(sample)
    os.makedirs(folder, exist_ok=True)
    numpy.save(os.path.join(folder, "input.npy"), sample.numpy())
    numpy.save(os.path.join(folder, "output.npy"), output.numpy())
    # With gradients on, attention is exported as the operators it consists of instead of one fused call.
    partial = os.path.join(folder, "partial.onnx")
    torch.onnx.export(model, sample, partial, opset_version=OPSETS.get(name, 17), input_names=["image"],
                      output_names=["scores"])
    os.rename(partial, os.path.join(folder, "model.onnx"))


def main():
    torch.set_num_threads(2)
    folder, names = sys.argv[1], sys.argv[2:] or list(OPSETS)
    for name in names:
        target = os.path.join(folder, name)
        if not os.path.exists(os.path.join(target, "model.onnx")):
            print(f"exporting {name} to {target}", file=sys.stderr)
            export(name, target)


if __name__ == "__main__":
    main()
