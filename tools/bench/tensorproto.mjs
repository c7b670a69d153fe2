// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads ONNX TensorProto files (.pb) and writes NumPy files (.npy): what the peer's side of a benchmark needs, without
// another package.

import { readFileSync, writeFileSync } from 'node:fs';

// TensorProto.DataType -> ONNX Runtime's name, NumPy's descriptor, the typed array that holds it, bytes an element.
const TYPES = {
  1: ['float32', '<f4', Float32Array, 4],
  2: ['uint8', '|u1', Uint8Array, 1],
  3: ['int8', '|i1', Int8Array, 1],
  4: ['uint16', '<u2', Uint16Array, 2],
  5: ['int16', '<i2', Int16Array, 2],
  6: ['int32', '<i4', Int32Array, 4],
  7: ['int64', '<i8', BigInt64Array, 8],
  9: ['bool', '|b1', Uint8Array, 1],
  10: ['float16', '<f2', Uint16Array, 2],
  11: ['float64', '<f8', Float64Array, 8],
  12: ['uint32', '<u4', Uint32Array, 4],
  13: ['uint64', '<u8', BigUint64Array, 8],
};

function readVarint(bytes, position) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    if (position >= bytes.length || shift > 63n) throw new Error(`expected a varint at byte ${position}`);
    const byte = bytes[position++];
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return [BigInt.asIntN(64, value), position];
  }
}

/// The fields of one protobuf message, in order: [field number, wire type, BigInt or bytes].
function* fields(bytes) {
  let position = 0;
  while (position < bytes.length) {
    let tag, value;
    [tag, position] = readVarint(bytes, position);
    const field = Number(tag >> 3n);
    const wire = Number(tag & 7n);
    if (wire === 0) {
      [value, position] = readVarint(bytes, position);
    } else {
      let length = wire === 1 ? 8 : wire === 5 ? 4 : undefined;
      if (wire === 2) {
        [value, position] = readVarint(bytes, position);
        length = Number(value);
      }
      if (length === undefined) throw new Error(`expected wire type 0, 1, 2 or 5, got ${wire} at byte ${position}`);
      if (length < 0 || length > bytes.length - position)
        throw new Error(`expected ${length} bytes at byte ${position}, got ${bytes.length - position}`);
      value = bytes.subarray(position, position + length);
      position += length;
    }
    yield [field, wire, value];
  }
}

function varints(bytes) {
  const values = [];
  for (let position = 0; position < bytes.length; ) {
    let value;
    [value, position] = readVarint(bytes, position);
    values.push(value);
  }
  return values;
}

/// Reads a TensorProto: {name, type, dims, data} with `data` as ONNX Runtime's Tensor constructor takes it.
export function readTensorProto(path) {
  const dims = [];
  const integers = [];
  const pieces = [];
  let name = '';
  let dataType = 0;
  for (const [field, wire, value] of fields(readFileSync(path))) {
    if (field === 1) dims.push(...(wire === 2 ? varints(value) : [value]));
    else if (field === 2) dataType = Number(value);
    else if (field === 8) name = Buffer.from(value).toString();
    else if (field === 4 || field === 9 || field === 10) pieces.push(value);
    else if (field === 5 || field === 7 || field === 11) integers.push(...(wire === 2 ? varints(value) : [value]));
  }
  const type = TYPES[dataType];
  if (!type) throw new Error(`"${path}": expected a tensor of numbers or bool, got data type ${dataType}`);
  const [typeName, , ArrayType, width] = type;
  const shape = dims.map(Number);
  const count = shape.reduce((product, size) => product * size, 1);
  let data;
  if (integers.length) {
    const isBig = ArrayType === BigInt64Array || ArrayType === BigUint64Array;
    data = ArrayType.from(isBig ? integers : integers.map(Number));
  } else {
    const raw = Buffer.concat(pieces);
    if (raw.length !== count * width)
      throw new Error(`"${path}": expected ${count * width} bytes for [${shape}] of ${typeName}, got ${raw.length}`);
    data = new ArrayType(raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.length));
  }
  if (data.length !== count) throw new Error(`"${path}": expected ${count} elements, got ${data.length}`);
  return { name, type: typeName, dims: shape, data };
}

/// Writes a tensor of ONNX Runtime as a version 1 .npy file.
export function writeNpy(path, tensor) {
  const type = Object.values(TYPES).find((candidate) => candidate[0] === tensor.type);
  if (!type) throw new Error(`"${path}": expected a tensor of numbers or bool, got ${tensor.type}`);
  const shape = tensor.dims.map((size) => `${size},`).join(' ');
  const dictionary = `{'descr': '${type[1]}', 'fortran_order': False, 'shape': (${shape}), }`;
  const header = dictionary.padEnd(Math.ceil((dictionary.length + 11) / 64) * 64 - 11) + '\n';
  const prefix = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 255, header.length >> 8]);
  const { buffer, byteOffset, byteLength } = tensor.data;
  writeFileSync(path, Buffer.concat([prefix, Buffer.from(header), Buffer.from(buffer, byteOffset, byteLength)]));
}
