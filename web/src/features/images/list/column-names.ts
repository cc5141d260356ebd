/** The columns of the list; that with the name of the image is always shown. */
export const imageColumns = {
  image: "Image",
  platform: "Platform",
  state: "State",
  findings: "Findings",
  fixable: "Fixable",
  kev: "Known exploited",
  overdue: "Overdue",
  packages: "Packages",
  size: "Size",
  owners: "Owners",
  endOfLife: "End of life",
  created: "Created",
  firstSeen: "First seen",
  cataloger: "Cataloger",
  scanned: "Scanned",
} as const;
export type ImageColumn = keyof typeof imageColumns;

export const columnNames = Object.keys(imageColumns) as ImageColumn[];

/** The columns that a user can choose. */
export const columnChoices = (owners: boolean) =>
  columnNames
    .filter((name) => name !== "image" && (owners || name !== "owners"))
    .map((name) => ({ name, label: imageColumns[name] }));

/** What is shown unless somebody chooses. */
export const defaultColumns = (wide: boolean): ImageColumn[] => [
  "image",
  ...(wide ? (["platform"] as const) : []),
  "state",
  "findings",
  "packages",
  "scanned",
];
