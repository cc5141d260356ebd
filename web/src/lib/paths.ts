import type { BaseSummary, Workload } from "@/gen/model";
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

type Base = Pick<BaseSummary, "chainId" | "layers">;

const onBase = ({ chainId, layers }: Base, { namespace = "", owner = "" } = {}) =>
  new URLSearchParams({
    base: chainId,
    baseLayers: String(layers),
    ...(namespace && { namespace }),
    ...(owner && { owner }),
  }).toString();

/** Where the workloads that run images on a base image are listed, all of them or those of a namespace and an owner. */
export const workloadsOnBasePath = (base: Base, of?: { namespace?: string; owner?: string }) =>
  `/workloads?${onBase(base, of)}`;

/** Where the images on a base image are listed, all of them or those of a namespace and an owner. */
export const imagesOnBasePath = (base: Base, of?: { namespace?: string; owner?: string }) =>
  `/images?${onBase(base, of)}`;

/** What tells base images apart: a chain ID can be that of different numbers of layers. */
export const baseKey = ({ chainId, layers }: Base) => `${chainId} ${layers}`;

export const workloadName = ({ namespace, kind, name }: Workload) => visible(`${namespace}/${kind}/${name}`);

/** Where the workloads of an owner are listed. */
export const workloadsOfOwnerPath = (owner: string) =>
  `/workloads?${new URLSearchParams({ owner }).toString()}`;

/** Where the actions for an image are listed. */
export const fixesOfImagePath = (imageId: string) =>
  `/fixes?${new URLSearchParams({ image: imageId }).toString()}`;

/** Where the actions for the images of workloads of this name are listed. */
export const fixesOfWorkloadPath = ({ namespace, name }: Workload) =>
  `/fixes?${new URLSearchParams({ namespace, workload: name }).toString()}`;

/** Where an image is compared with others of the same platform, which replace it. */
export const comparePath = (from: string, platform: string) =>
  `/compare?${new URLSearchParams({ from, ...(platform && { platform }) }).toString()}`;
