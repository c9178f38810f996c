"use strict";
// The graph explorer. Every picture was laid out before; this script places them, opens levels, and joins two stages by
// the source ops that their nodes stand for. Text from the program only ever becomes text content, never markup.
// Neither script has a less-than sign: no reader of the page may take one for a tag.
const data = JSON.parse(document.getElementById("data").textContent);
const string = (index) => data.strings[index];
const byId = (id) => document.getElementById(id);
const svgNamespace = "http://www.w3.org/2000/svg";

const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") made.addEventListener("click", value);
    else if (value !== false && value !== null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
};
const svgElement = (name, attributes) => {
  const made = document.createElementNS(svgNamespace, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};
const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

// --- The program ---------------------------------------------------------------------------------------------------

const nodes = data.nodes.map(([op, attributes, types, scope, where, lane, sources, reads, makes, bytes], index) => ({
  index, op: string(op), attributes: string(attributes), types: string(types), scope: string(scope),
  where: string(where), lane: ["forward", "backward", "optimizer"][lane], sources, reads, makes, bytes,
}));
const levelOf = (index) => data.levels[index];
const kinds = ["argument", "state", "captured", "constant"];
// Inputs of the program, and tensors that are constants.
const valueOf = (walk, value) => {
  const [kind, name, type, bytes] = walk.values[value];
  const [named, typed] = [string(name), string(type)];
  return { kind: kinds[kind], name: named, type: typed, bytes, text: kind === 3 ? `constant ${named || typed}` : `${kinds[kind]} "${named}": ${typed}` };
};

const contents = new Map();  // by level: the nodes in it, those of fused kernels too
const nodesOfLevel = (index) => {
  if (!contents.has(index)) {
    const found = new Set();
    for (const box of levelOf(index).boxes) for (const node of nodesOfBox(box)) found.add(node);
    contents.set(index, [...found]);
  }
  return contents.get(index);
};
const nodesOfBox = (box) => {
  const found = box.node === undefined ? [] : [box.node];
  for (const level of box.levels ?? []) found.push(...nodesOfLevel(level));
  return found;
};

// A stage as it is walked: where each node stands, and the way to each level.
const walks = new Map();
const walkOf = (stage) => {
  const top = data.stages[stage].level;
  const key = `${top} ${data.stages[stage].values}`;
  if (walks.has(key)) return walks.get(key);
  const walk = { places: new Map(), trails: new Map(), bySource: new Map(), makers: new Map(), values: data.values[data.stages[stage].values] };
  const visit = (trail, kernel) => {
    const level = levelOf(trail[trail.length - 1].level);
    walk.trails.set(level.path, trail);
    level.boxes.forEach((box, position) => {
      if (box.node !== undefined && !walk.places.has(box.node)) {
        walk.places.set(box.node, { trail, position, kernel });
        for (const source of nodes[box.node].sources) {
          if (!walk.bySource.has(source)) walk.bySource.set(source, []);
          walk.bySource.get(source).push(box.node);
        }
        for (const value of nodes[box.node].makes) walk.makers.set(kernel === null || value >= 0 ? value : `${kernel} ${value}`, box.node);
      }
      (box.levels ?? []).forEach((inner, instance) => {
        visit([...trail, { level: inner, box, instance }], box.node ?? kernel);
      });
    });
  };
  visit([{ level: top, box: null, instance: 0 }], null);
  walks.set(key, walk);
  return walk;
};
const makerOf = (walk, value, kernel) => walk.makers.get(0 > value ? `${kernel} ${value}` : value);
const counterparts = (walk, sources) => {
  const found = new Set();
  for (const source of sources) for (const node of walk.bySource.get(source) ?? []) found.add(node);
  return [...found];
};

// --- Differences ---------------------------------------------------------------------------------------------------

const marks = {
  added: ["+", "stands for a source op that the other stage has no node for"],
  removed: ["−", "its source op has no node in the other stage"],
  fused: ["◆", "one of a fused kernel in one of the stages"],
  joined: ["⊃", "one node stands for several of the other stage"],
  changed: ["~", "another op, type or attribute in the other stage"],
  moved: ["»", "the same op, but it reads other values"],
};
const isFused = (index) => nodes[index].op.startsWith("fused: ");
const knownMarks = new Map();  // by the two stages' walks, and by node
const markOf = (index, here, there, isLeft) => {
  if (!knownMarks.has(here)) knownMarks.set(here, new Map());
  if (!knownMarks.get(here).has(there)) knownMarks.get(here).set(there, new Map());
  const known = knownMarks.get(here).get(there);
  if (!known.has(index)) known.set(index, findMark(index, here, there, isLeft));
  return known.get(index);
};
const findMark = (index, here, there, isLeft) => {
  if (there.places.has(index)) return "";
  const others = counterparts(there, nodes[index].sources).filter((other) => !isFused(other) || isFused(index));
  if (others.length === 0) return isFused(index) ? "fused" : isLeft ? "removed" : "added";
  const inKernel = here.places.get(index)?.kernel !== null;
  if (isFused(index) || inKernel !== others.some((other) => there.places.get(other).kernel !== null)) return "fused";
  const node = nodes[index];
  const same = others.filter((other) => ["op", "attributes", "types"].every((key) => nodes[other][key] === node[key]));
  if (same.some((other) => nodes[other].sources.length === node.sources.length)) return "moved";
  const mostSources = Math.max(...others.map((other) => nodes[other].sources.length));
  return others.length > 1 || mostSources > node.sources.length ? "joined" : "changed";
};

// --- Stages --------------------------------------------------------------------------------------------------------

const eager = 0;  // drawn as captured: what runs op by op
const captured = 1;
const last = data.stages.length - 1;
const stageTitle = (stage) => (stage === eager ? "eager, op by op" : stage === captured ? "as captured" : `after ${string(data.stages[stage].name)}`);

// --- State ---------------------------------------------------------------------------------------------------------

const state = { panes: [{ stage: data.times.arms.length > 0 ? eager : captured }, { stage: last }], active: 1, selected: null };
const shown = () => (byId("two").checked ? state.panes : [state.panes[1]]);
const otherOf = (pane) => state.panes[1 - state.panes.indexOf(pane)];
const comparing = () => byId("two").checked && byId("marks").checked && state.panes[0].stage !== state.panes[1].stage;
const currentLevel = (pane) => pane.trail[pane.trail.length - 1].level;
const pathOf = (pane) => levelOf(currentLevel(pane)).path;

// The trail of the deepest level that this stage has of another trail.
const nearestTrail = (walk, trail) => {
  for (let depth = trail.length - 1; depth > 0; --depth) {
    const known = walk.trails.get(levelOf(trail[depth].level).path);
    if (known) return known;
  }
  return walk.trails.values().next().value;
};

const setStage = (pane, stage) => {
  pane.stage = stage;
  const walk = walkOf(stage);
  pane.trail = pane.trail ? nearestTrail(walk, pane.trail) : walk.trails.values().next().value;
};
const open = (pane, trail, focus = 0) => {
  pane.trail = trail;
  state.active = state.panes.indexOf(pane);
  if (byId("follow").checked) {
    const other = otherOf(pane);
    other.trail = nearestTrail(walkOf(other.stage), trail);
  }
  draw();
  pane.boxes[focus]?.focus({ preventScroll: true });
};
const openBox = (pane, box, instance = 0) => {
  open(pane, [...pane.trail, { level: box.levels[instance], box, instance }]);
};
const up = (pane) => {
  if (pane.trail.length === 1) return;
  const left = pane.trail[pane.trail.length - 1].box;
  const trail = pane.trail.slice(0, -1);
  const position = levelOf(trail[trail.length - 1].level).boxes.indexOf(left);
  open(pane, trail, Math.max(0, position));
};
const show = (pane, index) => {
  const place = walkOf(pane.stage).places.get(index);
  if (!place) return;
  state.selected = { pane, node: index };
  open(pane, place.trail, place.position);
};

// --- Panes ---------------------------------------------------------------------------------------------------------

const textOf = (group) => [...group.querySelectorAll("text")].map((text) => text.textContent).join(", ");

const makePane = (pane, title) => {
  pane.select = element("select", { "aria-label": `${title} stage` });
  pane.select.addEventListener("change", () => {
    setStage(pane, Number(pane.select.value));
    draw();
  });
  pane.trailList = element("ol", { class: "trail", "aria-label": "Level" });
  pane.rest = element("p", { class: "rest" });
  pane.view = element("div", { class: "view" });
  const zoomTo = (change) => () => { zoom(pane, change); };
  const bar = element("div", { class: "bar" }, pane.select, pane.trailList,
    element("span", { class: "zoom" },
      element("button", { type: "button", "aria-label": "smaller", onclick: zoomTo(1 / 1.25) }, "−"),
      element("button", { type: "button", "aria-label": "fit", onclick: zoomTo(0) }, "fit"),
      element("button", { type: "button", "aria-label": "larger", onclick: zoomTo(1.25) }, "+")));
  pane.section = element("section", { class: "pane", "aria-label": `${title} pane` }, bar, pane.rest, pane.view);
  pane.section.addEventListener("focusin", () => { state.active = state.panes.indexOf(pane); });
  byId("panes").append(pane.section);
};

const fillStages = (pane) => {
  const before = data.stages[pane.stage];
  pane.select.replaceChildren(...data.stages.flatMap((stage, index) => {
    if (!stage.changed && !byId("all").checked && index !== pane.stage) return [];
    const name = `${stageTitle(index)}, ${count(stage.nodes, "node")}${stage.changed ? "" : " (unchanged)"}`;
    return [element("option", { value: index, selected: stage === before }, name)];
  }));
};

const fillTrail = (pane) => {
  pane.trailList.replaceChildren(...pane.trail.map((step, depth) => {
    const isLast = depth === pane.trail.length - 1;
    const name = string(levelOf(step.level).title);
    if (step.box && step.box.levels.length > 1) {
      const select = element("select", { "aria-label": "Instance" }, ...step.box.names.map((other, index) =>
        element("option", { value: index, selected: index === step.instance }, string(other))));
      select.addEventListener("change", () => {
        const instance = Number(select.value);
        open(pane, [...pane.trail.slice(0, depth), { level: step.box.levels[instance], box: step.box, instance }]);
        pane.trailList.children[depth].querySelector("select").focus();
      });
      return element("li", {}, select, element("small", {}, `of ${step.box.levels.length}`));
    }
    if (isLast) return element("li", { "aria-current": "true" }, name);
    return element("li", {}, element("button", { type: "button", onclick: () => open(pane, pane.trail.slice(0, depth + 1)) }, name));
  }));
};

const zoom = (pane, change) => {
  const svg = pane.view.firstElementChild;
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const fit = Math.min(1.25, (pane.view.clientWidth - 14) / width, (pane.view.clientHeight - 14) / height);
  // Smaller text than this isn't readable: then the picture scrolls.
  pane.scale = change === 0 ? Math.max(fit, 0.6) : Math.min(4, Math.max(0.1, pane.scale * change));
  svg.setAttribute("width", Math.round(width * pane.scale));
  svg.setAttribute("height", Math.round(height * pane.scale));
};

const marksOf = (pane, box) => {
  const tally = new Map();
  if (!comparing()) return tally;
  const [here, there] = [walkOf(pane.stage), walkOf(otherOf(pane).stage)];
  for (const index of nodesOfBox(box)) {
    if (isFused(index) && box.node !== index) continue;  // its ops are counted
    const mark = markOf(index, here, there, pane === state.panes[0]);
    if (mark && (box.node === undefined || box.node === index)) tally.set(mark, (tally.get(mark) ?? 0) + 1);
  }
  return tally;
};

// A text in a rounded frame, beside the box and not in it: what a box is called is its own text.
const placeBadge = (group, text, right, top, width, kind = "") => {
  const badge = svgElement("g", { class: `dg-badge ${kind}`.trim(), "aria-hidden": "true" });
  badge.append(svgElement("rect", { x: right - width, y: top, width, height: 16, rx: 8, class: "badge" }), text);
  group.after(badge);
};

const addBadge = (group, tally) => {
  const box = group.querySelector(".dg-box");
  const right = Number(box.getAttribute("x")) + Number(box.getAttribute("width"));
  const top = Number(box.getAttribute("y"));
  const text = svgElement("text", { y: top - 1, "text-anchor": "end", x: right - 4, class: "badge-text" });
  let length = 0;
  for (const [mark, number] of tally) {
    const word = tally.size === 1 && number === 1 ? `${marks[mark][0]} ${mark}` : `${marks[mark][0]}${number}`;
    const span = svgElement("tspan", { class: `mark-${mark}` });
    span.textContent = (length > 0 ? " " : "") + word;
    length += word.length + 1;
    text.append(span);
  }
  placeBadge(group, text, right, top - 13, 7.2 * length + 8);
};

const addShadow = (group) => {
  const box = group.querySelector(".dg-box");
  const at = (name) => Number(box.getAttribute(name));
  for (const offset of [6, 3]) {
    group.insertBefore(svgElement("rect", { x: at("x") + offset, y: at("y") + offset, width: at("width"), height: at("height"), rx: 6, class: "stack" }), box);
  }
};

const drawPane = (pane) => {
  fillStages(pane);
  fillTrail(pane);
  fillRest(pane);
  const level = levelOf(currentLevel(pane));
  const parameters = (byId("parameters").checked && level.parameters) || { picture: level.picture, chips: [] };
  const svg = byId(`picture-${parameters.picture}`).content.firstElementChild.cloneNode(true);
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-label", `${string(level.title)}: ${count(level.boxes.length, "box").replace("boxs", "boxes")}`);
  pane.boxes = [...svg.querySelectorAll("g.dg-node")];
  pane.boxes.forEach((group, position) => {
    const box = level.boxes[position];
    const tally = marksOf(pane, box);
    const strongest = Object.keys(marks).find((mark) => tally.has(mark));
    const spoken = [...tally].map(([mark, number]) => `${number} ${mark}`).join(", ");
    for (const text of group.querySelectorAll("text")) text.after(" ");  // words of their own, for who reads them aloud
    group.setAttribute("aria-label", `${textOf(group)}${box.levels ? ", opens" : ""}${spoken ? `; ${spoken}` : ""}`);
    if (box.levels) group.classList.add("opens");
    if (box.kind === 2) addShadow(group);
    if (strongest) {
      group.classList.add(`m-${strongest}`);
      addBadge(group, tally);
    }
    addHeat(pane, group, box);
    group.addEventListener("click", () => { act(pane, position, true); });
  });
  addChips(pane, svg, parameters.chips);
  addStops(pane);
  pane.view.replaceChildren(svg);
  zoom(pane, 0);
  pane.view.scrollTo(0, 0);
};

const select = (pane, values) => {
  state.active = state.panes.indexOf(pane);
  state.selected = { pane, values };
  highlight();
  fillPanel();
};

// Parameters, states and constants, in the boxes that read them.
const addChips = (pane, svg, chips) => {
  pane.chips = [...svg.querySelectorAll("g.dg-chip")].map((group, index) => ({ group, position: chips[index][0], values: chips[index][1] }));
  const walk = walkOf(pane.stage);
  for (const { group, position, values } of pane.chips) {
    const name = values.length === 1 ? valueOf(walk, values[0]).text : textOf(group);
    group.setAttribute("aria-label", `${name}, read by ${textOf(pane.boxes[position])}`);
    group.addEventListener("click", () => { select(pane, values); });
  }
};
// One stop of the Tab key for a picture; the arrow keys move on.
const addStops = (pane) => {
  pane.stops = [...pane.boxes, ...pane.chips.map(({ group }) => group)];
  pane.stops.forEach((group, index) => {
    group.setAttribute("tabindex", index === 0 ? "0" : "-1");
    group.setAttribute("role", "button");
    group.addEventListener("focus", () => {
      for (const other of pane.stops) other.setAttribute("tabindex", other === group ? "0" : "-1");
    });
  });
};

const act = (pane, position, opens) => {
  const level = levelOf(currentLevel(pane));
  const box = level.boxes[position];
  state.active = state.panes.indexOf(pane);
  if (box.node !== undefined) state.selected = { pane, node: box.node };
  else state.selected = { pane, level: currentLevel(pane), position };
  if (opens && box.levels) {
    openBox(pane, box);
    return;
  }
  highlight();
  fillPanel();
};

// The selection, in both panes: the same box, and all that stands for one of its source ops, or reads what is selected.
const selectedSources = () => {
  if (!state.selected || state.selected.values) return new Set();
  const { node, level, position } = state.selected;
  const chosen = node !== undefined ? [node] : nodesOfBox(levelOf(level).boxes[position]);
  return new Set(chosen.flatMap((index) => nodes[index].sources));
};
const isSelected = (pane, level, box, position) => {
  const { selected } = state;
  if (selected === null || selected.pane !== pane || selected.values) return false;
  return selected.node !== undefined ? box.node === selected.node : selected.level === level && selected.position === position;
};
const highlight = () => {
  const sources = selectedSources();
  const values = new Set(state.selected?.values);
  const isRelated = (index) => nodes[index].sources.some((source) => sources.has(source)) || nodes[index].reads.some((value) => values.has(value));
  const mark = (group, isIt, isRelatedToIt) => {
    group.classList.toggle("selected", isIt);
    group.classList.toggle("related", isRelatedToIt);
    group.setAttribute("aria-pressed", String(isIt));
  };
  for (const pane of shown()) {
    const level = currentLevel(pane);
    levelOf(level).boxes.forEach((box, position) => {
      const isIt = isSelected(pane, level, box, position);
      mark(pane.boxes[position], isIt, !isIt && (sources.size > 0 || values.size > 0) && nodesOfBox(box).some(isRelated));
    });
    for (const chip of pane.chips) {
      const isIt = values.size === chip.values.length && chip.values.every((value) => values.has(value));
      mark(chip.group, isIt, !isIt && chip.values.some((value) => values.has(value)));
    }
  }
};

const fillSummary = () => {
  const summary = byId("summary");
  summary.replaceChildren();
  if (!comparing()) return;
  const tally = new Map();
  for (const [pane, isLeft] of [[state.panes[0], true], [state.panes[1], false]]) {
    const [here, there] = [walkOf(pane.stage), walkOf(otherOf(pane).stage)];
    for (const index of here.places.keys()) {
      const mark = isFused(index) ? "" : markOf(index, here, there, isLeft);
      // What both sides have in another form counts on the left.
      if (mark && (isLeft || mark === "added")) tally.set(mark, (tally.get(mark) ?? 0) + 1);
    }
  }
  if (tally.size === 0) summary.append("no difference");
  for (const mark of Object.keys(marks).filter((key) => tally.has(key))) {
    summary.append(element("span", { class: `mark-${mark}`, title: marks[mark][1] }, `${marks[mark][0]} ${tally.get(mark)} ${mark}`));
  }
};

const draw = () => {
  state.panes[0].section.hidden = !byId("two").checked;
  for (const pane of shown()) drawPane(pane);
  fillSummary();
  highlight();
  fillPanel();
};
