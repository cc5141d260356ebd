import {
  getGetClusterReportUrl,
  getGetNamespaceReportUrl,
  getGetOwnerReportUrl,
} from "@/gen/reports/reports";

export interface ReportScope {
  owner?: string;
  namespace?: string;
}

/** The path of a report as a page. An owner has a report about all of its namespaces. */
export function reportPath({ owner, namespace }: ReportScope, since: string) {
  const params = { since, format: "html" } as const;
  if (owner) return getGetOwnerReportUrl(owner, params);
  if (namespace) return getGetNamespaceReportUrl(namespace, params);
  return getGetClusterReportUrl(params);
}
