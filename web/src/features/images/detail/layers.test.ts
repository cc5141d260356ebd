import { expect, test } from "vitest";
import type { ImageLayer } from "@/gen/model";
import { layerRows } from "./layers";

const layer = (number: number | undefined, size?: number) =>
  ({ number, size, packages: 0, counts: {} }) as unknown as ImageLayer;

test("sizes add up until one is not known, packages in no layer have none", () => {
  const upTo = (...layers: ImageLayer[]) => layerRows(layers).map((row) => row.upTo);
  expect(upTo(layer(1, 10), layer(2, 0), layer(3, 5), layer(undefined))).toEqual([10, 10, 15, undefined]);
  expect(upTo(layer(1, 10), layer(2), layer(3, 5))).toEqual([10, undefined, undefined]);
});
