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
