// What the program writes, made by the program itself.
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";

import { folder } from "./browser.mjs";
import { chainOf } from "./onnx.mjs";

const inputs = path.join(folder, "inputs");
fs.mkdirSync(inputs, { recursive: true });

export const diptych = async (...words) => {
  const { stdout } = await promisify(execFile)(process.env.DIPTYCH_PROGRAM, words, { cwd: inputs, maxBuffer: 1 << 28 });
  return stdout;
};
/// The only folder that the program made in `out`.
const madeIn = (out) => path.join(inputs, out, fs.readdirSync(path.join(inputs, out)).find((name) => name !== "latest"));

export const place = (name) => path.join(inputs, name);
export const readRun = (run) => JSON.parse(fs.readFileSync(path.join(run, "run.json"), "utf8"));

/// Its folder.
export const measure = async (out, ...words) => {
  await diptych(...words, "--out", out);
  return madeIn(out);
};
/// A run as a document; renders its pages and returns the folder.
export const render = async (out, run) => {
  fs.mkdirSync(place(out), { recursive: true });
  fs.writeFileSync(path.join(place(out), "run.json"), JSON.stringify(run));
  await diptych("report", out);
  return place(out);
};
/// The folder of the page of two runs.
export const compare = async (out, base, head) => {
  await diptych("report", base, head, "--out", out);
  return place(out);
};
/// The page of all runs below a folder.
export const history = async (out, folderOfRuns) => {
  await diptych("report", folderOfRuns, "--out", out);
  return path.join(place(out), "index.html");
};
export const explore = async (out, workload, ...flags) =>
  path.join(await measure(out, "graph", workload, "--format", "html", ...flags), "graph.html");

export const writeModel = (name, model) => {
  fs.writeFileSync(place(name), model);
  return name;
};
export const smallModel = () => writeModel("small.onnx", chainOf({ count: 12, nameOf: (i) => `/blocks.${Math.floor(i / 4)}/op${i % 4}` }));
/// 5,000 nodes in 50 modules: five times a thousand without repetition.
export const largeModel = () => writeModel("large.onnx", chainOf({
  count: 5000,
  nameOf: (i) => `/stage.${Math.floor(i / 1000)}/block.${Math.floor(i / 100) % 10}/op${i % 100}`,
  opOf: (i) => ["Tanh", "Exp", "Neg", "Abs", "Sigmoid"][((i % 1000) ** 2 + Math.floor((i % 1000) / 7)) % 5],
}));
