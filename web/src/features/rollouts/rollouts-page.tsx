import { PageTitle } from "@/components/ui/page-title";
import { Tabs } from "@/components/ui/tabs";
import { useAddress } from "@/lib/address";
import { rolloutFilters, tabs } from "./filters";
import { History } from "./history";
import { Deployments } from "./live/deployments";

const tabOptions = [
  { value: tabs.history, label: "History" },
  { value: tabs.live, label: "Live Deployments" },
];

export function RolloutsPage() {
  const { filters, update } = useAddress(rolloutFilters);
  return (
    <>
      <PageTitle
        title="Rollouts"
        hint="Image changes of workloads, with the findings that each change opened and closed."
      />
      <Tabs label="Rollouts" options={tabOptions} value={filters.tab} onChange={(tab) => update({ tab })}>
        {filters.tab === tabs.live ? (
          <Deployments filters={filters} update={update} />
        ) : (
          <History filters={filters} update={update} />
        )}
      </Tabs>
    </>
  );
}
