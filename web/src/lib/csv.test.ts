import { expect, it } from "vitest";
import { toCsv } from "./csv";

const written = (value: string | number | boolean | undefined) => toCsv([["a", () => value]], [0]);

it("writes a table", () => {
  expect(
    toCsv<[string, number]>(
      [
        ["name", ([name]) => name],
        ["count", ([, count]) => count],
      ],
      [
        ["a, b", 1],
        ['"c"', -2],
      ],
    ),
  ).toBe('name,count\r\n"a, b",1\r\n"""c""",-2\r\n');
});

it.each([
  [undefined, ""],
  [true, "yes"],
  [false, ""],
  [0.5, "0.5"],
  ["árvíz 日本", "árvíz 日本"],
  // Nothing that a spreadsheet runs, and no line that begins another row.
  ["=1+1", "'=1+1"],
  ["  +1", "'  +1"],
  ["-1", "'-1"],
  ["@SUM(A1)", "'@SUM(A1)"],
  ["＝1", "'＝1"],
  ["a\r\nb\u202ec\t", "abc"],
  [" a", '" a"'],
])("writes %s", (value, want) => expect(written(value)).toBe(`a\r\n${want}\r\n`));
