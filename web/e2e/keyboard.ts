import { expect, type Locator, type Page } from "@playwright/test";

/** The most controls that are passed on the way to one. */
const maxTabs = 60;

/** Goes to a control with the Tab key, as who has no pointer. */
export async function tabTo(page: Page, control: Locator) {
  await expect(control).toBeVisible();
  for (let tabs = 0; tabs < maxTabs; tabs++) {
    if (await control.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`${String(control)} is not among the next ${maxTabs} controls`);
}
