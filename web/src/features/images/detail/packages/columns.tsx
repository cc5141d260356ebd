import { KevMark, SeverityCounts } from "@/components/severity";
import { RowToggle } from "@/components/ui/open-rows";
import type { Column } from "@/components/ui/virtual-table";
import type { ImagePackage } from "@/gen/model";
import { visible } from "@/lib/text";
import { OriginMark } from "../origin";
import type { Entry } from "./entries";

export const grid = "grid-cols-[1.5rem_minmax(10rem,1.6fr)_minmax(7rem,1fr)_6.5rem_22rem_6rem]";

interface Options {
  /** Whether the image was matched: without, its counts are not known. */
  matched: boolean;
  isOpen: (entry: Entry) => boolean;
  toggle: (entry: Entry) => void;
}

const toggleLabel = ({ package: pkg }: ImagePackage) =>
  `Details of ${visible(pkg.name)} ${visible(pkg.version)}`;

/** The location that the packages below have in common. */
function Location({ path }: { path: string }) {
  return (
    <span
      data-row-focus
      tabIndex={-1}
      className="untrusted block w-max max-w-[70vw] truncate font-mono text-xs font-medium outline-none"
      title={visible(path)}
    >
      {visible(path)}
    </span>
  );
}

const Path = ({ row, below }: { row: ImagePackage; below: boolean }) =>
  below || row.path === undefined ? null : (
    <span className="untrusted block truncate font-mono text-xs text-muted" title={visible(row.path)}>
      {visible(row.path)}
    </span>
  );

const Findings = ({ row, matched }: { row: ImagePackage; matched: boolean }) =>
  row.excluded || !matched ? (
    <span className="text-[13px] text-muted">{row.excluded ? "Not matched" : "Not matched yet"}</span>
  ) : (
    <span className="flex items-center gap-2">
      <SeverityCounts counts={row.counts} className="w-75 min-w-0" />
      {row.counts.kev > 0 && <KevMark />}
    </span>
  );

export const columns = ({ matched, isOpen, toggle }: Options): Column<Entry>[] => [
  {
    id: "toggle",
    header: () => <span className="sr-only">Details</span>,
    cell: ({ row: { original: entry } }) =>
      "path" in entry ? null : (
        <RowToggle label={toggleLabel(entry.row)} open={isOpen(entry)} onToggle={() => toggle(entry)} />
      ),
  },
  {
    id: "name",
    header: "Location and package",
    cell: ({ row: { original: entry } }) =>
      "path" in entry ? (
        <Location {...entry} />
      ) : (
        <span className={entry.below ? "block pl-4" : "block"}>
          <span
            className="untrusted block truncate text-sm font-medium"
            title={visible(entry.row.package.name)}
          >
            {visible(entry.row.package.name)}
          </span>
          <Path {...entry} />
        </span>
      ),
  },
  {
    id: "version",
    header: "Version",
    cell: ({ row: { original: entry } }) =>
      "path" in entry ? null : (
        <span
          className="untrusted block truncate font-mono text-xs"
          title={visible(entry.row.package.version)}
        >
          {visible(entry.row.package.version)}
        </span>
      ),
  },
  {
    id: "type",
    header: "Type",
    cell: ({ row: { original: entry } }) =>
      "path" in entry ? null : (
        <span className="untrusted block truncate text-[13px] text-muted">
          {visible(entry.row.package.type)}
        </span>
      ),
  },
  {
    id: "findings",
    header: "Findings",
    cell: ({ row: { original: entry } }) =>
      "path" in entry ? null : <Findings row={entry.row} matched={matched} />,
  },
  {
    id: "origin",
    header: "From",
    cell: ({ row: { original: entry } }) =>
      "path" in entry ? null : <OriginMark origin={entry.row.origin} />,
  },
];

/** A package or a location on a narrow screen. */
export function EntryCard({
  entry,
  matched,
  open,
  onToggle,
}: {
  entry: Entry;
  matched: boolean;
  open: boolean;
  onToggle: () => void;
}) {
  if ("path" in entry)
    return (
      <div className="px-4 py-2 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
        <Location {...entry} />
      </div>
    );
  const { row } = entry;
  return (
    <div className="relative px-4 py-3 has-[[data-row-focus]:focus-visible]:bg-accent-soft/60">
      <div className="flex items-center gap-2">
        <span className="untrusted min-w-0 truncate text-sm font-medium">{visible(row.package.name)}</span>
        <OriginMark origin={row.origin} />
        <RowToggle label={toggleLabel(row)} open={open} onToggle={onToggle} className="-mr-1 ml-auto" />
      </div>
      <p className="untrusted truncate text-[13px] text-muted">
        <span className="font-mono text-xs">{visible(row.package.version)}</span> ·{" "}
        {visible(row.package.type)}
      </p>
      <Path {...entry} />
      <div className="mt-1.5">
        <Findings row={row} matched={matched} />
      </div>
    </div>
  );
}
