import { Rocket, X } from "lucide-react";
import { NamespaceFilter, OwnerFilter } from "@/components/filter-fields";
import { Button } from "@/components/ui/button";
import { DayInput } from "@/components/ui/day-input";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { StatePanel } from "@/components/ui/state";
import { TextFilter } from "@/components/ui/text-filter";
import { ImageName } from "@/components/image-name";
import { Empty } from "@/features/session/empty";
import type { Rollout } from "@/gen/model";
import { useNow } from "@/lib/clock";
import { dayOf } from "@/lib/day";
import { plural } from "@/lib/format";
import { columns, grid, RolloutCard } from "./columns";
import { rolloutFilters, toRequest, type RolloutFilters } from "./filters";
import { useRolloutEvents, useRollouts } from "./queries";

const renderCard = (row: Rollout) => <RolloutCard row={row} />;

interface Props {
  filters: RolloutFilters;
  update: (change: Partial<RolloutFilters>) => void;
}

/** The rollouts that are remembered, the latest first. */
export function History({ filters, update }: Props) {
  useRolloutEvents();
  const list = useRollouts(toRequest(filters));
  const today = dayOf(useNow());
  const filtered = rolloutFilters.isFiltered(filters);
  const clear = () => update(rolloutFilters.none);
  const total = list.page?.total;
  return (
    <>
      <FilterBar
        label="Rollouts"
        count={total === undefined ? "" : plural(total, "rollout")}
        filtered={filtered}
        onClear={clear}
      >
        <NamespaceFilter value={filters.namespace} onChange={(namespace) => update({ namespace })} />
        <TextFilter
          label="Workload"
          placeholder="Workload"
          value={filters.workload}
          maxLength={253}
          onChange={(workload) => update({ workload })}
          className="w-44"
        />
        <OwnerFilter value={filters.owner} onChange={(owner) => update({ owner })} />
        <DayInput
          label="From"
          value={filters.since}
          max={today}
          optional
          onChange={(since) => update({ since })}
        />
        <DayInput
          label="To"
          value={filters.until}
          max={today}
          optional
          onChange={(until) => update({ until })}
        />
        {filters.imageId && (
          <Button
            onClick={() => update({ imageId: "" })}
            aria-label="Show rollouts of all images"
            className="max-w-72 border-accent bg-accent-soft"
          >
            <ImageName imageId={filters.imageId} className="truncate" />
            <X aria-hidden />
          </Button>
        )}
      </FilterBar>
      <h2 className="sr-only">Rollouts</h2>
      <ListPanel
        label="Rollouts"
        list={list}
        columns={columns}
        grid={grid}
        rowHeight={68}
        cardHeight={170}
        renderCard={renderCard}
        empty={
          <Empty
            filtered={filtered}
            namespace={filters.namespace}
            noMatch="No rollout matches"
            nothing="No rollouts in your namespaces"
            onClear={clear}
          >
            <StatePanel icon={Rocket} title="No rollouts yet">
              <p>Rollouts appear here when the image of a workload changes.</p>
            </StatePanel>
          </Empty>
        }
      />
    </>
  );
}
