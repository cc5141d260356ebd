import type { Workload } from "@/gen/model";
import { visible } from "./text";

export const vulnerabilityPath = (id: string) => `/vulnerabilities/${encodeURIComponent(id)}`;

/** Where all images of a workload are listed. */
export const imagesOfPath = ({ namespace, kind, name }: Workload) =>
  `/images?${new URLSearchParams({ namespace, kind, workload: name }).toString()}`;

export const rolloutPath = (id: number) => `/rollouts/${id}`;

/** Where the rollouts of workloads of this name are listed. */
export const rolloutsOfWorkloadPath = ({ namespace, name }: Workload) =>
  `/rollouts?${new URLSearchParams({ namespace, workload: name }).toString()}`;

/** Where the rollouts from and to an image are listed. */
export const rolloutsOfImagePath = (imageId: string) =>
  `/rollouts?${new URLSearchParams({ image: imageId }).toString()}`;

/** Where the workloads that run images on a base image are listed, all of them or those of a namespace and an owner. */
export const workloadsOnBasePath = (
  chainId: string,
  { namespace, owner }: { namespace?: string; owner?: string } = {},
) =>
  `/workloads?${new URLSearchParams({ base: chainId, ...(namespace && { namespace }), ...(owner && { owner }) }).toString()}`;

/** Where the images on a base image are listed, all of them or those of a namespace and an owner. */
export const imagesOnBasePath = (chainId: string, { namespace = "", owner = "" } = {}) =>
  `/images?${new URLSearchParams({ base: chainId, ...(namespace && { namespace }), ...(owner && { owner }) }).toString()}`;

export const workloadName = ({ namespace, kind, name }: Workload) => visible(`${namespace}/${kind}/${name}`);

/** Where the workloads of an owner are listed, or those without one. */
export const workloadsOfOwnerPath = (owner: string | undefined) =>
  `/workloads?${new URLSearchParams(owner === undefined ? { noOwner: "true" } : { owner }).toString()}`;

/** Where the actions for an image are listed. */
export const fixesOfImagePath = (imageId: string) =>
  `/fixes?${new URLSearchParams({ image: imageId }).toString()}`;

/** Where the actions for the images of workloads of this name are listed. */
export const fixesOfWorkloadPath = ({ namespace, name }: Workload) =>
  `/fixes?${new URLSearchParams({ namespace, workload: name }).toString()}`;

/** Where an image is compared with others of the same platform, which replace it. */
export const comparePath = (from: string, platform: string) =>
  `/compare?${new URLSearchParams({ from, ...(platform && { platform }) }).toString()}`;
