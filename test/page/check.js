// Opens pages in Chromium, and exits with 1 if one is not as run.sh says.
"use strict";
const fs = require("fs");
const path = require("path");
const puppeteer = require("puppeteer-core");

const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const violations = axe + `;axe.run().then(r => r.violations.map(v => v.id + " " + v.nodes.length + " " + v.nodes[0].html.slice(0, 200)))`;

async function look(browser, file, out, width, scheme) {
  const wrong = [];
  const page = await browser.newPage();
  page.setDefaultTimeout(0);
  const url = "file://" + path.resolve(file);
  page.on("request", r => { if (r.url() !== url) wrong.push("requests " + r.url()); });
  page.on("pageerror", e => wrong.push("error " + e));
  page.on("console", m => { if (["error", "warn"].includes(m.type())) wrong.push("console " + m.text()); });
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.goto(url);
  await page.screenshot({ path: path.join(out, `${path.basename(file, ".html")}-${width}-${scheme}.png`), fullPage: true });
  await page.evaluate(() => document.querySelectorAll("details").forEach(d => { d.open = true; }));
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  if (width === 1280 && scheme === "light" && height < 16000) await page.screenshot({ path: path.join(out, path.basename(file, ".html") + "-open.png"), fullPage: true });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  if (wide > 0) wrong.push(`is ${wide} pixels wider than the window`);
  if (await page.evaluate(() => window.attacked)) wrong.push("a text has run");
  if (await page.evaluate(() => document.scripts.length !== 1 || document.images.length > 0)) wrong.push("a text has made an element");
  const buttons = await page.$$("button.copy");
  if (buttons.length > 0) {
    await buttons[0].click();
    await page.waitForFunction(() => document.querySelector("button.copy").textContent !== "copy", { timeout: 300000 }).catch(() => wrong.push("the button does not copy"));
  }
  const session = await page.createCDPSession(); // the page's policy does not hold for the debugger
  const { result } = await session.send("Runtime.evaluate", { expression: violations, awaitPromise: true, returnByValue: true });
  for (const v of result.value) wrong.push("axe " + v);
  await page.close();
  return wrong;
}

// A word of a list that is folded, in a text that occurs once in the page.
const folded = `(() => {
  const all = document.body.textContent;
  for (const e of document.querySelectorAll("details:not([open]) li, details:not([open]) td")) {
    const text = e.textContent.trim();
    if (e.children.length === 0 && /^[\\w./-]{8,80}$/.test(text) && all.split(text).length === 2) {
      return text;
    }
  }
})()`;
const seen = `(text => [...document.querySelectorAll("details li, details td")].some(e => e.textContent.trim() === text && e.checkVisibility({ contentVisibilityAuto: true })))`;

// Finds a folded text as a search in the page does: a link to a text fragment opens the same
// folds (https://html.spec.whatwg.org/multipage/interaction.html#ancestor-details-revealing-algorithm).
// Then it prints the page, which shows what is folded.
async function find(browser, file) {
  const wrong = [];
  const page = await browser.newPage();
  page.setDefaultTimeout(0);
  const url = "file://" + path.resolve(file);
  await page.goto(url);
  const text = await page.evaluate(folded);
  if (text === undefined) {
    await page.close();
    return null;
  }
  if (await page.evaluate(`${seen}(${JSON.stringify(text)})`)) wrong.push(`${text} is not folded`);
  await page.emulateMediaType("print");
  await page.waitForFunction(`${seen}(${JSON.stringify(text)})`, { timeout: 60000 }).catch(() => wrong.push(`print does not show ${text}`));
  await page.close();
  const again = await browser.newPage();
  again.setDefaultTimeout(0);
  await again.goto(url + "#:~:text=" + encodeURIComponent(text).replaceAll("-", "%2D"));
  await again.waitForFunction(`${seen}(${JSON.stringify(text)})`, { timeout: 60000 }).catch(() => wrong.push(`a search does not find ${text}`));
  await again.close();
  return wrong;
}

async function main() {
  const [out, ...files] = process.argv.slice(2);
  const browser = await puppeteer.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"], timeout: 0, protocolTimeout: 0 }); // no page is judged by its time
  let failed = false;
  for (const file of files) {
    for (const width of [1280, 390]) {
      for (const scheme of ["light", "dark"]) {
        const wrong = await look(browser, file, out, width, scheme);
        console.log(`${path.basename(file)} ${width} ${scheme}: ${wrong.length === 0 ? "ok" : wrong.join("; ")}`);
        failed ||= wrong.length > 0;
      }
    }
  }
  let found = 0;
  for (const file of files) {
    const wrong = await find(browser, file);
    if (wrong === null) continue; // nothing is folded, or no text occurs once
    found++;
    console.log(`${path.basename(file)} search and print: ${wrong.length === 0 ? "ok" : wrong.join("; ")}`);
    failed ||= wrong.length > 0;
  }
  if (found < 3) {
    console.log(`only ${found} pages have a folded text to search for`);
    failed = true;
  }
  await browser.close();
  process.exit(failed ? 1 : 0);
}

main();
