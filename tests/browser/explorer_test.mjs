// The graph explorer: pages of small and large graphs, and all that a person does in it.
import assert from "node:assert/strict";
import test from "node:test";

import { launch, open, screenshot, settled } from "./browser.mjs";
import { everyPage } from "./checks.mjs";
import { explore, largeModel, smallModel } from "./inputs.mjs";

smallModel();
largeModel();
const workloads = [["small-model", "small.onnx"], ["mlp", "mlp/digits", "--times"], ["vit", "vit/tiny"], ["gpt", "gpt/mini"], ["5000-nodes", "large.onnx"]];
/// Text of 12 px at this scale is the smallest that can be read.
const readable = 0.6;
/// Of the page's thread, from a click to the frame that answers it.
const mostMilliseconds = 100;

const left = (page) => page.getByRole("region", { name: "Left pane" });
const right = (page) => page.getByRole("region", { name: "Right pane" });
const trailOf = async (pane) => (await pane.locator(".trail li").count());
const boxes = (pane) => pane.locator("g.dg-node");
const opening = (pane) => pane.locator("g.dg-node.opens");

const fits = (page) => page.locator(".view").evaluateAll((views) => views.filter((view) => view.clientWidth > 0).map((view) => {
  const svg = view.firstElementChild;
  return {
    scale: svg.getAttribute("width") / svg.getAttribute("viewBox").split(" ")[2],
    hidden: [view.scrollWidth - view.clientWidth, view.scrollHeight - view.clientHeight],
  };
}));

/// Clicks through the graph: what each click takes of the page's thread, and until its frame.
const clickTimes = async (page) => {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async () => 1000 * (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  const times = [];
  for (let i = 0; 24 > i; ++i) {
    const before = await busy();
    const [wall, name] = await page.evaluate((step) => new Promise((resolve) => {
      const all = [...document.querySelectorAll(".pane:not([hidden]) g.dg-node")];
      const opens = all.filter((box) => box.classList.contains("opens"));
      const target = step % 3 === 2 ? all[(step * 7) % all.length] : opens.length > 0 ? opens[step % opens.length] : null;
      const from = performance.now();
      const name = target?.getAttribute("aria-label").slice(0, 60) ?? "Escape";
      if (target) target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
      else document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
      requestAnimationFrame(() => setTimeout(() => resolve([performance.now() - from, name]), 0));
    }), i);
    times.push({ name, wall, thread: await busy() - before });
  }
  return times;
};

await test("the graph explorer", async (t) => {
  const browser = await launch();
  t.after(() => browser.close());
  const pages = [];
  for (const [name, ...words] of workloads) pages.push({ name, kind: "explorer", file: await explore(`graph-${name}`, ...words) });
  const fileOf = (name) => pages.find((page) => page.name === name).file;
  const visit = async (name, options) => {
    const opened = await open(browser, fileOf(name), options);
    return { ...opened, end: async () => {
      assert.deepEqual(opened.findings, []);
      await opened.close();
    } };
  };

  await everyPage(t, browser, pages);

  await t.test("heat shows times of both arms and bytes, as text and colour", async () => {
    const { page, findings, close } = await visit("mlp");
    const heat = page.getByLabel("heat");
    const heated = right(page).locator("g[class*='heat-'], g[class*='cool-']");
    assert.equal(await heat.inputValue(), "arm 1");  // it opens with the time in graph
    for (const [choice, unit] of [["arm 0", /[mµn]s$/], ["arm 1", /[mµn]s$/], ["saved", /[mµn]s$/], ["bytes", /B$/]]) {
      await heat.selectOption(choice);
      const texts = (await right(page).locator(".cost text").allTextContents()).filter((text) => unit.test(text));
      assert.ok(texts.length > 2, `${choice}: ${texts.join(", ")}`);
      const spoken = await heated.evaluateAll((groups) => groups.map((group) => group.getAttribute("aria-label")));
      assert.equal(spoken.filter((label) => unit.test(label)).length, texts.length);
    }
    await heat.selectOption("");
    assert.equal(await heated.count(), 0);
    // Shares of both arms: whatever is timed adds up to no more than a call.
    const whole = await page.locator("#panel dl").innerText();
    for (const arm of ["eager", "graph"]) {
      const share = Number(whole.match(new RegExp(`${arm}\\s+~?[^,]+, ([0-9.]+) %`))[1]);
      assert.ok(share > 10 && 101 >= share, `${arm}: ${share} %`);
    }
    assert.deepEqual(findings, []);
    await close();
  });

  await t.test("what it opens with fits a laptop's screen, and can be read", async () => {
    for (const { name } of pages) {
      const { page, end } = await visit(name, { width: 1400, height: 900 });
      for (const { scale, hidden } of await fits(page)) {
        assert.ok(scale > readable - 0.01, `${name}: scale ${scale}`);
        assert.ok(Math.max(...hidden) <= 0, `${name}: ${hidden} px can't be seen`);
      }
      await end();
    }
  });

  await t.test("modules open and close, in both panes together", async () => {
    const { page, end } = await visit("vit");
    assert.equal(await trailOf(left(page)), 1);
    await opening(right(page)).filter({ hasText: "blocks" }).click();
    assert.equal(await trailOf(right(page)), 2);
    assert.equal(await trailOf(left(page)), 2, "together");
    await right(page).getByRole("combobox", { name: "Instance" }).selectOption("blocks.7");
    assert.equal(await left(page).getByRole("combobox", { name: "Instance" }).evaluate((select) => select.selectedOptions[0].text), "blocks.7");
    await page.keyboard.press("Escape");
    assert.equal(await trailOf(right(page)), 2, "a list keeps its keys");
    await boxes(right(page)).first().focus();
    await page.keyboard.press("Escape");
    assert.deepEqual([await trailOf(left(page)), await trailOf(right(page))], [1, 1]);
    assert.match(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), /^blocks/, "the box that was left has the focus");

    await page.getByLabel("together").uncheck();
    await opening(right(page)).filter({ hasText: "blocks" }).focus();
    await page.keyboard.press("Enter");
    assert.deepEqual([await trailOf(left(page)), await trailOf(right(page))], [1, 2], "alone");
    await right(page).getByRole("button", { name: "program" }).click();
    assert.equal(await trailOf(right(page)), 1);
    await end();
  });

  await t.test("what is selected in one pane is marked in the other, and the panel leads there", async () => {
    const { page, end } = await visit("vit");
    const slice = (pane) => boxes(pane).filter({ hasText: /^ *slice/ });
    await slice(left(page)).click();
    assert.equal(await slice(left(page)).getAttribute("aria-pressed"), "true");
    assert.match(await slice(left(page)).getAttribute("class"), /selected/);
    assert.match(await slice(right(page)).getAttribute("class"), /related/);
    assert.equal(await page.locator(".related").count(), 1, "nothing else");
    const panel = page.getByRole("complementary", { name: "The selection" });
    assert.equal(await panel.getByRole("heading", { level: 2 }).innerText(), "slice");
    await panel.getByRole("button", { name: "slice" }).last().click();
    assert.match(await slice(right(page)).getAttribute("class"), /selected/);
    assert.match(await slice(left(page)).getAttribute("class"), /related/);
    await screenshot(page, "selected", { full: false });
    await end();
  });

  await t.test("every box can be reached by keyboard, and Space only selects", async () => {
    const { page, end } = await visit("vit");
    await boxes(left(page)).first().focus();
    const seen = new Set();
    const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label"));
    for (let i = 0; 12 > i; ++i) {
      seen.add(await focused());
      await page.keyboard.press("ArrowDown");
    }
    assert.ok(seen.size >= 10, [...seen].join(" | "));
    for (let i = 0; 12 > i && !/^blocks/.test(await focused()); ++i) await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Space");
    assert.equal(await trailOf(left(page)), 1);
    assert.match(await page.locator("#panel h2").innerText(), /^blocks/);
    await page.keyboard.press("Enter");
    assert.equal(await trailOf(left(page)), 2);
    await page.keyboard.press("Backspace");
    assert.equal(await trailOf(left(page)), 1);
    const scale = async () => (await fits(page))[0].scale;
    const fit = await scale();
    await page.keyboard.press("+");
    assert.ok(await scale() > fit);
    await page.keyboard.press("-");
    await page.keyboard.press("-");
    assert.ok(fit > await scale());
    await page.keyboard.press("0");
    assert.equal(await scale(), fit);
    const stage = () => left(page).getByRole("combobox", { name: "Left stage" }).inputValue();
    assert.equal(await stage(), "0");
    await page.keyboard.press("]");
    assert.notEqual(await stage(), "0");
    await end();
  });

  await t.test("the search finds, leads to what it found, and closes", async () => {
    const { page, end } = await visit("5000-nodes");
    await page.keyboard.press("/");
    await page.keyboard.type("block.7 op42 tanh");
    const found = page.locator("#found");
    await found.getByRole("button").first().waitFor();
    const name = await found.getByRole("button").first().innerText();
    assert.match(name, /block\.7.*op42.*tanh/);
    await page.keyboard.press("Escape");
    assert.ok(await found.isHidden());
    await page.keyboard.press("/");
    await page.locator("#search").fill("block.7 op42 tanh");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    assert.ok(await found.isHidden());
    assert.equal(await page.locator("#panel h2").innerText(), "tanh");
    assert.match(await page.locator("#panel dl").innerText(), /block\.7.*op42/);
    assert.match(await page.evaluate(() => document.activeElement.getAttribute("class")), /selected/);
    await page.locator("#search").fill("no such node anywhere");
    assert.match(await found.innerText(), /0 nodes/);
    await page.locator("h1").click();
    assert.ok(await found.isHidden(), "a click elsewhere closes it");
    await end();
  });

  await t.test("switches: one pane, no marks, passes that change nothing, the keys", async () => {
    const { page, end } = await visit("gpt");
    assert.ok(await page.locator("[class*=mark-]").count() > 0);
    await page.getByLabel("differences").uncheck();
    assert.equal(await page.locator("[class*=mark-]").count(), 0);
    const options = () => right(page).getByRole("combobox", { name: "Right stage" }).locator("option").count();
    const changed = await options();
    await page.getByLabel("unchanged passes").check();
    assert.ok(await options() > changed);
    await page.getByLabel("two panes").uncheck();
    assert.ok(await page.locator(".pane").first().isHidden());
    await page.getByRole("button", { name: "keys" }).click();
    assert.ok(await page.locator("#help").isVisible());
    assert.equal(await page.getByRole("button", { name: "keys" }).getAttribute("aria-expanded"), "true");
    await settled(page);
    await screenshot(page, "one-pane-with-keys", { full: false });
    await end();
  });

  await t.test("a click is answered within a tenth of a second", async (inner) => {
    for (const name of ["gpt", "5000-nodes"]) {
      const { page, end } = await visit(name);
      const times = await clickTimes(page);
      if (process.env.DIPTYCH_BROWSER_TIMES) for (const time of times) inner.diagnostic(`${time.thread.toFixed(0)} ms of the thread, ${time.wall.toFixed(0)} ms: ${time.name}`);
      const worst = (key) => Math.max(...times.map((time) => time[key])).toFixed(0);
      const middle = (key) => times.map((time) => time[key]).sort((a, b) => a - b)[times.length / 2].toFixed(0);
      inner.diagnostic(`${name}, ${times.length} clicks, click to frame: median ${middle("wall")} ms, longest ${worst("wall")} ms; ` +
        `of the page's thread: median ${middle("thread")} ms, longest ${worst("thread")} ms`);
      assert.ok(mostMilliseconds >= worst("thread"), `${name}: ${worst("thread")} ms of the page's thread`);
      await end();
    }
  });
});
