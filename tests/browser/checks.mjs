// What holds for every page: it asks for nothing and breaks nothing, fits each screen, reads without script, prints, and
// has no serious barrier.
import assert from "node:assert/strict";

import { axeProblems, open, openAll, policyProblems, screenshot, settled, widthProblems, widths } from "./browser.mjs";

const eachScreen = async (browser, { name, kind, file }) => {
  const { page, findings, close } = await open(browser, file);
  assert.deepEqual(await policyProblems(page), []);
  for (const width of [...widths].reverse()) {
    await page.setViewportSize({ width, height: width > 500 ? 900 : 800 });
    if (kind === "explorer") await page.reload();  // it opens with as many panes as there is room for
    await settled(page);
    assert.deepEqual(await widthProblems(page), [], `${width} px`);
    for (const scheme of width === 360 ? [] : ["dark", "light"]) {
      await page.emulateMedia({ colorScheme: scheme });
      await screenshot(page, `${name}-${width}-${scheme}`, { full: kind === "report" });
    }
  }
  await page.pdf({ format: "A4" });
  if (kind === "report") {
    await openAll(page);
    for (const width of widths) {
      await page.setViewportSize({ width, height: 800 });
      assert.deepEqual(await widthProblems(page), [], `${width} px, all opened`);
    }
  }
  assert.deepEqual(findings, []);
  await close();
};

/// Colours in both schemes; all else once wide, once narrow.
const looks = [
  { name: "light", scheme: "light", width: 1400 },
  { name: "dark", scheme: "dark", width: 1400, rules: ["color-contrast", "link-in-text-block"] },
  { name: "400 px", scheme: "light", width: 400, rules: ["scrollable-region-focusable", "target-size"] },
];
const noBarrier = async (browser, { file }) => assert.deepEqual(await axeProblems(browser, file, looks, openAll), []);

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

export const everyPage = async (t, browser, pages) => {
  for (const page of pages) {
    await t.test(`${page.name}: asks for nothing, keeps its policy, fits each screen`, () => eachScreen(browser, page));
    await t.test(`${page.name}: no serious barrier`, () => noBarrier(browser, page));
    await t.test(`${page.name}: reads without script, and prints`, () => withoutScript(browser, page));
  }
};
