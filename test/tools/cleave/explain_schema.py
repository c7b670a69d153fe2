# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The JSON of `cleave explain` and of `cleave compile` is what docs/explain.schema.json says: for a plan with
predictions, and for one without. Every key of the schema occurs, so that it promises nothing that is never there."""

import json
import os
import subprocess
import sys
import tempfile

BIN = os.environ["CLEAVE_BIN"]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
# Keywords that say nothing about a value.
SILENT = {"$schema", "title"}


def check(value, schema, path, seen):
    """Raises ValueError unless `value` is what `schema` allows. Adds the paths of known keys to `seen`."""
    unknown = set(schema) - SILENT - {
        "type", "const", "minimum", "required", "properties", "additionalProperties", "items"}
    if unknown:
        raise ValueError(f"{path}: the schema uses {sorted(unknown)}, which this test does not know")
    if "const" in schema and value != schema["const"]:
        raise ValueError(f"{path}: expects {schema['const']}, got {value!r}")
    if "type" in schema:
        of_type = isinstance(value, TYPES[schema["type"]])
        if not of_type or (isinstance(value, bool) and schema["type"] != "boolean"):
            raise ValueError(f"{path}: expects {schema['type']}, got {value!r}")
    if "minimum" in schema and value < schema["minimum"]:
        raise ValueError(f"{path}: expects at least {schema['minimum']}, got {value}")
    if isinstance(value, dict):
        check_object(value, schema, path, seen)
    if isinstance(value, list) and "items" in schema:
        for element in value:
            check(element, schema["items"], path + "[]", seen)


def check_object(value, schema, path, seen):
    for key in schema.get("required", []):
        if key not in value:
            raise ValueError(f"{path}: expects key {key!r}")
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    for key, element in value.items():
        if key in properties:
            seen.add(f"{path}.{key}")
            check(element, properties[key], f"{path}.{key}", seen)
        elif rest is False:
            raise ValueError(f"{path}: key {key!r} is not in the schema")
        elif rest is not True:
            check(element, rest, f"{path}.{key}", seen)


def keys_of(schema, path):
    for key, inner in schema.get("properties", {}).items():
        yield f"{path}.{key}"
        yield from keys_of(inner, f"{path}.{key}")
    if "items" in schema:
        yield from keys_of(schema["items"], path + "[]")


def run(*command):
    subprocess.run([os.path.join(BIN, command[0]), *command[1:]], check=True)


def documents(folder):
    """JSON of plans that together use every key."""
    predicted, split, stages = (os.path.join(folder, name) for name in ("predicted.plan", "split.plan", "two.plan"))
    model, place = os.path.join(folder, "mlp.onnx"), os.path.join(folder, "place.yaml")
    run("write-predicted-plan", predicted)
    run("cleave", "zoo", "mlp", "--layers", "2", "--inputs", "8", "--hidden", "16", "--classes", "4", "--batch", "8",
        "-o", model)
    with open(place, "w") as file:
        file.write("groups: { a: [fc1], b: [fc2] }\ndevices: { a: 0, b: 1 }\n")
    report = os.path.join(folder, "compile.json")
    run("cleave", "compile", model, "--machine", "host:2x1", "--strategy", "tensor", "-o", split, "--json", report)
    run("cleave", "compile", model, "--machine", "host:3x1", "--place", place, "-o", stages)
    machine, calibrated = os.path.join(folder, "twice.yaml"), os.path.join(folder, "calibrated.plan")
    run("cleave", "calibrate", split + "=1", "-o", machine)
    run("cleave", "compile", model, "--machine", machine, "-o", calibrated)
    priced, cheap = os.path.join(folder, "priced.yaml"), os.path.join(folder, "cheap.plan")
    with open(priced, "w") as file:
        file.write("device_kinds: { cpu: { driver: cpu, price: 1 USD/h } }\nhosts: [ { devices: [ { kind: cpu, count: 2 } ] } ]\n")
    run("cleave", "compile", model, "--machine", priced, "--objective", "cost", "-o", cheap)
    attention, ring = os.path.join(folder, "gpt.onnx"), os.path.join(folder, "ring.plan")
    run("cleave", "zoo", "gpt", "--layers", "1", "--hidden", "64", "--heads", "1", "--sequence", "1024", "--vocabulary", "8",
        "-o", attention)
    run("cleave", "compile", attention, "--machine", "null:2", "--degrees", "sequence=2", "--keys", "ring", "-o", ring)
    plans = (predicted, split, stages, calibrated, cheap, ring)
    for plan in plans:
        run("cleave", "explain", plan, "--format", "json", "-o", plan + ".json")
    return [report] + [plan + ".json" for plan in plans]


def main():
    with open(os.path.join(ROOT, "docs", "explain.schema.json")) as file:
        schema = json.load(file)
    seen = set()
    with tempfile.TemporaryDirectory() as folder:
        for name in documents(folder):
            with open(name) as file:
                check(json.load(file), schema, os.path.basename(name).split(".")[0], seen)
    missing = {key.split(".", 1)[1] for key in keys_of(schema, "any")} - {key.split(".", 1)[1] for key in seen}
    if missing:
        raise ValueError(f"no plan has {sorted(missing)}")
    # The check itself notices what is wrong.
    for wrong in ({"version": 2}, {"version": 1, "surprise": 0}, {"version": 1, "gap": -2}):
        try:
            check(wrong, {**schema, "required": ["version"]}, "wrong", set())
        except ValueError:
            continue
        raise ValueError(f"{wrong} is not noticed")


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        sys.exit(f"explain_schema: {error}")
