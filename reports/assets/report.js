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
