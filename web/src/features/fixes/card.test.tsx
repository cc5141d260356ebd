import { render, screen } from "@testing-library/react";
import { MemoryRouter } from "react-router";
import { expect, it } from "vitest";
import { makeFixes } from "../../../mock/fixes";
import { RolloutOperator } from "../../../mock/operator";
import { FixCard } from "./columns";

it("names the package of an update that says the same as another one", () => {
  const { images, sums } = new RolloutOperator({ images: 20 });
  const row = makeFixes(images, sums).find(({ action }) => action === "update");
  if (!row) throw new Error("no updates");
  const purl = "pkg:npm/lodash@4.17.20";
  const update = { ...row, packages: row.packages.map((pkg) => ({ ...pkg, purl })) };
  const card = (explicit: boolean) => (
    <MemoryRouter>
      <FixCard row={update} explicit={explicit} open={false} onToggle={() => undefined} />
    </MemoryRouter>
  );
  const { rerender } = render(card(false));
  expect(screen.queryByText(purl)).toBeNull();
  rerender(card(true));
  expect(screen.getByText(purl)).toBeInTheDocument();
});
