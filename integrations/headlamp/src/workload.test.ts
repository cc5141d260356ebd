import { describe, expect, test } from "vitest";
import { type KubeObject, workloadOf } from "./workload";

const object = (kind: string, name: string, metadata: KubeObject["metadata"] = {}): KubeObject => ({
  kind,
  metadata: { namespace: "shop", name, ...metadata },
});
const controlledBy = (kind: string, name: string) => ({
  ownerReferences: [
    { kind: "Widget", name: "other" },
    { kind, name, controller: true },
  ],
});
const hash = { labels: { "pod-template-hash": "5d9c" } };

describe("workloadOf", () => {
  test.each([
    ["a Deployment", object("Deployment", "web"), "Deployment web"],
    ["a StatefulSet", object("StatefulSet", "db"), "StatefulSet db"],
    ["a DaemonSet", object("DaemonSet", "agent"), "DaemonSet agent"],
    ["a CronJob", object("CronJob", "report"), "CronJob report"],
    ["a Job", object("Job", "migrate"), "Job migrate"],
    ["the Job of a CronJob", object("Job", "report-29379000"), "CronJob report"],
    ["a Job that ends with a date", object("Job", "report-20261231"), "Job report-20261231"],
    ["a ReplicaSet", object("ReplicaSet", "web-5d9c"), "ReplicaSet web-5d9c"],
    ["the ReplicaSet of a Deployment", object("ReplicaSet", "web-5d9c", hash), "Deployment web"],
    ["a pod", object("Pod", "debug"), "Pod debug"],
    [
      "the pod of a Deployment",
      object("Pod", "web-5d9c-x", {
        ...controlledBy("ReplicaSet", "web-5d9c"),
        ...hash,
      }),
      "Deployment web",
    ],
    ["the pod of a ReplicaSet", object("Pod", "web-x", controlledBy("ReplicaSet", "web")), "ReplicaSet web"],
    [
      "the pod of a CronJob",
      object("Pod", "report-29379000-x", controlledBy("Job", "report-29379000")),
      "CronJob report",
    ],
    ["the pod of another kind", object("Pod", "set-0", controlledBy("PodSet", "set")), "PodSet set"],
    ["a pod with a name like that of a Job", object("Pod", "report-29379000"), "Pod report-29379000"],
    ["a ReplicaSet that only the hash names", object("ReplicaSet", "-5d9c", hash), "ReplicaSet -5d9c"],
  ])("%s", (_, given, want) => {
    const { namespace, kind, name } = workloadOf(given) ?? {};
    expect([namespace, `${kind} ${name}`]).toEqual(["shop", want]);
  });

  test.each([
    ["another kind", object("ConfigMap", "web")],
    ["an object without a namespace", { kind: "Pod", metadata: { name: "web" } }],
    ["an object that is being loaded", {}],
  ])("nothing for %s", (_, given) => expect(workloadOf(given)).toBeUndefined());
});
