// ONNX Runtime as an arm (docs/arms.md): node ort_arm.mjs
//
// Needs onnxruntime-node: npm install --ignore-scripts onnxruntime-node, in this folder or above it, or where
// DIPTYCH_NODE_MODULES points.

import { createRequire } from 'node:module';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const types = {
  f32: ['float32', Float32Array], f64: ['float64', Float64Array], i32: ['int32', Int32Array],
  i64: ['int64', BigInt64Array], u8: ['uint8', Uint8Array], bool: ['bool', Uint8Array],
};
const short = Object.fromEntries(Object.entries(types).map(([name, [long]]) => [long, name]));

let ort = null;
let broken = '';
for (const root of [process.env.DIPTYCH_NODE_MODULES, import.meta.url, process.cwd() + '/'].filter(Boolean)) {
  try {
    ort = createRequire(root.startsWith('file:') ? root : root.replace(/\/?$/, '/'))('onnxruntime-node');
    break;
  } catch (error) {
    // An installation that can't be loaded says more than places where there is none.
    if (!String(error.message).includes("Cannot find module 'onnxruntime-node'")) {
      broken ||= `onnxruntime-node can't be loaded from ${root}: ${error.message}`;
    }
  }
}

let session = null;
let feeds = {};
let results;  // of the first run; later runs write into them instead of allocating, as with I/O binding

const now = () => process.hrtime.bigint();

async function overhead() {
  let least = Infinity;
  for (let i = 0; i < 100; ++i) {
    const start = now();
    await Promise.resolve();
    least = Math.min(least, Number(now() - start));
  }
  return least;
}

async function answer(request) {
  if (ort === null) {
    return { error: broken || 'onnxruntime-node is not installed: npm install --ignore-scripts onnxruntime-node' };
  }
  switch (request.do) {
    case 'describe':
      return {
        protocol: 1, framework: `ONNX Runtime ${ort.env.versions?.node ?? ''} (Node.js ${process.version})`, threads: Number(process.env.OMP_NUM_THREADS ?? 1),
        overhead_nanoseconds: await overhead(),
      };
    case 'load': {
      const inputs = request.inputs.map((described) => {
        const [type, List] = types[described.dtype];
        const bytes = readFileSync(described.file);
        const copy = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
        return new ort.Tensor(type, new List(copy), described.shape);
      });
      const start = now();
      session = await ort.InferenceSession.create(request.model,
        { intraOpNumThreads: request.threads, interOpNumThreads: 1, graphOptimizationLevel: 'all' });
      const seconds = Number(now() - start) * 1e-9;  // includes the optimiser; there is no separate compilation
      results = undefined;
      feeds = Object.fromEntries(inputs.map((tensor, i) => [session.inputNames[i], tensor]));
      return { load_seconds: seconds };
    }
    case 'check': {
      results = await session.run(feeds, results);
      const outputs = session.outputNames.map((name, i) => {
        const tensor = results[name];
        const file = `output_${i}.bin`;
        writeFileSync(join(request.folder, file),
          Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength));
        return { dtype: short[tensor.type], shape: [...tensor.dims], file };
      });
      return { outputs };
    }
    case 'warm_up':
    case 'run': {
      const start = now();
      for (let i = 0; i < request.count; ++i) {
        await session.run(feeds, results);
      }
      return { nanoseconds: Number(now() - start) };
    }
    case 'memory':
      return { peak_bytes: process.resourceUsage().maxRSS * 1024 };
    default:
      return { error: `unknown request ${request.do}` };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  if (request.do === 'exit') {
    break;
  }
  let reply;
  try {
    reply = await answer(request);
  } catch (error) {
    reply = { error: String(error) };
  }
  process.stdout.write(JSON.stringify(reply) + '\n');
}
process.exit(0);
