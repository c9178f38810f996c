"use strict";
// The side panel, the search and the keyboard of the graph explorer (graph.js).

const entries = (pairs) => element("dl", {}, ...pairs.filter(([, value]) => value !== "" && value !== null).flatMap(
  ([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
const mostListed = 60;
const mostOpen = 12;
const listed = (title, items) => {
  if (items.length === 0) return [];
  const list = element("ul", {}, ...items.slice(0, mostListed).map((item) => element("li", {}, item)),
    ...(items.length > mostListed ? [element("li", {}, element("small", {}, `and ${items.length - mostListed} more`))] : []));
  if (mostOpen >= items.length) return [element("h3", {}, title), list];
  return [element("details", {}, element("summary", {}, `${title} (${items.length})`), list)];
};
const nameOf = (index) => `${nodes[index].scope ? `${nodes[index].scope}: ` : ""}${nodes[index].op}`;
const goToValues = (pane, values, text) => element("button", { type: "button", onclick: () => { select(pane, values); byId("panel").focus(); } }, text);
const goTo = (pane, index) => element("button", { type: "button", onclick: () => show(pane, index) }, nameOf(index));

const readItem = (pane, walk, value, kernel) => {
  if (typeof value === "string") return `constant ${value}`;
  const maker = makerOf(walk, value, kernel);
  if (maker !== undefined) return goTo(pane, maker);
  return value in walk.values ? goToValues(pane, [value], valueOf(walk, value).text) : "an argument of the region";
};

const refusalsByProducer = new Map();
for (const refusal of data.refusals) {
  const [producer] = refusal;
  if (!refusalsByProducer.has(producer)) refusalsByProducer.set(producer, []);
  refusalsByProducer.get(producer).push(refusal);
}
const refusalsOf = (node) => data.refusals.filter(([producer, consumer]) => node.makes.includes(producer) || node.makes.includes(consumer))
  .map(([, , what, why]) => element("span", {}, string(what), element("br"), element("small", {}, string(why))));

const counterpartItems = (pane, sources) => {
  if (!byId("two").checked) return [];
  const other = otherOf(pane);
  return counterparts(walkOf(other.stage), sources).map((index) => goTo(other, index));
};

const nodePanel = (pane, index) => {
  const walk = walkOf(pane.stage);
  const node = nodes[index];
  const kernel = walk.places.get(index)?.kernel ?? null;
  const program = walkOf(captured);
  const mark = comparing() ? markOf(index, walk, walkOf(otherOf(pane).stage), pane === state.panes[0]) : "";
  const users = [...walk.places.keys()].filter((other) => nodes[other].reads.some((value) => typeof value === "number" && makerOf(walk, value, walk.places.get(other).kernel) === index));
  const sources = node.sources.slice(0, 40).map((source) => {
    const original = (program.bySource.get(source) ?? [])[0];
    return `${source}${original === undefined ? "" : ` ${nodes[original].op}`}`;
  });
  return [
    element("h2", {}, node.op),
    ...(mark ? [element("p", { class: `mark-${mark}` }, `${marks[mark][0]} ${mark}: ${marks[mark][1]}`)] : []),
    entries([["makes", node.types], ["attributes", node.attributes], ["scope", node.scope || "outside of modules"], ["lane", node.lane],
      ["line", node.where || "not known"], ["source ops", sources.join(", ") + (node.sources.length > 40 ? ` and ${node.sources.length - 40} more` : "")],
      ["value", node.makes.filter((value) => value >= 0).map((value) => `%${value}`).join(", ")],
      ["kernel", kernel === null ? "" : goTo(pane, kernel)], ...costEntries(walk, [index, ...insideOf(walk, index)])]),
    ...listed("Reads", node.reads.map((value) => readItem(pane, walk, value, kernel))),
    ...listed("Read by", users.map((other) => goTo(pane, other))),
    ...listed("Not fused, and why", refusalsOf(node)),
    ...listed("In the other pane", counterpartItems(pane, node.sources)),
  ];
};

const parametersOf = (walk, indices) => [...new Set(indices.flatMap((index) => nodes[index].reads.filter((value) => typeof value === "number" && value in walk.values)))];

const valuesPanel = (pane, values) => {
  const walk = walkOf(pane.stage);
  const known = values.filter((value) => value in walk.values).map((value) => [value, valueOf(walk, value)]);
  const users = [...walk.places.keys()].filter((index) => nodes[index].reads.some((read) => values.includes(read)));
  const bytes = known.reduce((sum, [, value]) => sum + value.bytes, 0);
  const readBy = listed("Read by", users.map((index) => goTo(pane, index)));
  if (known.length !== 1) {
    return [element("h2", {}, count(known.length, "parameter")), entries([["bytes", bytesText(bytes)]]),
      ...listed("Parameters, states and constants", known.map(([value, { text }]) => goToValues(pane, [value], text))), ...readBy];
  }
  const [[number, { kind, name, type }]] = known;
  return [element("h2", {}, name || `constant ${type}`), entries([["kind", kind], ["type", type], ["bytes", bytesText(bytes)], ["value", `%${number}`]]), ...readBy];
};

const groupPanel = (pane, title, indices) => {
  const walk = walkOf(pane.stage);
  const ops = new Map();
  for (const index of indices) if (!isFused(index)) ops.set(nodes[index].op, (ops.get(nodes[index].op) ?? 0) + 1);
  const kernels = indices.filter(isFused);
  const most = [...ops].sort((a, b) => b[1] - a[1]);
  const refusals = [...new Set(indices.flatMap((index) => nodes[index].makes.flatMap((value) => refusalsByProducer.get(value) ?? [])))];
  const reasons = new Map();
  for (const [, , what, why] of refusals) {
    const text = `${string(what)}: ${string(why).replace(/ by \d+ ns$/, "")}`;
    reasons.set(text, (reasons.get(text) ?? 0) + 1);
  }
  return [
    element("h2", {}, title),
    entries([["nodes", String(indices.length - kernels.length)], ["kernels", kernels.length === 0 ? "" : `${kernels.length} fused`], ...costEntries(walk, indices)]),
    ...listed("Ops", most.map(([op, number]) => `${number} × ${op}`)),
    ...listed("Parameters, states, arguments and constants", parametersOf(walk, indices).map((value) => goToValues(pane, [value], valueOf(walk, value).text))),
    ...listed("Fused kernels", kernels.map((index) => goTo(pane, index))),
    ...listed("Not fused, and why", [...reasons].sort((a, b) => b[1] - a[1]).map(([text, number]) => `${number} × ${text}`)),
  ];
};

const endPanel = (pane, box) => {
  const walk = walkOf(pane.stage);
  const values = box.in ?? box.out;
  return [
    element("h2", {}, box.in ? "Comes in" : "Goes out"),
    ...listed(box.in ? "From" : "Made by", values.map((value) => readItem(pane, walk, value, null))),
    ...(box.out ? listed("Read by", [...walk.places.keys()].filter((index) => nodes[index].reads.some((value) => values.includes(value))).map((index) => goTo(pane, index))) : []),
  ];
};

function fillPanel() {
  const panel = byId("panel");
  const { selected } = state;
  const pane = selected && shown().includes(selected.pane) ? selected.pane : state.panes[state.active === 0 && byId("two").checked ? 0 : 1];
  const here = selected && selected.pane === pane ? selected : null;
  if (here && here.values) {
    panel.replaceChildren(...valuesPanel(pane, here.values));
    return;
  }
  if (here && here.node !== undefined && walkOf(pane.stage).places.has(here.node)) {
    panel.replaceChildren(...nodePanel(pane, here.node));
    return;
  }
  if (here && here.level === currentLevel(pane)) {
    const box = levelOf(here.level).boxes[here.position];
    panel.replaceChildren(...(box.levels ? groupPanel(pane, textOf(pane.boxes[here.position]), nodesOfBox(box)) : endPanel(pane, box)));
    return;
  }
  const level = currentLevel(pane);
  panel.replaceChildren(...groupPanel(pane, string(levelOf(level).title), nodesOfLevel(level)), ...(pane.trail.length === 1 ? listed("In no box", restItems()) : []));
}

// --- Search --------------------------------------------------------------------------------------------------------

const haystacks = new Map();
const haystackOf = (walk, index) => {
  if (!haystacks.has(index)) {
    const node = nodes[index];
    const names = parametersOf(walk, [index]).map((value) => valueOf(walk, value).text).join(" ");
    const values = node.makes.filter((value) => value >= 0).map((value) => `%${value}`).join(" ");
    haystacks.set(index, `${node.op} ${node.attributes} ${node.types} ${node.scope} ${node.where} ${names} ${values}`.toLowerCase());
  }
  return haystacks.get(index);
};
const find = () => {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = byId("found");
  found.replaceChildren();
  found.hidden = words.length === 0;
  if (words.length === 0) return;
  const most = 50;
  for (const pane of shown()) {
    const walk = walkOf(pane.stage);
    const hits = [...walk.places.keys()].filter((index) => words.every((word) => haystackOf(walk, index).includes(word)));
    found.append(element("li", {}, element("small", {}, `${count(hits.length, "node")} ${stageTitle(pane.stage)}${hits.length > most ? `, the first ${most}` : ""}`)));
    for (const index of hits.slice(0, most)) {
      const button = element("button", { type: "button", onclick: () => { found.hidden = true; show(pane, index); } },
        nameOf(index), " ", element("small", {}, nodes[index].types));
      found.append(element("li", {}, button));
    }
  }
};

// --- Keyboard ------------------------------------------------------------------------------------------------------

// The box or chip nearest in a direction, sideways distance counting double. Where its name stands: a box lies behind its chips.
const neighbour = (pane, from, dx, dy) => {
  const centre = (group) => {
    const box = group.querySelector("text").getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  };
  const [x, y] = centre(pane.stops[from]);
  let best = -1;
  let least = Infinity;
  pane.stops.forEach((group, position) => {
    const [otherX, otherY] = centre(group);
    const along = (otherX - x) * dx + (otherY - y) * dy;
    const across = Math.abs((otherX - x) * dy) + Math.abs((otherY - y) * dx);
    if (position !== from && along > 1 && least > along + 2 * across) {
      least = along + 2 * across;
      best = position;
    }
  });
  return best;
};
const stepStage = (pane, step) => {
  for (let stage = pane.stage + step; stage >= 0 && last >= stage; stage += step) {
    if (data.stages[stage].changed || byId("all").checked) {
      setStage(pane, stage);
      draw();
      return;
    }
  }
};
const toggleParameters = (pane, stop) => {
  byId("parameters").checked = !byId("parameters").checked;
  const position = pane.chips[stop - pane.boxes.length]?.position ?? stop;
  draw();
  pane.boxes[position]?.focus({ preventScroll: true });
};
const arrows = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

const onKey = (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const pane = state.panes[byId("two").checked ? state.active : 1];
  const inField = event.target instanceof HTMLInputElement && event.target.type === "search";
  if (event.key === "Escape" && (inField || !byId("found").hidden)) {
    byId("found").hidden = true;
    pane.boxes[0]?.focus();
    return;
  }
  if (inField || event.target instanceof HTMLSelectElement) return;
  const stop = pane.stops.indexOf(event.target);
  const chip = pane.chips[stop - pane.boxes.length];
  const keys = {
    Escape: () => up(pane), Backspace: () => up(pane), "/": () => byId("search").focus(),
    "+": () => zoom(pane, 1.25), "-": () => zoom(pane, 1 / 1.25), 0: () => zoom(pane, 0),
    "[": () => stepStage(pane, -1), "]": () => stepStage(pane, 1), p: () => toggleParameters(pane, stop),
  };
  if (stop >= 0) {
    keys.Enter = () => (chip ? select(pane, chip.values) : act(pane, stop, true));
    keys[" "] = () => (chip ? select(pane, chip.values) : act(pane, stop, false));
    for (const [key, [dx, dy]] of Object.entries(arrows)) {
      keys[key] = () => pane.stops[neighbour(pane, stop, dx, dy)]?.focus();
    }
  }
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
};

byId("static").remove();
byId("app").hidden = false;
document.body.classList.add("app");
if (900 >= window.innerWidth) byId("two").checked = false;
makePane(state.panes[0], "Left");
makePane(state.panes[1], "Right");
for (const pane of state.panes) setStage(pane, pane.stage);
fillHeats();
for (const id of ["two", "marks", "all", "heat", "parameters"]) byId(id).addEventListener("change", draw);
byId("search").addEventListener("input", find);
byId("search").addEventListener("focus", find);
byId("helper").addEventListener("click", () => {
  byId("help").hidden = !byId("help").hidden;
  byId("helper").setAttribute("aria-expanded", String(!byId("help").hidden));
  for (const pane of shown()) zoom(pane, 0);
});
document.addEventListener("keydown", onKey);
document.addEventListener("click", (event) => {
  if (!event.target.closest?.(".search")) byId("found").hidden = true;
});
window.addEventListener("resize", () => { for (const pane of shown()) zoom(pane, 0); });
draw();
