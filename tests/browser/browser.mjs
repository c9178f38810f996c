// Chromium, watched: what a page logs, asks for, or tries against its policy is a finding.
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.env.DIPTYCH_BROWSER_MODULES}/`);
const { chromium } = require("playwright-core");
const axeSource = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const folder = process.env.DIPTYCH_BROWSER_FOLDER;
export const widths = [360, 400, 1400];
const heightOf = (width) => (width > 500 ? 900 : 800);

/// Parts of Chromium that are turned off: pages behind the address bar that no one sees, which take a third of all CPU time. Of
/// such lists Chromium heeds only the last, so what playwright-core turns off stands here too.
const features = [
  "WebUIOmniboxPopup", "WebUIOmniboxAimPopup",
  "AvoidUnnecessaryBeforeUnloadCheckSync", "BoundaryEventDispatchTracksNodeRemoval", "DestroyProfileOnBrowserClose",
  "DialMediaRouteProvider", "GlobalMediaControls", "HttpsUpgrades", "LensOverlay", "MediaRouter", "PaintHolding",
  "ThirdPartyStoragePartitioning", "Translate", "AutoDeElevate", "RenderDocument", "OptimizationHints",
];

export const launch = () => chromium.launch({
  executablePath: process.env.DIPTYCH_CHROMIUM,
  // Chromium's own sandbox doesn't work for root.
  args: [`--disable-features=${features}`, ...(process.getuid() === 0 ? ["--no-sandbox"] : [])],
});

/// A window is for one page at a time; `now` has that page's address and findings.
const openWindow = async (browser, script, permissions) => {
  const context = await browser.newContext({ javaScriptEnabled: script, reducedMotion: "reduce", permissions });
  const page = await context.newPage();
  const now = { own: "", findings: [] };
  const found = (text) => { now.findings.push(text); };
  await context.route((url) => url.href.split("#")[0] !== now.own, (route) => {
    found(`asks for ${route.request().url().slice(0, 200)}`);
    return route.abort();
  });
  page.on("console", (message) => found(`console ${message.type()}: ${message.text().slice(0, 300)}`));
  page.on("pageerror", (error) => found(`error: ${String(error.stack).slice(0, 600)}`));
  page.on("dialog", (dialog) => {
    found(`dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  page.on("popup", () => found("opens a window"));
  page.on("download", () => found("downloads a file"));
  page.on("framenavigated", (frame) => {
    if (frame.url().split("#")[0] !== now.own) found(`goes to ${frame.url().slice(0, 200)}`);
  });
  if (script) {
    await page.exposeFunction("foundByTest", found);
    await page.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) => {
        window.foundByTest(`against the policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
      });
    });
  }
  return { page, now };
};
/// Windows that wait for their next page, by what they allow: a new one takes as long as a page.
const idle = new Map();

/// A page of `file` whose `findings` are empty as long as it does nothing but show itself. One that isn't closed, because its test
/// failed, keeps its window.
export const open = async (browser, file, { width = 1400, height = heightOf(width), scheme = "light", script = true, grant = [] } = {}) => {
  const windows = idle.get(`${script} ${grant}`) ?? [];
  idle.set(`${script} ${grant}`, windows);
  const { page, now } = windows.pop() ?? await openWindow(browser, script, grant);
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: scheme, media: null });
  const findings = [];
  Object.assign(now, { own: pathToFileURL(file).href, findings });
  await page.goto(now.own);
  return { page, findings, close: async () => {
    Object.assign(now, { own: "about:blank", findings: [] });
    await page.goto(now.own);
    windows.push({ page, now });
  } };
};

/// What the page says about itself that doesn't hold: its policy, its width.
export const policyProblems = (page) => page.evaluate(() => {
  const policy = document.querySelector("head > meta[http-equiv='Content-Security-Policy']");
  if (!policy) return ["no Content-Security-Policy"];
  const problems = [];
  if (!/^default-src 'none';/.test(policy.content)) problems.push(`the policy allows too much: ${policy.content}`);
  if (/unsafe|\*|https?:|data:/.test(policy.content)) problems.push(`the policy has an exception: ${policy.content}`);
  const first = document.querySelector("style, script, link");
  if (first && !(policy.compareDocumentPosition(first) & Node.DOCUMENT_POSITION_FOLLOWING)) problems.push("the policy comes too late");
  return problems;
});
/// Scrolls sideways? What sticks out is named, unless it stands in something that scrolls by itself.
export const widthProblems = (page) => page.evaluate(() => {
  const room = document.documentElement.clientWidth;
  const width = Math.max(document.documentElement.scrollWidth, document.body.scrollWidth);
  if (room >= width) return [];
  const clipped = (node) => {
    for (let at = node.parentElement; at && at !== document.body; at = at.parentElement) {
      if (getComputedStyle(at).overflowX !== "visible") return true;
    }
    return false;
  };
  const names = [];
  const text = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (text.nextNode() && 3 > names.length) {
    range.selectNodeContents(text.currentNode);
    const parent = text.currentNode.parentElement;
    if (range.getBoundingClientRect().right > room + 0.5 && !clipped(text.currentNode)) names.push(parent.outerHTML.slice(0, 120));
  }
  return [`${width} px wide in ${room} px: ${names.join(" | ")}`];
});

/// Findings of axe-core that are serious or critical, by `looks`: all rules in the first, in the others those that they name.
export const axeProblems = async (page, looks = [{ name: "light", scheme: "light", width: 1400 }]) => {
  await page.evaluate(axeSource);  // what the tests evaluate isn't subject to the page's policy
  const problems = [];
  for (const { name, scheme, width, rules } of looks) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height: 900 });
    await settled(page);  // what the page does about its new size it does with the next frame
    const violations = await page.evaluate(async (only) => {
      const run = only ? { runOnly: { type: "rule", values: only } } : {};
      const found = await window.axe.run(document, { resultTypes: ["violations"], ...run });
      return found.violations.map(({ id, impact, nodes }) => ({
        id, impact, count: nodes.length, nodes: nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} (${node.any.concat(node.all).map((check) => check.message).join("; ").slice(0, 240)})`),
      }));
    }, rules);
    for (const { id, impact, count, nodes } of violations) {
      if (["serious", "critical"].includes(impact)) problems.push(`${name}: ${impact} ${id}, ${count} times: ${nodes.join(" | ")}`);
    }
  }
  return problems;
};
/// Rules about colours: all that a scheme changes.
export const colours = ["color-contrast", "link-in-text-block"];

export const screenshot = (page, name, { full = true } = {}) => page.screenshot({ path: path.join(folder, "screenshots", `${name}.png`), fullPage: full });

/// Two frames later all that a change caused is drawn.
export const settled = (page) => page.evaluate(() => new Promise((resolve) => {
  requestAnimationFrame(() => requestAnimationFrame(resolve));
}));

/// All of a report's folds opened.
export const openAll = (page) => page.evaluate(() => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
