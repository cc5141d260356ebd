export * from "./images/images";
export * from "./operator/operator";
export * from "./scan-results/scan-results";
