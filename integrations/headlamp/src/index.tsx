import {
  ApiProxy,
  ConfigStore,
  registerDetailsViewSection,
  registerPluginSettings,
} from "@kinvolk/headlamp-plugin/lib";
import { Client } from "./client";
import { FindingsSection } from "./section";
import { type Settings, settingsOf } from "./settings";
import { SettingsForm } from "./settings-form";
import { type KubeObject, workloadOf } from "./workload";

/** The name of the package, under which Headlamp stores the settings. */
const plugin = "scanner-operator-headlamp";
const useStored = new ConfigStore<Partial<Settings> | undefined>(plugin).useConfig();

/** One client for each cluster, which keeps its tokens in memory. */
const clients = new Map<string, Client>();

function clientOf(cluster: string): Client {
  let client = clients.get(cluster);
  if (!client) clients.set(cluster, (client = new Client(ApiProxy.request, cluster)));
  return client;
}

function Section({ resource }: { resource?: KubeObject & { cluster?: string } }) {
  const settings = settingsOf(useStored());
  const workload = resource && workloadOf(resource);
  if (!workload) return null;
  const cluster = resource.cluster ?? "";
  return (
    <FindingsSection
      key={JSON.stringify([cluster, workload, settings])}
      client={clientOf(cluster)}
      settings={settings}
      workload={workload}
      pod={resource.kind === "Pod"}
    />
  );
}

registerDetailsViewSection(Section);
registerPluginSettings(plugin, SettingsForm, true);
