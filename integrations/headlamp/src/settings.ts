import { safeURL } from "../../../web/src/lib/safe-url";

/** What a user configures in Headlamp. */
export interface Settings {
  /** Namespace and name of the Service of the operator. */
  namespace: string;
  service: string;
  /** Whose tokens authenticate to the operator, as NAME or NAMESPACE/NAME; "" sends none. */
  serviceAccount: string;
  /** Where browsers reach the UI of the operator; "" shows no links to it. */
  address: string;
}

/** The names that the Helm release "scanner" and the kustomize manifests give the Service. */
export const defaults: Settings = {
  namespace: "scanner-system",
  service: "scanner-controller-manager-api-service",
  serviceAccount: "",
  address: "",
};

const fields = Object.keys(defaults) as (keyof Settings)[];

/** Reads what is stored: an empty namespace or Service is the default. */
export function settingsOf(stored: Partial<Record<keyof Settings, unknown>> | undefined): Settings {
  const settings = { ...defaults };
  for (const field of fields) {
    const value = stored?.[field];
    if (typeof value === "string" && value.trim() !== "") settings[field] = value.trim();
  }
  return settings;
}

const label = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const account = /^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\/)?[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

/** What is wrong with settings, by field; empty if nothing is. Names become parts of paths, so that only valid ones are used. */
export function mistakes(settings: Settings): Partial<Record<keyof Settings, string>> {
  return {
    ...(!label.test(settings.namespace) && {
      namespace: "This is not the name of a namespace.",
    }),
    ...(!label.test(settings.service) && {
      service: "This is not the name of a Service.",
    }),
    ...(settings.serviceAccount !== "" &&
      !account.test(settings.serviceAccount) && {
        serviceAccount: "Use the form NAME or NAMESPACE/NAME.",
      }),
    ...(settings.address !== "" &&
      uiOf(settings) === undefined && {
        address: "Use an address that begins with https:// or http://.",
      }),
  };
}

/** The address of the UI without a slash at its end, undefined without a valid one. */
export function uiOf({ address }: Settings): string | undefined {
  const url = safeURL(address);
  return url === undefined ? undefined : url.replace(/[?#].*$/, "").replace(/\/+$/, "");
}

/** The namespace and name of the ServiceAccount: the namespace is that of the workload if the setting has none. */
export function accountOf({ serviceAccount }: Settings, namespace: string): [string, string] {
  const [first, second] = serviceAccount.split("/");
  return second === undefined ? [namespace, first ?? ""] : [first ?? "", second];
}
