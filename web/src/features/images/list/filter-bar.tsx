import { Button } from "@/components/ui/button";
import { SearchInput } from "@/components/ui/search-input";
import { MultiSelect, Select, type Option } from "@/components/ui/select";
import { ListImagesSort, type Severity } from "@/gen/model";
import { plural } from "@/lib/format";
import { allStates } from "../state";
import { isFiltered, type Filters } from "./filters";

type Minimum = Severity | "all";

export const minimumOptions: Option<Minimum>[] = [
  { value: "all", label: "Any" },
  { value: "Critical", label: "Critical" },
  { value: "High", label: "High or worse" },
  { value: "Medium", label: "Medium or worse" },
  { value: "Low", label: "Low or worse" },
  { value: "Negligible", label: "Negligible or worse" },
  { value: "Unknown", label: "At least one" },
];

const sortOptions: Option<ListImagesSort>[] = [
  { value: ListImagesSort["-severity"], label: "Most severe" },
  { value: ListImagesSort.imageId, label: "Image" },
];

const stateOptions = allStates.map((state) => ({ value: state, label: state }));

interface Props {
  filters: Filters;
  update: (change: Partial<Filters>) => void;
  total: number | undefined;
}

export function FilterBar({ filters, update, total }: Props) {
  return (
    <div role="search" aria-label="Images" className="flex flex-wrap items-center gap-2">
      <SearchInput
        label="Search images"
        placeholder="Search images"
        value={filters.text}
        maxLength={512}
        onChange={(text) => update({ text })}
        className="w-full sm:w-72 lg:w-96"
      />
      <MultiSelect
        label="State"
        all="Any"
        options={stateOptions}
        value={filters.state}
        onChange={(state) => update({ state })}
        className="max-w-56"
      />
      <Select
        label="Severity"
        options={minimumOptions}
        value={filters.severity ?? "all"}
        active={filters.severity !== undefined}
        onChange={(value) => update({ severity: value === "all" ? undefined : value })}
      />
      <Select label="Sort" options={sortOptions} value={filters.sort} onChange={(sort) => update({ sort })} />
      {isFiltered(filters) && (
        <Button variant="ghost" onClick={() => update({ text: "", state: [], severity: undefined })}>
          Clear filters
        </Button>
      )}
      <p role="status" className="tabular ml-auto text-[13px] text-muted">
        {total === undefined ? "" : plural(total, "image")}
      </p>
    </div>
  );
}
