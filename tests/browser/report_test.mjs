// The reports of runs, of two runs, and of runs that went wrong.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import test from "node:test";

import { axeProblems, folder, launch, open, widthProblems } from "./browser.mjs";
import { everyPage } from "./checks.mjs";
import { compare, history, measure, readRun, render, smallModel } from "./inputs.mjs";

const disagreeing = (run) => {
  for (const cell of run.cells) Object.assign(cell.validity, { agree: false, reason: "graph differs from eager by 3 ulp in output 0" });
  return run;
};
const judged = (run, verdict, reason, detail) => {
  for (const cell of run.cells) for (const comparison of cell.comparisons) Object.assign(comparison.verdict, { verdict, reason, detail });
  return run;
};

/// The run with its `n`th cell only: what such pages say stands at each cell, and the page of the run itself has both.
const onlyCell = (run, n) => ({ ...run, cells: [run.cells[n]] });

const pageOf = (name, run, more = {}) => ({ name, kind: "report", file: path.join(run, "report.html"), ...more });
const measured = ["mlp/digits", "micro/dispatch", "--quick", "--arms", "eager,graph"];
/// The runs that are made first, and pages of them.
const firstPages = async () => {
  smallModel();
  const [quick, onnx] = await Promise.all([
    measure("quick", "run", ...measured), measure("onnx", "run", "small.onnx", "--quick", "--arms", "eager,graph"),
  ]);
  const invalid = disagreeing(judged(onlyCell(readRun(quick), 0), "INVALID", "arms-disagree", "the arms disagree"));
  const contaminated = judged(onlyCell(readRun(quick), 1), "CONTAMINATED", "load", "other programs used 31 % of the CPUs");
  return [
    pageOf("quick", quick), pageOf("onnx", onnx),
    pageOf("invalid", await render("invalid", invalid), { like: "quick" }),
    pageOf("contaminated", await render("contaminated", contaminated), { like: "quick" }),
    pageOf("empty", await render("empty", { ...readRun(quick), cells: [], status: "interrupted" })),
  ];
};
/// Those that take longer, and pages of several runs.
const otherPages = async (quick) => {
  const [gate, [why, again]] = await Promise.all([
    measure("gate", "run", "micro/dispatch", "--gate", "--arms", "eager,graph"),
    (async () => [await measure("why", "why", "mlp/digits"), await measure("again", "run", ...measured, "--seed", "2")])(),
  ]);
  return [
    pageOf("why", why), pageOf("gate", gate),
    { name: "two-runs", kind: "report", file: path.join(await compare("two", quick, again), "compare.html") },
    { name: "folder", kind: "report", file: await history("history", ".") },
  ];
};

/// A page with one fault of each kind, so that silence elsewhere means something.
const faulty = (file) => {
  const text = fs.readFileSync(file, "utf8").replace("<main>", `<main>
    <img alt="" src="http://127.0.0.1:9/x.png"><p onclick="0">x</p><div class="command" style="color:red">x</div>
    <pre>${"wide ".repeat(300)}</pre><button></button>`);
  const place = path.join(folder, "inputs", "faulty.html");
  fs.writeFileSync(place, text);
  return place;
};

await test("reports", async (t) => {
  const browser = await launch();
  t.after(() => browser.close());
  const pages = await firstPages();
  const others = otherPages(path.dirname(pages[0].file));  // made while the first pages are looked at

  await t.test("the watch sees faults", async () => {
    const file = faulty(pages.find(({ name }) => name === "empty").file);
    const { page, findings, close } = await open(browser, file);
    const all = findings.join("\n");
    assert.match(all, /against the policy: img-src/);
    assert.match(all, /against the policy: (script|style)-src/);
    assert.equal((await widthProblems(page)).length, 1);
    assert.match((await axeProblems(page)).join("\n"), /button-name/);
    await close();
  });

  await everyPage(t, browser, pages);
  pages.push(...await others);
  await everyPage(t, browser, pages.slice(-4));

  const { file } = pages.find(({ name }) => name === "quick");
  await t.test("tables sort, by mouse and by keyboard", async () => {
    const { page, findings, close } = await open(browser, file);
    const table = page.locator("table.sortable").first();
    const shown = () => table.locator("tbody tr td:nth-child(2)").evaluateAll((cells) => cells.map((cell) => Number(cell.dataset.value)));
    const head = table.locator("thead th").nth(1);
    const ascending = [...await shown()].sort((a, b) => a - b);
    assert.equal(ascending.length, 2);
    assert.notEqual(ascending[0], ascending[1]);
    await head.getByRole("button").click();
    assert.deepEqual(await shown(), ascending);
    assert.equal(await head.getAttribute("aria-sort"), "ascending");
    await page.keyboard.press("Enter");  // on the button that was clicked
    assert.deepEqual(await shown(), ascending.reverse());
    assert.equal(await head.getAttribute("aria-sort"), "descending");
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Space");
    assert.equal(await table.locator("thead th").first().getAttribute("aria-sort"), "ascending");
    assert.equal(await head.getAttribute("aria-sort"), null);
    const names = await table.locator("tbody td:first-child").allInnerTexts();
    assert.deepEqual(names, [...names].sort());
    assert.deepEqual(findings, []);
    await close();
  });

  await t.test("the page of a folder filters its rows", async () => {
    const { page, findings, close } = await open(browser, pages.find(({ name }) => name === "folder").file);
    const table = page.locator("table[data-filter]").first();
    const visible = () => table.locator("tbody tr:visible").allInnerTexts();
    const all = await visible();
    assert.ok(all.length >= 4, all.join("\n"));
    const field = page.getByRole("searchbox").first();
    await field.fill("DISPATCH graph");
    const some = await visible();
    assert.ok(some.length > 0 && all.length > some.length);
    for (const row of some) assert.match(row.toLowerCase(), /dispatch[^]*graph/);
    await field.fill("no such row");
    assert.deepEqual(await visible(), []);
    await field.fill("");
    assert.deepEqual(await visible(), all);
    assert.deepEqual(findings, []);
    await close();
  });

  await t.test("links lead to their cell, and folds open by keyboard", async () => {
    const { page, findings, close } = await open(browser, file);
    const link = page.locator("table.sortable a").last();
    await link.click();
    const target = (await link.getAttribute("href")).slice(1);
    const top = await page.evaluate((id) => document.getElementById(id).getBoundingClientRect().top, target);
    assert.ok(top >= -1 && 900 > top, `${top} px from the top`);
    const fold = await page.locator("details:not([open])").first().elementHandle();
    await (await fold.$("summary")).focus();
    await page.keyboard.press("Enter");
    assert.equal(await fold.getAttribute("open"), "");
    await page.keyboard.press("Enter");
    assert.equal(await fold.getAttribute("open"), null);
    assert.deepEqual(findings, []);
    await close();
  });

  await t.test("what has the focus shows it, and what scrolls sideways can be reached", async () => {
    const { page, findings, close } = await open(browser, file, { width: 400 });
    let scrolled = 0;
    for (let i = 0; 40 > i; ++i) {
      await page.keyboard.press("Tab");
      const [outline, scrolls] = await page.evaluate(() => {
        const { activeElement: at } = document;
        return [getComputedStyle(at).outlineStyle, at.scrollWidth > at.clientWidth && at.tabIndex === 0 && at.getAttribute("role") === "group"];
      });
      assert.notEqual(outline, "none", `stop ${i}`);
      if (scrolls && scrolled === 0) {
        await page.keyboard.press("ArrowRight");
        await page.waitForFunction(() => document.activeElement.scrollLeft > 0, null, { timeout: 5000 });
        ++scrolled;
      }
    }
    assert.equal(scrolled, 1);
    assert.deepEqual(findings, []);
    await close();
  });

  await t.test("flame graphs and memory open, say what they show, and scroll by themselves", async () => {
    const { page, findings, close } = await open(browser, pages.find(({ name }) => name === "why").file);
    const pictures = page.locator("svg.pf[role=img]");
    assert.deepEqual(await pictures.evaluateAll((all) => all.map((svg) => svg.getAttribute("aria-label").replace(/:.*/, ""))), [
      "Flame graph of the difference", "Flame graph of the difference", "Flame graph",
      "Live bytes of each arm over the time of a call", "The arena of graph, address by time"]);
    assert.deepEqual(await pictures.evaluateAll((all) => all.map((svg) => svg.checkVisibility())), [true, false, false, true, false]);
    await page.locator("summary", { hasText: "The arena of graph" }).click();
    assert.ok(await pictures.last().isVisible());
    const { boxes, text } = await pictures.first().evaluate((svg) => ({
      boxes: svg.querySelectorAll("rect.f").length, text: svg.querySelector("title").textContent,
    }));
    assert.ok(boxes > 5, `${boxes} frames`);
    assert.match(text, /^all: eager [\d.]+ [µm]?s, graph [\d.]+ [µm]?s$/);
    const fill = (scheme) => page.emulateMedia({ colorScheme: scheme }).then(() => pictures.first().evaluate(
      (svg) => getComputedStyle(svg.querySelector("rect.f")).fill));
    assert.notEqual(await fill("light"), await fill("dark"));
    await page.setViewportSize({ width: 400, height: 800 });
    const box = pictures.first().locator("xpath=..");
    assert.ok(await box.evaluate((at) => at.scrollWidth > at.clientWidth && at.tabIndex === 0), "it scrolls, and by keyboard");
    assert.deepEqual(findings, []);
    await close();
  });

  await t.test("an op that is chosen is marked wherever the page shows it", async () => {
    const { page, findings, close } = await open(browser, pages.find(({ name }) => name === "why").file);
    const bar = page.getByRole("region", { name: "Chosen op" });
    const marked = () => page.locator(".chosen").evaluateAll((all) => all.map((each) => ({
      op: each.dataset.op, scope: each.dataset.scope, where: each.closest("table") ? "table" : each.closest("svg").classList[0],
    })));
    assert.equal(await bar.isVisible(), false);
    assert.deepEqual(await marked(), []);

    await page.locator("summary", { hasText: "Op by op" }).press("Enter");
    const row = page.locator("table[data-filter=ops] tr[data-op=relu]");
    await row.getByRole("button").press("Enter");
    const everywhere = await marked();
    const all = await page.locator("[data-op=relu]").count();
    assert.equal(everywhere.length, all);
    assert.deepEqual([...new Set(everywhere.map(({ op }) => op))], ["relu"]);
    assert.deepEqual([...new Set(everywhere.map(({ where }) => where))].sort(), ["dg", "pf", "table"]);
    assert.equal(await row.getByRole("button").getAttribute("aria-pressed"), "true");
    assert.match(await bar.innerText(), new RegExp(`^relu\\s+\\d+ of ${all} places in this page`));
    assert.ok(await page.locator("summary[data-chosen]").count() > 2);

    await page.locator("summary", { hasText: "Op by op" }).press("Enter");  // folded again
    assert.equal(await row.isVisible(), false);
    for (let i = 0; all > i; ++i) {
      await bar.getByRole("button", { name: "next" }).click();
      assert.ok(await page.locator(".chosen.at").isVisible(), `place ${i}`);
    }
    assert.ok(await row.evaluate((at) => at.classList.contains("at")), "once around");
    await page.keyboard.press("Escape");
    assert.deepEqual(await marked(), []);
    assert.equal(await bar.isVisible(), false);

    // In one module: where modules are told, only there.
    const frame = page.locator("svg.pf g[data-op=relu]").first();
    const scope = await frame.getAttribute("data-scope");
    await frame.dispatchEvent("click");
    const there = await marked();
    assert.ok(all > there.length && there.length > 2, `${there.length} of ${all}`);
    for (const { op, scope: at } of there) assert.deepEqual([op, at ?? scope], ["relu", scope]);
    assert.match(await bar.innerText(), new RegExp(`^relu in ${scope}\\s[^]*eager [\\d.]+ [nµ]s`));
    await page.locator(`svg.pf g[data-scope="${scope}"]:not([data-op])`).first().dispatchEvent("click");
    for (const { scope: at } of await marked()) assert.equal(at, scope);
    await row.evaluate((at) => at.closest("details").setAttribute("open", ""));
    await row.getByRole("button").click();
    await frame.dispatchEvent("click");
    assert.equal((await marked()).length, there.length, "another place of the op");
    await frame.dispatchEvent("click");
    assert.deepEqual(await marked(), [], "the same place again");
    await frame.dispatchEvent("click");
    await bar.getByRole("button", { name: "clear" }).click();
    assert.deepEqual(await marked(), []);
    assert.deepEqual(findings, []);
    await close();
  });

  await t.test("a button copies a command, with and without a clipboard", async () => {
    const why = pages.find(({ name }) => name === "why").file;
    const { page, findings, close } = await open(browser, why, { grant: ["clipboard-read", "clipboard-write"] });
    const commands = page.locator(".command code");
    const command = await commands.first().innerText();
    assert.match(command, /^diptych [^#]+[^ #]$/);
    await page.locator("button.copy").first().click();
    await page.getByRole("button", { name: "copied" }).waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), command);
    assert.equal(await page.locator("p[role=status]").innerText(), "copied");
    assert.equal(await page.locator("button.copy").count(), await commands.count());

    await page.evaluate(() => {
      Object.defineProperty(navigator, "clipboard", { value: undefined });
      document.addEventListener("copy", () => { window.copiedText = String(getSelection()); });
    });
    await page.locator("button.copy").last().press("Enter");
    assert.equal(await page.evaluate(() => window.copiedText), await commands.last().innerText());
    assert.deepEqual(findings, []);
    await close();
  });
});
