// ONNX models as bytes: the few fields of protobuf that a chain of elementwise nodes needs (onnx.proto).
const varint = (value) => {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
  return Buffer.from([...bytes, value]);
};
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const message = (field, ...parts) => {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part)));
  return Buffer.concat([varint(field * 8 + 2), varint(body.length), body]);
};
const float = 1;
const tensorType = (field, name, lengths) => message(field, message(1, name), message(2, message(1,
  number(1, float), message(2, ...lengths.map((length) => message(1, number(1, length)))))));

/// x: f32[4], through `count` nodes; each reads the one before. Names may be any text.
export const chainOf = ({ count, nameOf, opOf = (i) => ["Tanh", "Neg", "Exp", "Sigmoid"][i % 4], resultOf = (i) => `v${i}`, input = "x", graph = "chain" }) => {
  const nodes = [];
  for (let i = 0; count > i; ++i) {
    nodes.push(message(1, message(1, i === 0 ? input : resultOf(i - 1)), message(2, resultOf(i)), message(3, nameOf(i)), message(4, opOf(i))));
  }
  const body = message(7, ...nodes, message(2, graph), tensorType(11, input, [4]), tensorType(12, resultOf(count - 1), [4]));
  return Buffer.concat([number(1, 8), body, message(8, message(1, ""), number(2, 17))]);
};
