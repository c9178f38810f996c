"use strict";
// Without this script tables stay in their order, and commands are copied by hand. No less-than sign in here: no reader of
// the page may take one for a tag.

// Sorting by a column.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    button.title = "sort";
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        const numbers = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
        return numbers ? x - y : String(x).localeCompare(String(y));
      };
      const rows = [...body.rows].sort((a, b) => (ascending ? 1 : -1) * compare(a, b));
      body.append(...rows);
    });
  });
}

// A button before each command copies it; where the clipboard is closed to the page, it selects it.
const said = document.createElement("p");
said.className = "unseen";
said.setAttribute("role", "status");
document.querySelector("main")?.append(said);
const copy = async (code) => {
  const range = document.createRange();
  range.selectNodeContents(code);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  try {
    await navigator.clipboard.writeText(code.textContent);
    return "copied";
  } catch {
    return document.execCommand("copy") ? "copied" : "selected";
  }
};
for (const code of document.querySelectorAll(".command code")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "copy";
  button.title = "copy this command";
  button.addEventListener("click", async () => {
    button.textContent = said.textContent = await copy(code);
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
  code.before(button);
}

// What scrolls sideways can be reached with the keyboard, as long as it does.
const reachScrollers = () => {
  for (const box of document.querySelectorAll(".scroll, .command, .diagram")) {
    const scrolls = box.scrollWidth > box.clientWidth;
    for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", "scrolls sideways"]]) {
      if (scrolls) box.setAttribute(name, value);
      else box.removeAttribute(name);
    }
  }
};
reachScrollers();
addEventListener("resize", reachScrollers);
document.addEventListener("toggle", reachScrollers, true);

// A field over a table: its rows that have all of the words. Without this script all rows are there.
for (const table of document.querySelectorAll("table[data-filter]")) {
  const rows = [...table.tBodies[0].rows];
  const label = document.createElement("label");
  const field = document.createElement("input");
  const count = document.createElement("span");
  label.className = "filter";
  field.type = "search";
  field.placeholder = "words that a row has to have";
  count.setAttribute("role", "status");
  label.append(`Filter ${table.dataset.filter} `, field, count);
  table.parentElement.before(label);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = words.length === 0 ? "" : `${shown} of ${rows.length}`;
  });
}

// A reader chooses an op or a module, in a table or a picture; all its places in the page are marked, and counted where
// they are folded away. Rows have a button for it, so whatever is in a picture alone is in a table for the keyboard.
const opPlaces = [...document.querySelectorAll("[data-op], [data-scope]")];
const nameOfPlace = ({ op, scope }) => (op === undefined ? scope : scope ? `${op} in ${scope}` : op);
const isWithin = (scope, outer) => scope === outer || (outer !== "" && scope.startsWith(`${outer}.`));
const isPlaceOf = (chosen, { dataset: { op, scope } }) => {
  if (chosen.op === undefined) return scope !== undefined && isWithin(scope, chosen.scope);
  return op === chosen.op && (chosen.scope === undefined || scope === undefined || isWithin(scope, chosen.scope));
};
const chooseOps = () => {
  const bar = document.createElement("div");
  const name = document.createElement("b");
  const count = document.createElement("span");
  const figures = document.createElement("small");
  let chosen = null;
  let marked = [];
  let shown = -1;

  const show = (step) => {
    shown = (shown + step + marked.length) % marked.length;
    const place = marked[shown];
    for (let fold = place.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    for (const each of marked) each.classList.toggle("at", each === place);
    place.scrollIntoView({ block: "center", inline: "center" });
    tell(place);
  };
  const tell = (place) => {
    count.textContent = `${shown + 1} of ${marked.length} places in this page`;
    figures.textContent = place.querySelector("title")?.textContent ?? "";
  };
  const choose = (place) => {
    const { op, scope } = place?.dataset ?? {};
    const again = place !== null && place === marked[shown];
    chosen = place === null || again ? null : { op, scope };
    marked = chosen === null ? [] : opPlaces.filter((each) => !each.hidden && isPlaceOf(chosen, each));
    shown = marked.indexOf(place);
    const isMarked = new Set(marked);
    for (const each of opPlaces) {
      each.classList.toggle("chosen", isMarked.has(each));
      each.classList.toggle("at", chosen !== null && each === place);
      each.querySelector("button.op")?.setAttribute("aria-pressed", String(chosen !== null && each.dataset.op === chosen.op && each.dataset.scope === chosen.scope));
    }
    for (const picture of document.querySelectorAll(".pf, .dg")) picture.classList.toggle("choosing", picture.querySelector(".chosen") !== null);
    for (const fold of document.querySelectorAll("details")) {
      const inside = marked.filter((each) => fold.contains(each)).length;
      if (inside > 0) fold.firstElementChild.dataset.chosen = inside;
      else delete fold.firstElementChild.dataset.chosen;
    }
    bar.hidden = chosen === null;
    if (chosen === null) return;
    name.textContent = nameOfPlace(chosen);
    tell(place);
  };

  for (const [label, act] of [["previous", () => show(-1)], ["next", () => show(1)], ["clear", () => choose(null)]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.addEventListener("click", act);
    bar.append(button);
  }
  bar.prepend(name, count, figures);
  bar.className = "choice";
  bar.hidden = true;
  bar.setAttribute("role", "region");
  bar.setAttribute("aria-label", "Chosen op");
  count.setAttribute("role", "status");
  document.querySelector("main").append(bar);
  const hint = document.createElement("p");
  hint.className = "sub";
  hint.textContent = "Choose an op in a table or a picture: all its places in this page are marked.";
  opPlaces[0].closest(".scroll, .diagram").before(hint);

  for (const place of opPlaces) {
    const cell = place.cells?.[0];
    if (!cell) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "op";
    button.title = "mark it everywhere";
    button.setAttribute("aria-pressed", "false");
    button.append(...cell.childNodes);
    cell.append(button);
  }
  document.addEventListener("click", (event) => {
    const place = event.target.closest("[data-op], [data-scope]");
    const selected = getSelection();
    const isSelecting = place && !selected.isCollapsed && place.contains(selected.anchorNode);
    if (place && !isSelecting && !event.target.closest("a")) choose(place);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && chosen) choose(null);
  });
};
if (opPlaces.length > 0) chooseOps();

// A link to something folded opens it.
const openTarget = () => {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target && target.querySelector("details");
  if (folded) {
    folded.open = true;
    target.scrollIntoView();
  }
};
window.addEventListener("hashchange", openTarget);
openTarget();
