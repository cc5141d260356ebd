import { useMediaQuery } from "@/lib/use-media-query";

interface Sized {
  meta?: { width?: readonly [min: number, max: number | `${number}fr`] };
}

/** The size of the font of the page, and what is beside the columns: padding, border and scrollbar. */
const rem = 15;
const beside = 6 * rem + 20;
/** The widest that the page gets. */
const widest = 100 * rem;

const widthOf = ({ meta }: Sized): NonNullable<NonNullable<Sized["meta"]>["width"]> =>
  meta?.width ?? [4, "1fr"];

/** How wide a window has to be for the columns at their least, in pixels. */
export const widthFor = (columns: readonly Sized[]) =>
  Math.ceil(beside + rem * columns.reduce((sum, column) => sum + widthOf(column)[0] + 1, 0));

/** The grid of columns that have space, and of those that are crowded: they share what there is, so that the page gets no wider. */
export function templateOf(columns: readonly Sized[], crowded: boolean): string {
  return columns
    .map(widthOf)
    .map(([min, max]) => {
      if (min === max && min < 2) return `${min}rem`;
      return crowded
        ? `minmax(0, ${min}fr)`
        : `minmax(${min}rem, ${typeof max === "string" ? max : `${max}rem`})`;
    })
    .join(" ");
}

/** The grid of the columns in this window; undefined without columns. */
export function useTemplate(columns: readonly Sized[]): string | undefined {
  const width = widthFor(columns);
  const fits = useMediaQuery(`(min-width: ${width}px)`) && width <= widest + 20;
  return columns.length === 0 ? undefined : templateOf(columns, !fits);
}
