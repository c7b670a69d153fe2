// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The thinnest server around ONNX Runtime: the peer of tools/bench/serving.py. It answers what `cleave load` asks: a
// model's metadata, and inference by the binary tensor extension, a request a run.
//
//   node tools/bench/onnxruntime_server.mjs MODEL PORT THREADS RUNS
//
// THREADS: inside an operator; RUNS: at a time. onnxruntime-node is looked for in $CLEAVE_NODE, then in build/node.

import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const [model, port, threads, runs] = process.argv.slice(2);
const repository = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
const folder = [process.env.CLEAVE_NODE, join(repository, 'build/node')].find(
  (candidate) => candidate && existsSync(join(candidate, 'node_modules/onnxruntime-node')),
);
const ort = createRequire(join(folder, 'node_modules/'))('onnxruntime-node');

const datatypes = {
  float32: ['FP32', Float32Array], float64: ['FP64', Float64Array], int64: ['INT64', BigInt64Array],
  int32: ['INT32', Int32Array], bool: ['BOOL', Uint8Array],
};
const session = await ort.InferenceSession.create(model, {
  executionProviders: ['cpu'],
  intraOpNumThreads: Number(threads),
  interOpNumThreads: 1,
  graphOptimizationLevel: 'all',
  logSeverityLevel: 3,
});
const describe = (list) => list.map(({ name, type, shape }) => ({ name, datatype: datatypes[type][0], shape }));
const metadata = JSON.stringify({
  name: 'model', versions: ['1'], platform: 'onnx_onnxv1',
  inputs: describe(session.inputMetadata), outputs: describe(session.outputMetadata),
});

/// The request's tensors: the JSON's, over the bytes behind it.
function read(request, body) {
  const length = Number(request.headers['inference-header-content-length']);
  let at = length;
  const feeds = {};
  for (const input of JSON.parse(body.subarray(0, length)).inputs) {
    const type = session.inputMetadata.find(({ name }) => name === input.name).type;
    const size = input.parameters.binary_data_size;
    const bytes = new Uint8Array(size);
    bytes.set(body.subarray(at, (at += size)));
    feeds[input.name] = new ort.Tensor(type, new datatypes[type][1](bytes.buffer), input.shape);
  }
  return feeds;
}

function answer(response, results) {
  const parts = [];
  const outputs = Object.entries(results).map(([name, { type, dims, data }]) => {
    parts.push(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    return { name, datatype: datatypes[type][0], shape: dims, parameters: { binary_data_size: data.byteLength } };
  });
  const head = Buffer.from(JSON.stringify({ model_name: 'model', model_version: '1', outputs }));
  const body = Buffer.concat([head, ...parts]);
  response.writeHead(200, {
    'Content-Type': 'application/octet-stream',
    'Content-Length': body.length,
    'Inference-Header-Content-Length': head.length,
  });
  response.end(body);
}

const waiting = [];
let running = 0;
function runNext() {
  if (running === Number(runs) || waiting.length === 0) return;
  const { feeds, response } = waiting.shift();
  running += 1;
  session.run(feeds).then((results) => {
    running -= 1;
    runNext();
    answer(response, results);
  });
}

const server = createServer((request, response) => {
  if (request.method === 'GET') {
    response.writeHead(200, { 'Content-Type': 'application/json' });
    response.end(metadata);
    return;
  }
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    waiting.push({ feeds: read(request, Buffer.concat(chunks)), response });
    runNext();
  });
});
server.keepAliveTimeout = 600000;
server.listen(Number(port), '127.0.0.1', () => process.stdout.write(`serving at http://127.0.0.1:${server.address().port}\n`));
