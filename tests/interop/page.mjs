// Opens an exported page as a person would, and prints as JSON what became of it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [file, pictures] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), "bridle-browser-"));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: "/usr/bin/chromium",
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const page = browser.pages()[0];
const address = pathToFileURL(file).href;
const seen = { errors: [], requests: [], dialogs: 0 };
page.on("console", (message) => { if (message.type() !== "log") seen.errors.push(message.text()); });
page.on("pageerror", (error) => seen.errors.push(String(error)));
page.on("request", (request) => {
  if (request.url() !== address && !request.url().startsWith("data:")) seen.requests.push(request.url());
});
page.on("dialog", (dialog) => { seen.dialogs += 1; return dialog.dismiss(); });

await page.setViewportSize({ width: 1280, height: 900 });
await page.emulateMedia({ colorScheme: "light" });
await page.goto(address);
seen.title = await page.title();
seen.text = await page.locator("body").textContent();
seen.turns = await page.locator("section.turn").count();
seen.calls = await page.locator("details.call").count();
seen.headings = await page.locator("h1, h2").allTextContents();
// Elements that only content of the session could have made.
seen.foreign = await page.locator(
  "main script, iframe, object, embed, form, link, base, svg, [onerror], [onclick], [onload], [style]",
).count();
seen.links = await page.locator("main a").evaluateAll((all) => all.map((a) => a.getAttribute("href")));
seen.addedLines = await page.locator(".diff .added").allTextContents();

const colour = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
seen.light = await colour();
const call = page.locator("details.call").first();
const isOpen = () => call.evaluate((element) => element.open);
seen.folded = !(await isOpen());
await call.locator("summary").first().click();
seen.clicked = await isOpen();
await call.locator("summary").first().focus();
await page.keyboard.press("Enter");
seen.typed = !(await isOpen());
if (pictures) await page.screenshot({ path: join(pictures, "light.png"), fullPage: true });
await page.getByRole("button", { name: "Expand all" }).click();
seen.expanded = await page.locator("main details:not([open])").count() === 0;
await page.emulateMedia({ colorScheme: "dark" });
seen.dark = await colour();
if (pictures) await page.screenshot({ path: join(pictures, "dark.png"), fullPage: true });
await page.setViewportSize({ width: 390, height: 844 });
seen.overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
if (pictures) await page.screenshot({ path: join(pictures, "phone.png"), fullPage: true });

// The same page where no script runs: everything is still there to be read.
const plain = await browser.newPage();
const session = await browser.newCDPSession(plain);
await session.send("Emulation.setScriptExecutionDisabled", { value: true });
await plain.goto(address);
await plain.locator("details.call summary").first().click();
seen.readableWithoutScript = await plain.locator("details.call .inside").first().isVisible();
await browser.close();
rmSync(profile, { recursive: true, force: true });
console.log(JSON.stringify(seen));
