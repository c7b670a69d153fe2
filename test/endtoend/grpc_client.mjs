// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A client for gRPC that was not written here: @grpc/grpc-js with the protocol's file. Each line of standard input is a
// call, {"tag", "method", "request", "metadata"?, "deadline"?, "cancel"?} with milliseconds; each line of standard output
// its end, {"tag", "response"} or {"tag", "code", "details"}. Bytes are base64.
//
//   node grpc_client.mjs FOLDER PROTO SERVICE ADDRESS [AUTHORITIES]
//
// FOLDER: where npm has installed its packages. AUTHORITIES: a PEM file with certificates, for TLS.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [folder, proto, service, address, authorities] = process.argv.slice(2);
const require = createRequire(folder + '/');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const definition = loader.loadSync(proto, { keepCase: true, longs: Number, enums: String, bytes: String, defaults: true });
const Client = service.split('.').reduce((part, name) => part[name], grpc.loadPackageDefinition(definition));
const credentials = authorities ? grpc.credentials.createSsl(readFileSync(authorities)) : grpc.credentials.createInsecure();
const client = new Client(address, credentials, {
  'grpc.max_send_message_length': -1,
  'grpc.max_receive_message_length': -1,
});

let waiting = 0;
let isOver = false;
function end(answer) {
  process.stdout.write(JSON.stringify(answer) + '\n');
  waiting -= 1;
  if (isOver && waiting === 0) client.close();
}

const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const { tag, method, request, metadata = {}, deadline, cancel } = JSON.parse(line);
  const sent = new grpc.Metadata();
  for (const [name, value] of Object.entries(metadata)) sent.set(name, value);
  const options = deadline === undefined ? {} : { deadline: Date.now() + deadline };
  waiting += 1;
  const call = client[method](request, sent, options, (error, response) =>
    end(error ? { tag, code: error.code, details: error.details } : { tag, response }),
  );
  if (cancel !== undefined) setTimeout(() => call.cancel(), cancel);
});
lines.on('close', () => {
  isOver = true;
  if (waiting === 0) client.close();
});
