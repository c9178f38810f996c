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

export const launch = () => chromium.launch({
  executablePath: process.env.DIPTYCH_CHROMIUM,
  // Chromium's own sandbox doesn't work for root.
  args: process.getuid() === 0 ? ["--no-sandbox"] : [],
});

/// A page of `file` whose `findings` are empty as long as it does nothing but show itself.
export const open = async (browser, file, { width = 1400, height = heightOf(width), scheme = "light", script = true, grant = [] } = {}) => {
  const context = await browser.newContext({
    viewport: { width, height }, colorScheme: scheme, javaScriptEnabled: script, reducedMotion: "reduce", permissions: grant,
  });
  const page = await context.newPage();
  const findings = [];
  const own = pathToFileURL(file).href;
  await context.route((url) => url.href.split("#")[0] !== own, (route) => {
    findings.push(`asks for ${route.request().url().slice(0, 200)}`);
    return route.abort();
  });
  page.on("console", (message) => findings.push(`console ${message.type()}: ${message.text().slice(0, 300)}`));
  page.on("pageerror", (error) => findings.push(`error: ${String(error.stack).slice(0, 600)}`));
  page.on("dialog", (dialog) => {
    findings.push(`dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  page.on("popup", () => findings.push("opens a window"));
  page.on("download", () => findings.push("downloads a file"));
  page.on("framenavigated", (frame) => {
    if (frame.url().split("#")[0] !== own) findings.push(`goes to ${frame.url().slice(0, 200)}`);
  });
  if (script) {
    await page.exposeFunction("foundByTest", (text) => { findings.push(text); });
    await page.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) => {
        window.foundByTest(`against the policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
      });
    });
  }
  await page.goto(own);
  return { page, findings, close: () => context.close() };
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

/// Findings of axe-core that are serious or critical, by `looks`: all rules in the first, in the others those that they name. Its
/// script needs a page without policy: a page of its own.
export const axeProblems = async (browser, file, looks = [{ name: "light", scheme: "light", width: 1400 }], prepare = async () => {}) => {
  const context = await browser.newContext({ bypassCSP: true, reducedMotion: "reduce" });
  const page = await context.newPage();
  await page.goto(pathToFileURL(file).href);
  await prepare(page);
  await page.addScriptTag({ content: axeSource });
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
  await context.close();
  return problems;
};

export const screenshot = (page, name, { full = true } = {}) => page.screenshot({ path: path.join(folder, "screenshots", `${name}.png`), fullPage: full });

/// Two frames later all that a change caused is drawn.
export const settled = (page) => page.evaluate(() => new Promise((resolve) => {
  requestAnimationFrame(() => requestAnimationFrame(resolve));
}));

/// All of a report's folds opened.
export const openAll = (page) => page.evaluate(() => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
