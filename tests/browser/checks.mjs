// What holds for every page: it asks for nothing and breaks nothing, fits each screen, reads without script, prints, and
// has no serious barrier.
import assert from "node:assert/strict";

import { axeProblems, colours, open, openAll, policyProblems, screenshot, settled, widthProblems, widths } from "./browser.mjs";

/// The narrowest first; it ends at the widest, in the light scheme, and a report with all its folds open.
const eachScreen = async ({ page, findings }, { name, kind, like, atWidest }) => {
  assert.deepEqual(await policyProblems(page), []);
  for (const width of widths) {
    await page.setViewportSize({ width, height: width > 500 ? 900 : 800 });
    // An explorer opens with as many panes as there is room for.
    if (kind === "explorer" && width !== widths[0]) await page.reload();
    await settled(page);
    assert.deepEqual(await widthProblems(page), [], `${width} px`);
    for (const scheme of width === 360 ? [] : ["dark", "light"]) {
      await page.emulateMedia({ colorScheme: scheme });
      // A report's whole height, which takes ten times as long, is drawn once, and not of those that are like another.
      await screenshot(page, `${name}-${width}-${scheme}`, { full: kind === "report" && !like && width === 1400 && scheme === "light" });
    }
  }
  await atWidest?.(page);
  await page.pdf({ format: "A4" });
  if (kind === "report") {
    await openAll(page);
    for (const width of widths) {
      await page.setViewportSize({ width, height: 800 });
      assert.deepEqual(await widthProblems(page), [], `${width} px, all opened`);
    }
  }
  assert.deepEqual(findings, []);
};

/// Colours in both schemes; all else once wide, once narrow.
const looks = [
  { name: "light", scheme: "light", width: 1400 },
  { name: "dark", scheme: "dark", width: 1400, rules: colours },
  { name: "400 px", scheme: "light", width: 400, rules: ["scrollable-region-focusable", "target-size"] },
];
const noBarrier = async ({ page }) => {
  await openAll(page);
  assert.deepEqual(await axeProblems(page, looks), []);
};

const withoutScript = async (browser, { kind, file }) => {
  const { page, findings, close } = await open(browser, file, { script: false });
  const heading = page.locator("h1");
  assert.ok(await heading.isVisible() && (await heading.innerText()).length > 3, "a heading");
  assert.ok(await page.locator("table").first().isVisible() || (await page.locator("details > summary").count()) > 0, "a table");
  await page.emulateMedia({ media: "print" });
  const pdf = await page.pdf({ format: "A4" });
  assert.equal(pdf.subarray(0, 5).toString(), "%PDF-");
  await page.setViewportSize({ width: 794, height: 1123 });  // A4 at 96 dots per inch
  if (kind === "report") assert.deepEqual(await widthProblems(page), [], "on paper");
  assert.deepEqual(findings, []);
  await close();
};

/// Two pages at a time.
export const everyPage = (t, browser, pages) => t.test("every page", { concurrency: 2 }, (all) => Promise.all(pages.map((page) =>
  all.test(page.name, async (one) => {
    const shown = await open(browser, page.file, { width: widths[0] });
    await one.test(`${page.name}: asks for nothing, keeps its policy, fits each screen`, () => eachScreen(shown, page));
    await one.test(`${page.name}: no serious barrier`, () => noBarrier(shown));
    await shown.close();
    await one.test(`${page.name}: reads without script, and prints`, () => withoutScript(browser, page));
  }))));
