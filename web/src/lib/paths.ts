import type { Workload } from "@/gen/model";
import { visible } from "./text";

export const vulnerabilityPath = (id: string) => `/vulnerabilities/${encodeURIComponent(id)}`;

/** Where all images of a workload are listed. */
export const imagesOfPath = ({ namespace, kind, name }: Workload) =>
  `/?${new URLSearchParams({ namespace, kind, workload: name }).toString()}`;

export const workloadName = ({ namespace, kind, name }: Workload) => visible(`${namespace}/${kind}/${name}`);
