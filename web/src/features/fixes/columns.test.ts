import { expect, it } from "vitest";
import { hostileFixes } from "../../../mock/fixes";
import { fixKey, sameAsOthers } from "./columns";

it("tells updates of packages of one name and version apart", () => {
  const row = hostileFixes().find(({ action }) => action === "update");
  if (!row) throw new Error("no updates");
  const other = { ...row, packages: row.packages.map((pkg) => ({ ...pkg, id: "other" })) };
  expect(fixKey(other)).not.toBe(fixKey(row));
});

it("finds the updates that say the same as others of the image", () => {
  const row = hostileFixes().find(({ action }) => action === "update");
  if (!row) throw new Error("no updates");
  const other = { ...row, packages: row.packages.map((pkg) => ({ ...pkg, id: "other" })) };
  const elsewhere = { ...row, imageId: "another image" };
  expect([...sameAsOthers([row, elsewhere])]).toEqual([]);
  expect(sameAsOthers([row, elsewhere, other])).toEqual(new Set([fixKey(row), fixKey(other)]));
});
