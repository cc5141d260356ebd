/** The columns of the list; that with the name is always shown. */
export const workloadColumns = {
  name: "Workload",
  namespace: "Namespace",
  kind: "Kind",
  owner: "Owner",
  images: "Images",
  containers: "Containers",
  findings: "Findings",
  fixable: "Fixable",
  kev: "Known exploited",
  overdue: "Overdue",
  since: "Seen since",
} as const;
export type WorkloadColumn = keyof typeof workloadColumns;

export const columnNames = Object.keys(workloadColumns) as WorkloadColumn[];

/** The columns that a user can choose. */
export const columnChoices = (owners: boolean) =>
  columnNames
    .filter((name) => name !== "name" && (owners || name !== "owner"))
    .map((name) => ({ name, label: workloadColumns[name] }));

/** What is shown unless somebody chooses. */
export const defaultColumns = (owners: boolean): WorkloadColumn[] => [
  "name",
  ...(owners ? (["owner"] as const) : []),
  "images",
  "containers",
  "findings",
  "since",
];
