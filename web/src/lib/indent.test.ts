import { expect, it } from "vitest";
import { indentJSON } from "./indent";

const indent = (json: string) => indentJSON(json, 10_000);

it.each([
  {},
  [],
  { a: 1, b: [true, null, -1.5e3], c: {}, d: [], e: { f: [{ g: "x" }] } },
  { 'quote " in it': '{"a":[1,2]}', back: "\\", both: '\\"', comma: "a,b", brace: "}" },
  [[[["deep"]]]],
])("breaks %j into the same lines as JSON.stringify", (value) => {
  const want = JSON.stringify(value, undefined, 2);
  expect(indent(JSON.stringify(value))).toBe(want);
  // Also one that is broken into lines already.
  expect(indent(JSON.stringify(value, undefined, 4))).toBe(want);
});

it("breaks the beginning of a document, wherever it ends", () => {
  const json = JSON.stringify({ artifacts: [{ name: 'zl"ib', version: "1\\" }] });
  for (let end = 0; end < json.length; end++) {
    const lines = indent(json.slice(0, end));
    expect(lines.replace(/\n */g, "").replaceAll(": ", ":")).toBe(json.slice(0, end));
  }
});

it("keeps to its bound, however deep or broken the document is", () => {
  expect(indentJSON("[".repeat(100_000), 5000)).toHaveLength(5000);
  expect(indentJSON("]".repeat(100_000), 5000)).toHaveLength(5000);
  expect(indentJSON(`"${"a".repeat(100_000)}`, 5000)).toHaveLength(5000);
  expect(indentJSON("[".repeat(1000), 1e6).split("\n").at(-1)?.length).toBeLessThan(100);
});
