import { expect, it } from "vitest";
import { hostileFixes } from "../../../mock/fixes";
import { fixKey } from "./columns";

it("tells updates of packages of one name and version apart", () => {
  const row = hostileFixes().find(({ action }) => action === "update");
  if (!row) throw new Error("no updates");
  const other = { ...row, packages: row.packages.map((pkg) => ({ ...pkg, id: "other" })) };
  expect(fixKey(other)).not.toBe(fixKey(row));
});
