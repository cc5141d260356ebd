import { render, screen } from "@testing-library/react";
import { expect, it } from "vitest";
import { distributionName, EndOfLifeMark } from "./lifecycle";

it("names a distribution", () => {
  expect(distributionName({ name: "debian", version: "12" })).toBe("debian 12");
  expect(distributionName({ name: "wolfi" })).toBe("wolfi");
  expect(distributionName(undefined)).toBe("");
});

it("marks a distribution that has reached its end of life in words", () => {
  render(
    <EndOfLifeMark
      distribution={{ name: "debian", version: "11", endOfLife: "2024-08-14", endOfLifeReached: true }}
    />,
  );
  expect(screen.getByText("End of life")).toHaveAttribute(
    "title",
    "debian 11 has had no security updates since Aug 14, 2024",
  );
});

it.each([
  undefined,
  { name: "arch" },
  { name: "debian", version: "13", endOfLife: "2028-08-09", endOfLifeReached: false },
])("does not mark %j", (distribution) => {
  const { container } = render(<EndOfLifeMark distribution={distribution} />);
  expect(container).toBeEmptyDOMElement();
});
