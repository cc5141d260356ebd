import { expect, it } from "vitest";
import { templateOf, widthFor } from "./template";

const columns = [{ meta: { width: [1.5, 1.5] as const } }, {}, { meta: { width: [6, 9] as const } }];

it("gives columns their widths, and the rest to one without an end", () => {
  expect(templateOf(columns, false)).toBe("1.5rem minmax(4rem, 1fr) minmax(6rem, 9rem)");
});

it("lets crowded columns share what there is", () => {
  expect(templateOf(columns, true)).toBe("1.5rem minmax(0, 4fr) minmax(0, 6fr)");
});

it("needs more space for more columns", () => {
  expect(widthFor(columns)).toBe(widthFor(columns.slice(0, 2)) + 105);
});
