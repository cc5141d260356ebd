/** The path below which the operator serves this page, from the first slash to the last, as the page says. */
export function readBasePath(page: Document): string {
  const path = page.querySelector<HTMLMetaElement>('meta[name="base-path"]')?.content ?? "/";
  // The development server leaves the page as it is.
  return path.startsWith("/") ? path : "/";
}

export const basePath = readBasePath(document);

/** The address of a path of the operator, such as /api/v1/images, seen from the browser. */
export const below = (path: string) => basePath + path.slice(1);

/** Where a page is that was opened without the base path; undefined for one that was opened with it. */
export const movedTo = ({ pathname, search }: Pick<Location, "pathname" | "search">, base = basePath) =>
  pathname.startsWith(base) ? undefined : base + pathname.slice(1) + search;
