import { X } from "lucide-react";
import { allFormats, ExportMenu } from "@/components/export-menu";
import {
  DaysFilter,
  FixableFilter,
  KevFilter,
  NamespaceFilter,
  OverdueFilter,
  OwnerFilter,
  SeverityFilter,
  WithoutOwner,
} from "@/components/filter-fields";
import { ReportMenu } from "@/components/report-menu";
import { Button } from "@/components/ui/button";
import { ColumnsMenu } from "@/components/ui/columns-menu";
import { FilterBar } from "@/components/ui/filter-bar";
import { SearchInput } from "@/components/ui/search-input";
import { MultiSelect, Select, type Option } from "@/components/ui/select";
import { getListImagesUrl } from "@/gen/images/images";
import { ListImagesSort } from "@/gen/model";
import { useHasOwners } from "@/lib/owners";
import { plural } from "@/lib/format";
import { visible } from "@/lib/text";
import { allStates } from "../state";
import { columnChoices, type ImageColumn } from "./column-names";
import { imageFilters, toGroup, toRequest, type Filters } from "./filters";
import { ImageGroupSelect } from "./group-select";

const sortOptions: Option<ListImagesSort>[] = [
  { value: ListImagesSort["-severity"], label: "Most severe" },
  { value: ListImagesSort.imageId, label: "Image" },
  { value: ListImagesSort.created, label: "Oldest" },
];

const stateOptions = allStates.map((state) => ({ value: state, label: state }));

const endOfLifeSteps = { 0: "Reached", 90: "Within 90 days", 365: "Within a year" };
const ageSteps = { 90: "90 days or more", 180: "180 days or more", 365: "A year or more" };

interface Props {
  filters: Filters;
  update: (change: Partial<Filters>) => void;
  total: number | undefined;
  /** The columns that are shown. */
  shown: readonly ImageColumn[];
}

export function ImageFilterBar({ filters, update, total, shown }: Props) {
  const hasOwners = useHasOwners();
  return (
    <FilterBar
      label="Images"
      count={total === undefined ? "" : plural(total, "image")}
      filtered={imageFilters.isFiltered(filters)}
      onClear={() => update(imageFilters.none)}
      actions={
        <>
          <ColumnsMenu
            choices={columnChoices(hasOwners)}
            always="image"
            shown={shown}
            onChange={(columns) => update({ columns })}
          />
          <ReportMenu scope={filters} />
          <ExportMenu
            formats={allFormats}
            name="images"
            url={(format) => getListImagesUrl({ ...toRequest(filters), format })}
          />
        </>
      }
    >
      <SearchInput
        label="Search images"
        placeholder="Search images"
        value={filters.text}
        maxLength={512}
        onChange={(text) => update({ text })}
        className="w-full sm:w-72"
      />
      <MultiSelect
        label="State"
        all="Any"
        options={stateOptions}
        value={filters.state}
        onChange={(state) => update({ state })}
        className="max-w-56"
      />
      <SeverityFilter value={filters.severity} onChange={(severity) => update({ severity })} />
      <FixableFilter value={filters.fixable} onChange={(fixable) => update({ fixable })} />
      <KevFilter value={filters.kev} onChange={(kev) => update({ kev })} />
      <OverdueFilter value={filters.overdue} onChange={(overdue) => update({ overdue })} />
      <DaysFilter
        label="End of life"
        steps={endOfLifeSteps}
        other={(days) => `Within ${plural(days, "day")}`}
        value={filters.endOfLifeWithin}
        onChange={(endOfLifeWithin) => update({ endOfLifeWithin })}
      />
      <DaysFilter
        label="Age"
        steps={ageSteps}
        other={(days) => `${plural(days, "day")} or more`}
        value={filters.olderThan}
        onChange={(olderThan) => update({ olderThan })}
      />
      <NamespaceFilter value={filters.namespace} onChange={(namespace) => update({ namespace })} />
      <OwnerFilter value={filters.owner} onChange={(owner) => update({ owner })} />
      {filters.noOwner && <WithoutOwner what="images" onClear={() => update({ noOwner: false })} />}
      <ImageGroupSelect value={filters.group} onChange={(group) => update(toGroup(filters, group))} />
      <Select label="Sort" options={sortOptions} value={filters.sort} onChange={(sort) => update({ sort })} />
      {filters.base && (
        <Button
          onClick={() => update({ base: "", baseLayers: undefined })}
          aria-label="Show images on all base images"
          title={visible(filters.base)}
          className="max-w-72 border-accent bg-accent-soft"
        >
          <span className="truncate">On one base image</span>
          <X aria-hidden />
        </Button>
      )}
      {filters.running && (
        <Button
          onClick={() => update({ running: false })}
          aria-label="Also show images that do not run"
          className="max-w-72 border-accent bg-accent-soft"
        >
          <span className="truncate">Running</span>
          <X aria-hidden />
        </Button>
      )}
      {filters.workload && (
        <Button
          onClick={() => update({ workload: "", workloadKind: "" })}
          aria-label="Show images of all workloads"
          className="max-w-72 border-accent bg-accent-soft"
        >
          <span className="untrusted truncate">
            {visible([filters.workloadKind, filters.workload].filter(Boolean).join("/"))}
          </span>
          <X aria-hidden />
        </Button>
      )}
    </FilterBar>
  );
}
