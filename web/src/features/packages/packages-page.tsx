import { PackageSearch } from "lucide-react";
import { useCallback, useMemo } from "react";
import { ExportMenu } from "@/components/export-menu";
import { NamespaceFilter, OverdueFilter, OwnerFilter, SeverityFilter } from "@/components/filter-fields";
import { FilterBar } from "@/components/ui/filter-bar";
import { ListPanel } from "@/components/ui/list-panel";
import { useOpenRows } from "@/components/ui/open-rows";
import { PageTitle } from "@/components/ui/page-title";
import { SearchInput } from "@/components/ui/search-input";
import { Select, type Option } from "@/components/ui/select";
import { StatePanel } from "@/components/ui/state";
import { TextFilter } from "@/components/ui/text-filter";
import { ToggleButton } from "@/components/ui/toggle-button";
import { useList } from "@/components/ui/use-list";
import { Empty } from "@/features/session/empty";
import { ListPackagesSort, type PackagePage, type PackageSummary } from "@/gen/model";
import { getListPackagesUrl, listPackages } from "@/gen/packages/packages";
import { useAddress } from "@/lib/address";
import { plural } from "@/lib/format";
import { sumsKey } from "@/lib/lists";
import { columns, grid, PackageCard, PackageDetail, packageKey } from "./columns";
import { lacksName, packageFilters, toRequest } from "./filters";

const sortOptions: Option<ListPackagesSort>[] = [
  { value: ListPackagesSort["-severity"], label: "Most severe" },
  { value: ListPackagesSort.name, label: "Name" },
];

const knownTypes = [
  "apk",
  "deb",
  "rpm",
  "go-module",
  "java-archive",
  "npm",
  "python",
  "gem",
  "dotnet",
  "rust-crate",
  "php-composer",
  "binary",
];

function TypeFilter({ value, onChange }: { value: string; onChange: (type: string) => void }) {
  const types = value === "" || knownTypes.includes(value) ? knownTypes : [...knownTypes, value];
  return (
    <Select
      label="Type"
      options={[{ value: "", label: "Any" }, ...types.map((type) => ({ value: type, label: type }))]}
      value={value}
      active={value !== ""}
      onChange={onChange}
    />
  );
}

const renderDetail = (row: PackageSummary) => <PackageDetail row={row} />;

export function PackagesPage() {
  const { filters, update } = useAddress(packageFilters);
  const request = toRequest(filters);
  const list = useList<PackageSummary, PackagePage>({
    queryKey: [...sumsKey, "packages", request],
    load: (page, init) => listPackages({ ...request, ...page }, init),
    rowKey: packageKey,
  });
  const { isOpen, toggle } = useOpenRows(packageKey);
  const tableColumns = useMemo(
    () => columns({ sort: filters.sort, setSort: (sort) => update({ sort }), isOpen, toggle }),
    [filters.sort, update, isOpen, toggle],
  );
  const renderCard = useCallback(
    (row: PackageSummary) => <PackageCard row={row} open={isOpen(row)} onToggle={() => toggle(row)} />,
    [isOpen, toggle],
  );
  const filtered = packageFilters.isFiltered(filters);
  const clear = () => update(packageFilters.none);
  const total = list.page?.total;
  return (
    <>
      <PageTitle
        title="Packages"
        hint="All packages with the images that contain them, for example log4j-core <2.17."
      />
      <FilterBar
        label="Packages"
        count={total === undefined ? "" : plural(total, "package")}
        filtered={filtered}
        onClear={clear}
        actions={
          <ExportMenu
            formats={["csv"]}
            name="packages"
            url={(format) => getListPackagesUrl({ ...request, format })}
          />
        }
      >
        <SearchInput
          label="Search packages"
          placeholder={filters.version ? "Full name" : "Name or part of a name"}
          value={filters.name}
          maxLength={256}
          onChange={(name) => update({ name })}
          className="w-full sm:w-72"
        />
        <TextFilter
          label="Version"
          placeholder="Version, such as <2.17"
          value={filters.version}
          maxLength={256}
          onChange={(version) => update({ version })}
          className="w-48"
        />
        <TypeFilter value={filters.type} onChange={(type) => update({ type })} />
        <SeverityFilter value={filters.severity} onChange={(severity) => update({ severity })} />
        <ToggleButton pressed={filters.vulnerable} onChange={(vulnerable) => update({ vulnerable })}>
          Vulnerable
        </ToggleButton>
        <OverdueFilter value={filters.overdue} onChange={(overdue) => update({ overdue })} />
        <NamespaceFilter value={filters.namespace} onChange={(namespace) => update({ namespace })} />
        <OwnerFilter value={filters.owner} onChange={(owner) => update({ owner })} />
        <Select
          label="Sort"
          options={sortOptions}
          value={filters.sort}
          onChange={(sort) => update({ sort })}
        />
      </FilterBar>
      {filters.version && (
        <p role="status" className="mt-2 text-[13px] text-muted">
          {lacksName(filters)
            ? "To filter by version, enter the full name of the package."
            : "Packages with exactly this name and a matching version, compared by the rules of the package type."}
        </p>
      )}
      <h2 className="sr-only">Packages</h2>
      <ListPanel
        label="Packages"
        list={list}
        columns={tableColumns}
        grid={grid}
        rowHeight={44}
        cardHeight={118}
        renderCard={renderCard}
        renderDetail={renderDetail}
        isOpen={isOpen}
        empty={
          <Empty
            filtered={filtered}
            namespace={filters.namespace}
            noMatch="No package matches"
            nothing="No packages in your namespaces"
            onClear={clear}
          >
            <StatePanel icon={PackageSearch} title="No packages yet">
              <p>Packages appear here when an image is cataloged.</p>
            </StatePanel>
          </Empty>
        }
      />
    </>
  );
}
