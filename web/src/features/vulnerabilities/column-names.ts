/** The columns of the list; that with the ID is always shown. */
export const vulnerabilityColumns = {
  id: "Vulnerability",
  severity: "Severity",
  risk: "Risk",
  epss: "EPSS",
  images: "Images",
  packages: "Packages",
  workloads: "Workloads",
  fix: "Fix",
  firstSeen: "First seen",
} as const;
export type VulnerabilityColumn = keyof typeof vulnerabilityColumns;

/** All of them are shown unless somebody chooses. */
export const columnNames = Object.keys(vulnerabilityColumns) as VulnerabilityColumn[];

/** The columns that a user can choose. */
export const columnChoices = columnNames
  .filter((name) => name !== "id")
  .map((name) => ({ name, label: vulnerabilityColumns[name] }));
