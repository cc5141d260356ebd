import type { Workload } from "../../../web/src/gen/model";

/** What is read of an object of Kubernetes. */
export interface KubeObject {
  kind?: string;
  metadata?: {
    namespace?: string;
    name?: string;
    labels?: Record<string, string>;
    ownerReferences?: { kind: string; name: string; controller?: boolean }[];
  };
}

/** The kinds that have a section on their pages. */
const kinds = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Pod"];

const hashLabel = "pod-template-hash";

/** The workload under which the operator lists what an object runs, undefined for other objects. The rules are those of internal/inventory of the operator. */
export function workloadOf({ kind, metadata }: KubeObject): Workload | undefined {
  const { namespace, name, labels, ownerReferences } = metadata ?? {};
  if (!kind || !namespace || !name || !kinds.includes(kind)) return undefined;
  const controller = kind === "Pod" ? ownerReferences?.find((reference) => reference.controller) : undefined;
  const owner = controller ?? { kind, name };
  const suffix = `-${labels?.[hashLabel] ?? ""}`;
  if (owner.kind === "ReplicaSet" && suffix !== "-" && owner.name.endsWith(suffix) && owner.name !== suffix) {
    return {
      namespace,
      kind: "Deployment",
      name: owner.name.slice(0, -suffix.length),
    };
  }
  const cut = owner.name.lastIndexOf("-");
  if (owner.kind === "Job" && cut > 0 && isMinute(owner.name.slice(cut + 1))) {
    return { namespace, kind: "CronJob", name: owner.name.slice(0, cut) };
  }
  return { namespace, kind: owner.kind, name: owner.name };
}

/** Whether text is a time from 2020 to 2099 in minutes since 1970: a CronJob ends the names of its Jobs with it. */
function isMinute(text: string): boolean {
  return /^\d{8}$/.test(text) && Number(text) >= 26_297_280 && Number(text) < 68_374_080;
}
