import type { Severity, Vulnerability } from "@/gen/model";
import { severities } from "@/lib/severity";

/** The worst that any of the records says. */
export function worst(records: Vulnerability[]) {
  const rank = (severity: Severity) => severities.findIndex(({ name }) => name === severity);
  return {
    severity: records.reduce<Severity>(
      (found, { severity }) => (rank(severity) < rank(found) ? severity : found),
      "Unknown",
    ),
    epss: Math.max(0, ...records.map(({ epss }) => epss?.score ?? 0)),
    risk: Math.max(0, ...records.map(({ risk }) => risk)),
    kev: records.some(({ kev }) => (kev?.length ?? 0) > 0),
  };
}
