// The graph explorer: pages of small and large graphs, and all that a person does in it.
import assert from "node:assert/strict";
import test from "node:test";

import { axeProblems, colours, launch, open, screenshot, settled } from "./browser.mjs";
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

/// What it opens with fits a laptop's screen, and can be read.
const fitsLaptops = async (page) => {
  for (const [width, height] of [[1400, 900], [1280, 720]]) {
    if (width !== page.viewportSize().width) {
      await page.setViewportSize({ width, height });
      await page.reload();
    }
    for (const { scale, hidden } of await fits(page)) {
      assert.ok(scale > readable - 0.01, `scale ${scale}`);
      assert.ok(Math.max(...hidden) <= 0, `${width} x ${height}: ${hidden} px can't be seen`);
    }
  }
};

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
  const made = ([name, ...words]) => explore(`graph-${name}`, ...words);
  const timed = (words) => words.includes("--times");
  const files = new Map();
  for (const words of workloads.filter(timed)) files.set(words, await made(words));  // alone: what it shows is measured
  await Promise.all(workloads.filter((words) => !timed(words)).map(async (words) => files.set(words, await made(words))));
  const pages = workloads.map((words) => ({ name: words[0], kind: "explorer", file: files.get(words), atWidest: fitsLaptops }));
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
    assert.equal(await heat.inputValue(), "time");  // it opens with what each pane's own arm takes
    for (const [choice, unit] of [["time", /[mµn]s$/], ["arm 0", /[mµn]s$/], ["arm 1", /[mµn]s$/], ["saved", /[mµn]s$/], ["limit", /% of limit$/], ["bytes", /B$/]]) {
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
      const [, ofLimit] = whole.match(new RegExp(`${arm}\\s[^\\n]*, ~?([0-9.]+) % of limit`));
      assert.ok(ofLimit > 0.01 && 150 > ofLimit, `${arm}: ${ofLimit} % of limit`);
    }
    assert.deepEqual(findings, []);
    await close();
  });

  await t.test("with times it opens with eager beside graph, each with its own", async () => {
    const { page, end } = await visit("mlp");
    const stage = (pane) => pane.getByRole("combobox", { name: /stage$/ });
    assert.match(await stage(left(page)).evaluate((select) => select.selectedOptions[0].text), /^eager/);
    assert.equal(await stage(left(page)).evaluate((select) => select.selectedIndex), 0, "the first of the list");
    const call = async (pane) => (await pane.locator(".rest").innerText()).match(/^A call in (\w+) takes ([0-9.]+ [mµn]?s), [0-9.]+ [mµn]s of it in no box$/).slice(1);
    assert.deepEqual([(await call(left(page)))[0], (await call(right(page)))[0]], ["eager", "graph"]);
    assert.match(await page.locator("#panel h3:text-is('In no box') + ul").innerText(), /outside ops\): eager .*, graph /);
    // A pane's boxes show what the panel says of its arm.
    const cost = await left(page).locator(".cost text").first().textContent();
    await left(page).locator("g.dg-node[class*='heat-']:not(.heat-0)").first().press(" ");
    const shownHere = async (choice) => {
      await page.getByLabel("heat").selectOption(choice);
      return left(page).locator(".cost text").allTextContents();
    };
    assert.deepEqual(await shownHere("time"), await shownHere("arm 0"));
    assert.ok((await shownHere("time")).includes(cost));
    assert.notDeepEqual(await shownHere("time"), await shownHere("arm 1"));
    await page.getByLabel("heat").selectOption("time");
    // Of eager and the capture the pictures are the same, and nothing differs.
    await stage(right(page)).selectOption("1");
    assert.equal((await call(right(page)))[0], "graph");
    assert.equal(await page.locator("#summary").innerText(), "no difference");
    await end();
    const bare = await visit("vit");
    assert.equal(await stage(left(bare.page)).inputValue(), "1", "as captured");
    assert.ok(await left(bare.page).locator(".rest").isHidden());
    assert.ok(await bare.page.getByLabel("heat").locator("option[value=limit]").count() === 0, "nothing was measured");
    await bare.end();
  });

  await t.test("parameters and states are drawn when they are asked for", async () => {
    const { page, end } = await visit("vit");
    const chips = (pane) => pane.locator("g.dg-chip");
    assert.equal(await chips(page).count(), 0);
    await opening(right(page)).filter({ hasText: "blocks" }).focus();
    await page.keyboard.press("p");
    assert.ok(await page.getByLabel("parameters", { exact: true }).isChecked());
    assert.match(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), /^blocks/, "the focus stays");
    assert.match(await chips(right(page)).filter({ hasText: / parameters, / }).first().textContent(), /^\d+ parameters, [0-9.]+ [KM]iB/, "many are one");
    await page.keyboard.press("Enter");
    const weight = chips(right(page)).filter({ hasText: /weight f32/ }).first();
    await weight.click();
    assert.equal(await weight.getAttribute("aria-pressed"), "true");
    const panel = page.locator("#panel");
    assert.match(await panel.locator("h2").innerText(), /^blocks\.0\..*weight$/);
    assert.match(await panel.locator("dl").innerText(), /type\s+f32\[.*\]\s+bytes\s+[0-9.]+ [KM]?i?B/);
    const users = await panel.locator("h3:text-is('Read by') + ul button").count();
    assert.ok(users > 0);
    assert.ok(await right(page).locator("g.dg-node.related").count() > 0, "who reads it is marked");
    // No chip leaves its box or covers another.
    const problems = await page.evaluate(() => {
      const rect = (element) => element.getBoundingClientRect();
      const inside = (a, b) => a.left >= b.left - 1 && b.right + 1 >= a.right && a.top >= b.top - 1 && b.bottom + 1 >= a.bottom;
      const apart = (a, b) => a.left >= b.right || b.left >= a.right || a.top >= b.bottom || b.top >= a.bottom;
      return [...document.querySelectorAll(".pane svg")].flatMap((svg) => {
        const all = [...svg.querySelectorAll(".dg-chip-box")].map(rect);
        const boxes = [...svg.querySelectorAll(".dg-box")].map(rect);
        return all.filter((chip, i) => !boxes.some((box) => inside(chip, box)) || all.some((other, k) => k !== i && !apart(chip, other)));
      });
    });
    assert.deepEqual(problems, []);
    // By keyboard: from a box down to its chips, Enter selects.
    await right(page).locator("g.dg-node").filter({ hasText: "norm" }).first().focus();
    await page.keyboard.press("ArrowDown");
    assert.match(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), /^(state|captured) ".*": .*, read by /);
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-pressed")), "true");
    const name = await panel.locator("h2").innerText();
    // The panel leads from a node to what it reads, too.
    await panel.locator("h3:text-is('Read by') + ul button").first().click();
    await panel.getByRole("button", { name }).first().click();
    assert.equal(await panel.locator("h2").innerText(), name);
    await screenshot(page, "parameters", { full: false });
    await page.keyboard.press("p");
    assert.equal(await chips(page).count(), 0);
    await end();
    const fresh = await visit("vit");
    await fresh.page.getByLabel("parameters", { exact: true }).check();
    assert.deepEqual(await axeProblems(fresh.page, [
      { name: "light", scheme: "light", width: 1400 }, { name: "dark", scheme: "dark", width: 1400, rules: colours }]), []);
    await fresh.end();
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
    assert.equal(await stage(), "1");
    await page.keyboard.press("]");
    assert.ok(await stage() > "1");
    await page.keyboard.press("[");
    await page.keyboard.press("[");
    assert.equal(await stage(), "0", "eager");
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
