import { expect, it } from "vitest";
import { hostileSums } from "../../../mock/sums";
import { packageKey } from "./columns";

it("tells packages of one name and version apart", () => {
  const [row] = hostileSums().packages;
  if (!row) throw new Error("no packages");
  expect(packageKey({ ...row, package: { ...row.package, id: "other" } })).not.toBe(packageKey(row));
});
