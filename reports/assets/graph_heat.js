"use strict";
// What ops take, in the graph explorer (graph.js): measured seconds by arm, what the machine's limit explains of them, and
// bytes. Times and limits are known by source op; where several nodes of a stage stand for one, each has an equal part.

const { arms, ops: timesOfOps } = data.times;
const timeText = (seconds) => {
  const [factor, unit] = [[1, "s"], [1e3, "ms"], [1e6, "µs"], [1e9, "ns"]].find(([scale]) => Math.abs(seconds) * scale >= 0.9995) ?? [1e9, "ns"];
  return `${(seconds * factor).toPrecision(3)} ${unit}`;
};
const bytesText = (bytes) => {
  const [size, unit] = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]].find(([scale]) => bytes >= scale) ?? [1, "B"];
  return `${size === 1 ? bytes : (bytes / size).toPrecision(3)} ${unit}`;
};

const insideOf = (walk, index) => (isFused(index) ? [...walk.places.keys()].filter((other) => walk.places.get(other).kernel === index) : []);
const secondsOf = (walk, indices, arm) => {
  const chosen = new Set(indices.filter((index) => !isFused(index)));
  let seconds = null;
  let limit = null;  // the least seconds that the machine could need
  let isEstimate = false;
  for (const source of new Set([...chosen].flatMap((index) => nodes[index].sources))) {
    const time = timesOfOps[source]?.[arm];
    if (!time) continue;
    const holders = (walk.bySource.get(source) ?? []).filter((index) => !isFused(index));
    const held = holders.filter((index) => chosen.has(index)).length;
    const part = held / holders.length;
    seconds = (seconds ?? 0) + time[0] * part;
    if (time[2] !== undefined) limit = (limit ?? 0) + time[2] * part;
    isEstimate ||= time[1] === 1 || holders.length > held;
  }
  return seconds === null ? null : { seconds, limit: seconds > 0 ? limit : null, isEstimate };
};
// Of kernels; what a kernel's inside moves stays in the cache, and counts only where nothing else is asked for.
const bytesOf = (walk, indices) => {
  const kernels = indices.filter((index) => (walk.places.get(index)?.kernel ?? null) === null);
  return (kernels.length > 0 ? kernels : indices).reduce((sum, index) => sum + nodes[index].bytes, 0);
};
const shareText = (share) => `${share >= 0.0995 ? Math.round(100 * share) : (100 * share).toPrecision(2)} %`;

// As the ladder's column: above 100 % where data come from a nearer cache than the one that would hold all of them.
const limitText = ({ seconds, limit, isEstimate }) => `${isEstimate ? "~" : ""}${shareText(limit / seconds)} of limit`;

const costEntries = (walk, indices) => [
  ...arms.map(({ name, seconds: whole }, arm) => {
    const time = secondsOf(walk, indices, arm);
    return [name, time === null ? "" : `${time.isEstimate ? "~" : ""}${timeText(time.seconds)}, ${shareText(time.seconds / whole)} of a call${time.limit === null ? "" : `, ${limitText(time)}`}`];
  }),
  ["moves", bytesOf(walk, indices) === 0 ? "" : bytesText(bytesOf(walk, indices))],
];

// What a call takes that no box stands for.
const restItems = () => data.times.rest.map(([name, seconds]) => `${name}: ${arms.flatMap((arm, index) => (seconds[index] === null ? [] : [`${arm.name} ${timeText(seconds[index])}`])).join(", ")}`);
// The arm that runs what a pane shows.
const armOf = (pane) => (pane.stage === eager ? 0 : arms.length - 1);
function fillRest(pane) {
  pane.rest.hidden = arms.length === 0 || pane.trail.length > 1;
  if (pane.rest.hidden) return;
  const arm = armOf(pane);
  const rest = data.times.rest.reduce((sum, [, seconds]) => sum + (seconds[arm] ?? 0), 0);
  pane.rest.textContent = `A call in ${arms[arm].name} takes ${timeText(arms[arm].seconds)}, ${timeText(rest)} of it in no box`;
}

// --- Heat ----------------------------------------------------------------------------------------------------------

const fillHeats = () => {
  const lastArm = arms.length - 1;
  const choices = [["", "none"], ...(lastArm > 0 ? [["time", "time"]] : []), ...arms.map(({ name }, arm) => [`arm ${arm}`, `time in ${name}`]),
    ...(lastArm > 0 ? [["saved", `what ${arms[lastArm].name} saves`]] : []), ...(arms.length > 0 ? [["limit", "share of the limit"]] : []),
    ["bytes", "bytes moved"]];
  byId("heat").replaceChildren(...choices.map(([value, text]) => element("option", { value, selected: value === "time" }, text)));
};
const wholeBytes = new Map();  // by walk
const bytesOfStage = (walk) => {
  if (!wholeBytes.has(walk)) wholeBytes.set(walk, bytesOf(walk, [...walk.places.keys()]));
  return wholeBytes.get(walk);
};
// A part of the whole, and its text; null: nothing is known.
const heatOf = (pane, indices, heat) => {
  const walk = walkOf(pane.stage);
  if (heat === "bytes") {
    const bytes = bytesOf(walk, indices);
    return bytes === 0 ? null : { share: bytes / bytesOfStage(walk), text: bytesText(bytes) };
  }
  if (heat === "saved") return savingOf(secondsOf(walk, indices, 0), secondsOf(walk, indices, arms.length - 1));
  // Each pane's own arm, both on one scale.
  const isOwn = !heat.startsWith("arm ");
  const arm = isOwn ? armOf(pane) : Number(heat.split(" ")[1]);
  const whole = isOwn ? Math.max(...arms.map(({ seconds }) => seconds)) : arms[arm].seconds;
  const time = secondsOf(walk, indices, arm);
  if (time === null || (heat === "limit" && time.limit === null)) return null;
  // What is lost above the limit is hot, not what is slow and can't be faster.
  if (heat === "limit") return { share: Math.max(0, time.seconds - time.limit) / whole, text: limitText(time) };
  return { share: time.seconds / whole, text: `${time.isEstimate ? "~" : ""}${timeText(time.seconds)}` };
};
const savingOf = (base, other) => {
  if (base === null && other === null) return null;
  const saved = (base?.seconds ?? 0) - (other?.seconds ?? 0);
  const sign = saved >= 0 ? "−" : "+";
  return { share: saved / arms[0].seconds, text: `${base?.isEstimate || other?.isEstimate ? "~" : ""}${sign}${timeText(Math.abs(saved))}`, isSaving: true };
};
const steps = [0.01, 0.03, 0.1, 0.3];
const heatClass = ({ share, isSaving }) => {
  const step = steps.filter((least) => Math.abs(share) >= least).length;
  return `${isSaving && share >= 0 ? "cool" : "heat"}-${step}`;
};
const addHeat = (pane, group, box) => {
  const heat = byId("heat").value;
  if (heat === "") return;
  const found = heatOf(pane, nodesOfBox(box), heat);
  group.classList.add(found === null ? "heat-0" : heatClass(found));
  if (found === null) return;
  // On the lower edge, where neither the labels nor a difference's badge are.
  const frame = group.querySelector(".dg-box");
  const at = (name) => Number(frame.getAttribute(name));
  const width = 7 * found.text.length + 8;
  const [right, y] = [at("x") + at("width") + 10, at("y") + at("height")];
  const text = svgElement("text", { x: right - width / 2, y: y + 4, "text-anchor": "middle", class: "badge-text" });
  text.textContent = found.text;
  placeBadge(group, text, right, y - 8, width, "cost");
  group.setAttribute("aria-label", `${group.getAttribute("aria-label")}; ${found.text}`);
};
