export * from "./databases/databases.ts";
export * from "./decisions/decisions.ts";
export * from "./images/images.ts";
export * from "./operator/operator.ts";
export * from "./packages/packages.ts";
export * from "./scan-results/scan-results.ts";
export * from "./vulnerabilities/vulnerabilities.ts";
export * from "./workloads/workloads.ts";
