// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times one model with ONNX Runtime on CPU: the peer that `cleave bench --against onnxruntime` measures against.
//
//   node tools/bench/onnxruntime.mjs '{"model": "model.onnx", "inputs": {"x": "input_0.pb"}, "threads": 1, "repeat": 20}'
//
// The request, as the only argument or on standard input:
//   model       path of the ONNX file
//   inputs      optional: {input name or "@position": TensorProto file}; other inputs are generated, in [-1, 1]
//   dims        optional: {name of a symbolic dimension: size} for inputs that are generated; otherwise 1
//   threads     optional: threads inside an operator (1); operators always run one after the other
//   repeat      optional: timed runs (20)
//   warmup      optional: runs before them (3)
//   output_dir  optional: folder that receives <position>.npy for each output of the last run
//   optimized   optional: path that receives the model as the optimizer leaves it, with what it does on any machine
// The answer, one JSON object on standard output: version, median_ms, p10_ms, p90_ms, runs, latencies_ms.
// onnxruntime-node is looked for in $CLEAVE_NODE, then in build/node, where tools/setup puts it. Exit codes: 0 done,
// 1 an error (also: the package is missing), 2 usage.

import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readTensorProto, writeNpy } from './tensorproto.mjs';

function fail(message, code) {
  process.stderr.write(`error: ${message}\n`);
  process.exit(code);
}

function loadOnnxRuntime() {
  const repository = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
  const folders = [process.env.CLEAVE_NODE, join(repository, 'build/node')].filter(Boolean);
  const folder = folders.find((candidate) => existsSync(join(candidate, 'node_modules/onnxruntime-node')));
  if (!folder)
    fail(`expected the npm package onnxruntime-node in ${folders.join(' or ')}, found none; run tools/setup`, 1);
  const require = createRequire(join(folder, 'node_modules/'));
  return { ort: require('onnxruntime-node'), version: require('onnxruntime-node/package.json').version };
}

function readRequest() {
  const text = process.argv[2] ?? readFileSync(0, 'utf8');
  try {
    const request = JSON.parse(text);
    if (typeof request.model !== 'string') throw new Error('expected "model" to be a path');
    return { inputs: {}, dims: {}, threads: 1, repeat: 20, warmup: 3, ...request };
  } catch (error) {
    return fail(`request: ${error.message}; see the head of this file for its keys`, 2);
  }
}

/// A tensor of numbers that look random and are the same in every run: a linear congruential generator.
function generate(ort, type, dims, seed) {
  const count = dims.reduce((product, size) => product * size, 1);
  const arrays = {
    float32: Float32Array, float64: Float64Array, bool: Uint8Array, int8: Int8Array, int16: Int16Array,
    int32: Int32Array, int64: BigInt64Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array,
    uint64: BigUint64Array,
  };
  if (!arrays[type]) throw new Error(`expected a file for an input of type ${type}`);
  const data = new arrays[type](count);
  let state = seed;
  if (type.startsWith('float')) {
    for (let i = 0; i < count; ++i) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      data[i] = state / 2 ** 31 - 1;
    }
  }
  return new ort.Tensor(type, data, dims);
}

function makeFeeds(ort, session, files, dims) {
  const feeds = {};
  session.inputMetadata.forEach(({ name, type, shape }, position) => {
    const file = files[name] ?? files[`@${position}`];
    if (file) {
      const tensor = readTensorProto(file);
      feeds[name] = new ort.Tensor(tensor.type, tensor.data, tensor.dims);
    } else {
      const sizes = shape.map((size) => (typeof size === 'number' && size >= 0 ? size : dims[size] ?? 1));
      feeds[name] = generate(ort, type, sizes, position + 1);
    }
  });
  return feeds;
}

function quantile(sorted, fraction) {
  const position = fraction * (sorted.length - 1);
  const below = Math.floor(position);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (position - below) * (sorted[above] - sorted[below]);
}

async function main() {
  const request = readRequest();
  const { ort, version } = loadOnnxRuntime();
  const session = await ort.InferenceSession.create(request.model, {
    executionProviders: ['cpu'],
    intraOpNumThreads: request.threads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: request.optimized ? 'extended' : 'all',
    ...(request.optimized && { optimizedModelFilePath: request.optimized }),
    logSeverityLevel: 3,
  });
  const feeds = makeFeeds(ort, session, request.inputs, request.dims);
  for (let i = 0; i < request.warmup; ++i) await session.run(feeds);
  const latencies = [];
  let outputs;
  for (let i = 0; i < Math.max(1, request.repeat); ++i) {
    const begin = process.hrtime.bigint();
    outputs = await session.run(feeds);
    latencies.push(Number(process.hrtime.bigint() - begin) / 1e6);
  }
  if (request.output_dir) {
    mkdirSync(request.output_dir, { recursive: true });
    session.outputNames.forEach((name, i) => writeNpy(join(request.output_dir, `${i}.npy`), outputs[name]));
  }
  const sorted = [...latencies].sort((a, b) => a - b);
  const answer = {
    version,
    median_ms: quantile(sorted, 0.5),
    p10_ms: quantile(sorted, 0.1),
    p90_ms: quantile(sorted, 0.9),
    runs: latencies.length,
    latencies_ms: latencies,
  };
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}

main().catch((error) => fail(error.message, 1));
