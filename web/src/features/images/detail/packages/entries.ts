import type { ImagePackage } from "@/gen/model";

/** A row of the packages of a layer: a package, or the location that the packages below it have in common. */
export type Entry = { path: string } | { row: ImagePackage; below: boolean };

/** Puts a location in front of packages that follow each other and share it. The location of a package alone stands in its row. */
export function withLocations(rows: ImagePackage[]): Entry[] {
  const shared = (index: number, other: number) =>
    rows[index]?.path !== undefined && rows[index].path === rows[other]?.path;
  return rows.flatMap((row, index): Entry[] => {
    const first = !shared(index, index - 1) && shared(index, index + 1);
    const below = shared(index, index - 1) || shared(index, index + 1);
    const entry = { row, below };
    return first ? [{ path: row.path ?? "" }, entry] : [entry];
  });
}
