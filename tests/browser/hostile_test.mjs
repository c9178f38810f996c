// Names from outside are hostile until shown otherwise: each page with names that try to run, to break out of their place,
// to turn the text around, or to push the page apart. Nothing runs, and the page keeps its shape.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import test from "node:test";

import { launch, open, openAll, policyProblems, screenshot, widthProblems, widths } from "./browser.mjs";
import { compare, explore, history, measure, place, readRun, render, writeModel } from "./inputs.mjs";
import { chainOf } from "./onnx.mjs";

const long = 100_000;
const hostile = [
  "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\" onmouseover=\"alert(1)\" x=\"", "' onfocus='alert(1)' autofocus '",
  "javascript:alert(1)", "</style><style>*{display:none}</style>", "</template></details></table><h1>broken</h1>", "<!--", "]]>", "&lt;script&gt;alert(1)",
  "<svg onload=alert(1)>", "{{data}} {{script}}", "\u202egnp.exe\u202c", "\u2066a\u2069\u200f", "nul\u0000 bell\u0007 esc\u001b[31m del\u007f c1\u009b", "a\r\nb\u2028c\u2029d",
  "x".repeat(long), "日本 ".repeat(long / 3), "a.".repeat(long / 2), "/".repeat(300), "<b>".repeat(2000), "%s%n${x}`", "constructor", "__proto__", "e\u0301\u0301\u0301\u0301",
];
const fileName = "<img src=x onerror=alert(1)>\"' \u202e&lt;${x} javascript:alert(1).onnx";

/// A run in which every name that a person, a model or a file chooses is the next hostile one.
const renamed = (run, first) => {
  let next = first;
  const name = () => `${hostile[next++ % hostile.length]} ${next}`;
  const chosen = new Map(run.cells.flatMap((cell) => [cell.workload, ...cell.arms.slice(1).map((arm) => arm.name)]).map((old) => [old, name()]));
  const free = new Set(["description", "cause", "suite", "title", "unit", "reproduce", "detail", "with", "pass"]);
  const visit = (value, key) => {
    if (typeof value === "string") return free.has(key) ? name() : chosen.get(value) ?? value;
    if (Array.isArray(value)) return value.map((inner) => visit(inner, key === "checks" || key === "command" ? "title" : key));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([inner, old]) => [chosen.get(inner) ?? inner, visit(old, inner)]));
  };
  const changed = visit(run, "");
  changed.name = name();
  changed.environment = { ...changed.environment, [name()]: { [name()]: name() }, kernel: name() };
  for (const cell of changed.cells) {
    for (const metric of cell.metrics ?? []) metric.name = name();
    for (const arm of cell.arms) for (const pass of arm.passes ?? []) pass.name = name();
    for (const row of cell.profile?.rows ?? []) row.name = name();
    for (const frame of cell.profile?.flames?.frames ?? []) frame.name = name();
    for (const arm of cell.profile?.memory ?? []) {
      for (const held of [...arm.holders, ...arm.arena]) for (const key of ["op", "shape", "scope"]) if (key in held) held[key] = name();
      for (const holder of arm.holders) holder.scopes = holder.scopes.map(name);
    }
    if (cell.profile) cell.profile.notes = [name()];
  }
  return changed;
};

/// Markup that can only have come out of a name, and characters that turn or stop text.
const escaped = (page) => page.evaluate(() => {
  const found = [];
  const owned = document.querySelectorAll("script:not(:empty)").length;
  if (owned > 2) found.push(`${owned} scripts`);
  for (const element of document.querySelectorAll("img, iframe, object, embed, b:not(.mark b, .notice b, .choice b), [autofocus], link")) found.push(element.outerHTML.slice(0, 100));
  for (const element of document.querySelectorAll("*")) {
    for (const { name, value } of element.attributes) {
      // No browser follows what a data attribute holds.
      if (name.startsWith("on") || (!name.startsWith("data-") && /^\s*javascript:/i.test(value))) found.push(`${name}=${value.slice(0, 60)}`);
    }
  }
  for (const link of document.querySelectorAll("a")) if (!/^(file|https):$/.test(link.protocol)) found.push(`a link to ${link.href.slice(0, 60)}`);
  const text = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
  while (text.nextNode()) {
    const bad = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/.exec(text.currentNode.data);
    if (bad) found.push(`U+${bad[0].charCodeAt(0).toString(16)} in ${text.currentNode.data.slice(0, 60)}`);
  }
  const high = document.documentElement.scrollHeight;
  if (high > 60_000) found.push(`${high} px high`);
  return found;
});

const sound = async (page, findings, where) => {
  assert.deepEqual(await escaped(page), [], where);
  assert.deepEqual(await widthProblems(page), [], where);
  assert.deepEqual(findings, [], where);
};

const useReport = async (page) => {
  for (const button of await page.locator("th button").all()) await button.click({ timeout: 20_000 });
  for (const button of (await page.locator("button.copy").all()).slice(0, 3)) await button.click();
  for (const button of (await page.locator("button.op:visible").all()).slice(0, 8)) {
    await button.click();
    await page.locator(".choice button", { hasText: "next" }).click();
  }
  await page.mouse.move(300, 300);
  for (let i = 0; 20 > i; ++i) await page.keyboard.press("Tab");
};
const useExplorer = async (page) => {
  for (const word of ["<script>", "onerror", "x", "constructor", "__proto__", "\u202e"]) {
    await page.locator("#search").fill(word);
    const first = page.locator("#found button").first();
    if (await first.count() > 0) await first.click();
  }
  for (let depth = 0; 4 > depth; ++depth) {
    for (let i = 0; 8 > i; ++i) {
      const box = page.locator(".pane:not([hidden]) g.dg-node:not(.opens)").nth(i);
      if (await box.count() > 0) await box.focus().then(() => page.keyboard.press("Enter"));
    }
    const inner = page.locator(".pane:not([hidden]) g.dg-node.opens").nth(depth);
    if (await inner.count() === 0) break;
    await inner.focus();
    await page.keyboard.press("Enter");
  }
};

await test("hostile names", async (t) => {
  const browser = await launch();
  t.after(() => browser.close());
  const models = {
    scopes: { nameOf: (i) => hostile[i % hostile.length] },
    nested: { nameOf: (i) => `/${hostile[i % 5]}/${hostile[(3 * i) % hostile.length]}/op` },
    values: { nameOf: (i) => `op${i}`, resultOf: (i) => `${hostile[i % hostile.length]}${i}`, input: hostile[0], graph: hostile[1] },
  };
  const [why, ...explorers] = await Promise.all([measure("why", "why", "mlp/digits"), ...Object.entries(models).map(async ([name, model]) => {
    const file = writeModel(name === "values" ? fileName : `${name}.onnx`, chainOf({ count: 60, ...model }));
    return { name, file: await explore(`graph-${name}`, file), use: useExplorer };
  })]);
  const plain = readRun(why);
  const runs = await Promise.all([0, 7, 16].map((first) => render(`run-${first}`, renamed(structuredClone(plain), first))));
  const pages = [
    ...runs.map((run) => ({ name: path.basename(run), file: path.join(run, "report.html"), use: useReport })),
    { name: "two-runs", file: path.join(await compare("two", runs[0], runs[0]), "compare.html"), use: useReport },
    { name: "folder", file: await history("history", "."), use: useReport },
    ...explorers,
  ];

  await t.test("every page", { concurrency: 2 }, (all) => Promise.all(pages.map(({ name, file, use }) =>
    all.test(`${name}: nothing runs, and the page keeps its shape`, async () => {
      const { page, findings, close } = await open(browser, file);
      assert.deepEqual(await policyProblems(page), []);
      for (const width of [...widths].reverse()) {
        await page.setViewportSize({ width, height: 900 });
        await sound(page, findings, `${width} px`);
      }
      await screenshot(page, `${name}-360`, { full: false });
      await page.setViewportSize({ width: 1400, height: 900 });
      await screenshot(page, `${name}-1400`, { full: false });
      await openAll(page);
      await sound(page, findings, "opened");
      await use(page);
      await sound(page, findings, "used");
      await close();
    }))));

  await t.test("a picture from outside that isn't a plain drawing isn't shown", async () => {
    const run = structuredClone(plain);
    const folder = await render("picture", run);
    fs.mkdirSync(path.join(folder, "graphs"));
    fs.writeFileSync(path.join(folder, "graphs", "mlp-digits.svg"), "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(1)</script></svg>");
    await render("picture", run);
    const { page, findings, close } = await open(browser, path.join(place("picture"), "report.html"));
    await page.getByText("not a plain SVG drawing").waitFor({ timeout: 5000 });
    await sound(page, findings, "picture");
    await close();
  });
});
