export * from "./databases/databases.ts";
export * from "./images/images.ts";
export * from "./operator/operator.ts";
export * from "./scan-results/scan-results.ts";
