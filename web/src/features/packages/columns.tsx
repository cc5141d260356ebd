import { FirstImage, ImageLinks } from "@/components/image-links";
import { KevMark, SeverityCounts } from "@/components/severity";
import { RowToggle } from "@/components/ui/open-rows";
import { sortable } from "@/components/ui/sort-header";
import type { Column } from "@/components/ui/virtual-table";
import { Part } from "@/components/vulnerability-facts";
import { ListPackagesSort as By, type PackageSummary } from "@/gen/model";
import { formatNumber, plural } from "@/lib/format";
import { visible } from "@/lib/text";

export const grid =
  "grid-cols-[1.5rem_minmax(10rem,1.3fr)_minmax(7rem,1fr)_6.5rem_22rem_minmax(7rem,1fr)_5rem]";

export const packageKey = ({ package: pkg }: PackageSummary) => pkg.id;

const toggleLabel = ({ package: pkg }: PackageSummary) =>
  `Details of ${visible(pkg.name)} ${visible(pkg.version)}`;

const named = ({ imageIds }: PackageSummary) => imageIds.map((imageId) => ({ imageId }));

interface Options {
  sort: By;
  setSort: (sort: By) => void;
  isOpen: (row: PackageSummary) => boolean;
  toggle: (row: PackageSummary) => void;
}

export const columns = ({ sort, setSort, isOpen, toggle }: Options): Column<PackageSummary>[] => [
  {
    id: "toggle",
    header: () => <span className="sr-only">Details</span>,
    cell: ({ row: { original: row } }) => (
      <RowToggle label={toggleLabel(row)} open={isOpen(row)} onToggle={() => toggle(row)} />
    ),
  },
  {
    id: "name",
    ...sortable("Package", By.name, "ascending", sort, setSort),
    cell: ({ row: { original: row } }) => (
      <span className="untrusted block truncate text-sm font-medium" title={visible(row.package.name)}>
        {visible(row.package.name)}
      </span>
    ),
  },
  {
    id: "version",
    header: "Version",
    cell: ({ row: { original: row } }) => (
      <span className="untrusted block truncate font-mono text-xs" title={visible(row.package.version)}>
        {visible(row.package.version)}
      </span>
    ),
  },
  {
    id: "type",
    header: "Type",
    cell: ({ row: { original: row } }) => (
      <span className="untrusted block truncate text-[13px] text-muted">{visible(row.package.type)}</span>
    ),
  },
  {
    id: "findings",
    ...sortable("Findings", By["-severity"], "descending", sort, setSort),
    cell: ({ row: { original: row } }) => (
      <span className="flex items-center gap-2">
        <SeverityCounts counts={row.counts} className="w-75 shrink-0" />
        {row.counts.kev > 0 && <KevMark />}
      </span>
    ),
  },
  {
    id: "images",
    header: "Images",
    meta: { className: "text-[13px] [[role=columnheader]&]:text-xs" },
    cell: ({ row: { original: row } }) => <FirstImage images={named(row)} count={row.images} />,
  },
  {
    id: "workloads",
    header: "Workloads",
    meta: { className: "tabular text-right text-[13px] [[role=columnheader]&]:text-xs" },
    cell: ({ row: { original: row } }) => formatNumber(row.workloads),
  },
];

/** Which images hold the package. */
export function PackageDetail({ row }: { row: PackageSummary }) {
  const { package: pkg, images } = row;
  return (
    <div className="grid gap-x-8 gap-y-4 border-t border-line bg-subtle/50 px-4 py-4 md:grid-cols-2 lg:pl-14">
      <Part title={`Images (${formatNumber(images)})`}>
        <ImageLinks images={named(row)} count={images} none="No image holds it any more." />
      </Part>
      <Part title="Package">
        <p className="untrusted font-mono text-xs leading-5 break-all">
          {visible(pkg.purl ?? `${pkg.name} ${pkg.version}`)}
        </p>
        <p className="untrusted text-muted">
          {visible([pkg.type, pkg.language, pkg.distro, ...(pkg.licenses ?? [])].filter(Boolean).join(" · "))}
        </p>
        <p className="text-muted">{plural(row.workloads, "workload")} now</p>
      </Part>
    </div>
  );
}

/** A package on a narrow screen. */
export function PackageCard({
  row,
  open,
  onToggle,
}: {
  row: PackageSummary;
  open: boolean;
  onToggle: () => void;
}) {
  return (
    <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
      <div className="flex items-center gap-2">
        <span className="untrusted min-w-0 truncate text-sm font-medium">{visible(row.package.name)}</span>
        {row.counts.kev > 0 && <KevMark className="shrink-0" />}
        <RowToggle label={toggleLabel(row)} open={open} onToggle={onToggle} className="-mr-1 ml-auto" />
      </div>
      <p className="untrusted truncate text-[13px] text-muted">
        <span className="font-mono text-xs">{visible(row.package.version)}</span> ·{" "}
        {visible(row.package.type)}
      </p>
      <SeverityCounts counts={row.counts} className="mt-1.5" />
      <p className="tabular mt-1.5 flex gap-x-4 text-[13px] text-muted">
        <span>{plural(row.images, "image")}</span>
        <span>{plural(row.workloads, "workload")}</span>
      </p>
    </div>
  );
}
